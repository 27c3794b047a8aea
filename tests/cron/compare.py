#!/usr/bin/env python3
"""Compares the product's cron with others on random (expression, zone, instant): by enumeration, or with croniter.

    tests/cron/compare.py --triples 2000                         # with naive.py; what the suite `unit` does
    python3 -m venv .local/croniter && .local/croniter/bin/pip install croniter
    .local/croniter/bin/python tests/cron/compare.py --croniter --triples 100000

With croniter only triples count that both define alike: fires away from changes of clocks, no range of one value (it takes
3-3 for all), no 1#2 or 5L beside days of the month. Otherwise half of the instants are drawn near changes of clocks. One seed gives the same triples; a difference is printed and ends with 1.
"""
import argparse
import datetime
import pathlib
import random
import subprocess
import sys
import zoneinfo

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import naive  # noqa: E402

TREE = pathlib.Path(__file__).resolve().parents[2]
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia", "Africa/Cairo",
         "Africa/Casablanca", "America/Sao_Paulo", "Asia/Tehran", "Europe/Dublin", "America/St_Johns", "Pacific/Chatham",
         "Asia/Gaza", "America/Scoresbysund", "Antarctica/Troll"]
FIRES = 3
BEGIN, END = 1230768000, 2082758400  # 2009 to 2036


def _item(rng, low, high, wraps=False):
    a, b = rng.sample(range(low, high + 1), 2)
    kind = rng.random()
    if kind < 0.5:
        return str(a)
    if kind < 0.7:
        return f"{a}-{b}" if wraps else f"{min(a, b)}-{max(a, b)}"
    if kind < 0.85:
        return f"*/{rng.randint(1, high - low)}"
    if kind < 0.93:
        return f"{min(a, b)}-{max(a, b)}/{rng.randint(1, 4)}"
    return f"{a}/{rng.randint(1, 9 if high > 9 else 3)}"


def _field(rng, low, high, star, wraps=False):
    if rng.random() < star:
        return "*"
    return ",".join(_item(rng, low, high, wraps) for _ in range(rng.choice([1, 1, 1, 2, 3])))


def _day(rng, croniter):
    if rng.random() < 0.12:
        return rng.choice(["L", "L"] if croniter else ["L", "LW", f"{rng.randint(1, 31)}W", "1,L", "?"])
    return _field(rng, 1, 31, 0.6)


def _weekday(rng, croniter):
    day = rng.randint(0, 6)
    if rng.random() < 0.15:
        return rng.choice([f"{day}#{rng.randint(1, 4)}", f"{day}L"] + ([] if croniter else ["MON-FRI", "SAT,SUN", "FRI-MON", "?"]))
    return _field(rng, 0, 6, 0.6, wraps=not croniter)


def expression(rng, croniter):
    fields = [_field(rng, 0, 59, 0.1), _field(rng, 0, 23, 0.4), _day(rng, croniter), _field(rng, 1, 12, 0.75),
              _weekday(rng, croniter)]
    if croniter and set("L#") & set(fields[4]):
        fields[2] = "*"
    if rng.random() < 0.25:
        fields.insert(0, str(rng.randint(0, 59)) if rng.random() < 0.7 else f"*/{rng.choice([15, 20, 30])}")
    return " ".join(fields)


def changes_of(name):
    """Instants at which the zone's offset changes, to the hour."""
    zone, found = zoneinfo.ZoneInfo(name), []
    last = None
    for at in range(BEGIN, END, 6 * 3600):
        offset = datetime.datetime.fromtimestamp(at, zone).utcoffset()
        if last is not None and offset != last:
            found.append(at)
        last = offset
    return found


def draw(rng, changes, croniter):
    zone = rng.choice(ZONES)
    at = rng.randint(BEGIN, END)
    if not croniter and changes[zone] and rng.random() < 0.5:
        at = rng.choice(changes[zone]) + rng.randint(-2 * 86400, 86400)
    return expression(rng, croniter), zone, at * 1000 + rng.choice([0, 0, 1, 999])


def by_croniter(text, zone, after_ms, changes):
    """The fires by croniter; None where it is not asked: near a change of clocks, or where it is of another mind."""
    import croniter
    fields = text.split()
    if any(field[0] != "*" and not set("L#") & set(field) and len(naive.values(field, low, high)) == high - low + 1
           for field, low, high in ((fields[-3], 1, 31), (fields[-1], 0, 6))):
        return None  # 1-6,0 is * to it
    parts = fields[-1].split(",")
    fields[-1] = ",".join(f"L{part[:-1]}" if part.endswith("L") else part for part in parts)
    start = datetime.datetime.fromtimestamp(after_ms / 1000, zoneinfo.ZoneInfo(zone))
    try:
        one = croniter.croniter(" ".join(fields), start, second_at_beginning=True, implement_cron_bug=True,
                                max_years_between_matches=3)
        found = [int(one.get_next(datetime.datetime).timestamp()) for _ in range(FIRES)]
    except (croniter.CroniterBadCronError, croniter.CroniterBadDateError):
        return None
    low, high = after_ms // 1000 - 2 * 86400, found[-1] + 2 * 86400
    return None if any(low < at < high for at in changes[zone]) else [at * 1000 for at in found]


def by_product(program, triples):
    lines = "".join(f"{text}\t{zone}\t{at}\t{FIRES}\n" for text, zone, at in triples)
    done = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def compare(triples, answers, expect):
    counted = differ = 0
    for (text, zone, at), answer in zip(triples, answers):
        if answer.startswith("refused"):
            continue
        want = expect(text, zone, at)
        if want is None:
            continue
        counted += 1
        if [int(word) for word in answer.split()] != want:
            differ += 1
            print(f"{text!r} in {zone} after {at}: {answer}, expected {want}")
    return counted, differ


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--triples", type=int, default=2000)
    ask.add_argument("--seed", type=int, default=1)
    ask.add_argument("--croniter", action="store_true")
    ask.add_argument("--program", default=str(TREE / "build/sanitize/tests/cron_next"))
    asked = ask.parse_args()
    rng = random.Random(asked.seed)
    changes = {zone: changes_of(zone) for zone in ZONES}
    expect = (lambda *triple: by_croniter(*triple, changes)) if asked.croniter else \
        (lambda text, zone, at: naive.fires(text, zone, at, FIRES))
    counted = differ = drawn = 0
    while counted < asked.triples and drawn < 20 * asked.triples and not differ:
        triples = [draw(rng, changes, asked.croniter) for _ in range(1000 if asked.triples > 1000 else 200)]
        drawn += len(triples)
        more = compare(triples, by_product(asked.program, triples), expect)
        counted, differ = counted + more[0], differ + more[1]
    print(f"{counted} triples compared, {differ} differ (seed {asked.seed}, {drawn} drawn)")
    sys.exit(1 if differ or not counted else 0)


if __name__ == "__main__":
    main()
