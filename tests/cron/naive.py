"""Cron by enumeration: every day, every time of it, by Python's zoneinfo. Slow, short, and written from the rules alone.

A fire is found by trying the days around an instant one after the other; nothing of the product is used. The rules are those
of scheduler/features/schedules/cron.h.
"""
import calendar
import datetime
import zoneinfo

MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
UTC = datetime.timezone.utc
DAY = datetime.timedelta(days=1)


def _number(text, names, first):
    return first + names.index(text.lower()) if text.lower() in names else int(text)


def values(field, low, high, names=(), first=0):
    """The plain values that a field names; weekdays are given as 0 to 7."""
    out = set()
    for item in field.split(","):
        base, _, step = item.partition("/")
        if base in ("*", "?"):
            begin, end = low, high
        elif "-" in base:
            begin, end = (_number(part, names, first) for part in base.split("-"))
        else:
            begin = _number(base, names, first)
            if high == 6:
                begin %= 7
            end = high if step else begin
        if end < begin and high == 6:
            end += 7
        out.update(value % 7 if high == 6 else value for value in range(begin, end + 1, int(step or 1)))
    return out


def nearest(date):
    """The weekday (Monday to Friday) of the month that is nearest to the date."""
    inside = [date + n * DAY for n in range(-3, 4) if (date + n * DAY).month == date.month]
    return min((day for day in inside if day.weekday() < 5), key=lambda day: (abs(day - date), day))


class Cron:
    def __init__(self, text):
        fields = text.split()
        second, minute, hour, day, month, weekday = fields if len(fields) == 6 else ["0", *fields]
        self.times = [datetime.time(h, m, s) for h in sorted(values(hour, 0, 23)) for m in sorted(values(minute, 0, 59))
                      for s in sorted(values(second, 0, 59))]
        self.elapsed = "*" in hour or "/" in hour
        self.months = values(month, 1, 12, MONTHS, 1)
        self.day_items, self.weekday_items = day.lower().split(","), weekday.lower().split(",")
        self.both = day[0] in "*?" or weekday[0] in "*?"

    def _by_day(self, date):
        last = calendar.monthrange(date.year, date.month)[1]
        for item in self.day_items:
            if item == "l":
                named = date.day == last
            elif item == "lw":
                named = date == nearest(date.replace(day=last))
            elif item.endswith("w"):
                named = int(item[:-1]) <= last and date == nearest(date.replace(day=int(item[:-1])))
            else:
                named = date.day in values(item, 1, 31)
            if named:
                return True
        return False

    def _by_weekday(self, date):
        last = calendar.monthrange(date.year, date.month)[1]
        for item in self.weekday_items:
            if "#" in item:
                which, nth = item.split("#")
                named = date.isoweekday() % 7 == _number(which, WEEKDAYS, 0) % 7 and (date.day - 1) // 7 + 1 == int(nth)
            elif item.endswith("l"):
                named = date.isoweekday() % 7 == _number(item[:-1], WEEKDAYS, 0) % 7 and date.day + 7 > last
            else:
                named = date.isoweekday() % 7 in values(item, 0, 6, WEEKDAYS)
            if named:
                return True
        return False

    def matches(self, date):
        if date.month not in self.months:
            return False
        by_day, by_weekday = self._by_day(date), self._by_weekday(date)
        return by_day and by_weekday if self.both else by_day or by_weekday


def _exists(local, zone):
    return local.astimezone(UTC).astimezone(zone).replace(tzinfo=None, fold=0) == local.replace(tzinfo=None, fold=0)


def _jump(local, zone):
    """The instant at which clocks jump over the local time."""
    low, high = (int(local.replace(fold=fold).timestamp()) for fold in (1, 0))
    low, high = low - 86400, high + 86400
    offset = datetime.datetime.fromtimestamp(low, zone).utcoffset()
    while high - low > 1:
        middle = (low + high) // 2
        if datetime.datetime.fromtimestamp(middle, zone).utcoffset() == offset:
            low = middle
        else:
            high = middle
    return high


def _instants(local, zone, elapsed):
    if not _exists(local, zone):
        return [] if elapsed else [_jump(local, zone)]
    folds = [local.replace(fold=fold) for fold in (0, 1)]
    return [int(one.timestamp()) for one in (folds if elapsed else folds[:1])]


def fires(text, zone_name, after_ms, count, days=400):
    """The first fires after the instant, in ms; None: not so many within `days` days."""
    cron, zone = Cron(text), zoneinfo.ZoneInfo(zone_name)
    date = datetime.datetime.fromtimestamp(after_ms // 1000, zone).date() - 2 * DAY
    found = set()
    enough = None
    for _ in range(days):
        if cron.matches(date):
            for time in cron.times:
                local = datetime.datetime.combine(date, time, zone)
                found.update(at for at in _instants(local, zone, cron.elapsed) if at * 1000 > after_ms)
        date += DAY
        if len(found) >= count:  # two days more: instants of days near a change need not be in order
            enough = 2 if enough is None else enough - 1
            if enough == 0:
                break
    return [at * 1000 for at in sorted(found)[:count]] if len(found) >= count else None
