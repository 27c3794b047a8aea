"""The packages on a fresh Debian with MariaDB and systemd: installed, set up as deploy/README.md says, used, taken away.

Each step is a function of the Debian; a step that fails ends the run with what it saw.
"""
import json
import re
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
UNITS = ("duetime-api", "duetime-dispatcher")
SERVERS = "mariadb-server mariadb-client"


def commands():
    """The lines of the page's first block in "Packages"."""
    page = (TREE / "deploy" / "README.md").read_text().split("## Packages", 1)[1]
    return re.search(r"```\n(apt install .*?)```", page, re.S)[1].splitlines()


def install(debian, packages):
    debian.sh(f"apt-get -qq update && apt-get -qq install -y --no-install-recommends {SERVERS}")
    before = debian.files(), debian.accounts()
    for path in packages:
        debian.put(f"/srv/{path.name}", path.read_bytes())
    first, *_ = commands()
    debian.sh(f"cd /srv && {first.replace('apt install', 'apt-get -qq install -y')} ./duetime-dbgsym_*.deb")
    debian.sh("apt-get -qq install -y --reinstall /srv/duetime_*.deb")  # what is there already is no trouble
    assert debian.sh("stat -c '%a %U:%G' /etc/duetime/duetime.ini").strip() == "640 root:duetime"
    assert "duetime 0.1" in debian.sh("duetime --version; duetime-api --version; duetime-dispatcher --version; gzip -dc /usr/share/man/man1/duetime.1.gz | grep -q duetime")
    debian.sh("bash -c '. /usr/share/bash-completion/completions/duetime && complete -p duetime'")
    return before


def set_up(debian):
    """The rest of the page's commands, word for word."""
    debian.boot()
    debian.until("systemctl is-active mariadb", 60)
    code, told = debian.sh("systemctl is-enabled duetime-api duetime-dispatcher", check=False)
    assert code and told.split() == ["disabled", "disabled"], told
    for line in commands()[1:]:
        debian.sh(line)
    for unit in UNITS:
        shown = debian.sh(f"systemctl show -p ActiveState -p StatusText -p NRestarts {unit}")
        assert "ActiveState=active" in shown and "StatusText=serves" in shown and "NRestarts=0" in shown, shown


def judge_units(debian):
    for unit in UNITS:
        told = debian.sh(f"systemd-analyze security --no-pager {unit} | tail -1")
        assert float(re.search(r"([\d.]+) \w+", told.split(":", 1)[1])[1]) <= 2.0, told
        print(f"      {told.strip()}")
    debian.sh(f"systemd-analyze verify --man=no {' '.join(f'{unit}.service' for unit in UNITS)}")
    assert debian.sh("ps -o user= -C duetime-api,duetime-dispatcher | sort -u").strip() == "duetime"


def use(debian, topic="first"):
    """A job is made, popped and reported."""
    made = json.loads(debian.sh(f"duetime jobs create --topic {topic} --delay 500 --payload '{{\"order\":42}}' --json"))
    popped = json.loads(debian.sh(f"duetime pop {topic} --wait 20s --json").splitlines()[0])
    assert popped["id"] == made["id"], popped
    debian.sh(f"duetime results report {made['id']} --attempt 1 --status succeeded")
    assert json.loads(debian.sh(f"duetime jobs get {made['id']} --json"))["state"] == "succeeded"


def reload(debian):
    debian.sh("sed -i 's/^#level =.*/level = debug/' /etc/duetime/duetime.ini; systemctl reload duetime-api duetime-dispatcher")
    for unit in UNITS:
        debian.until(f"journalctl -u {unit} | grep -q 'reloaded the log level'", 20)
        assert debian.sh(f"systemctl is-active {unit}").strip() == "active"


def wait_for_mysql(debian):
    """Started before MySQL is there, a unit says what it waits for, and counts as started when it serves."""
    debian.sh("systemctl stop duetime-api duetime-dispatcher; systemctl stop mariadb.socket mariadb || systemctl stop mariadb; systemctl start --no-block duetime-api duetime-dispatcher")
    for unit in UNITS:
        debian.until(f"test $(systemctl is-active {unit}) = activating && systemctl show -P StatusText {unit} | grep -q 'waits for MySQL'", 20)
    debian.sh("systemctl start mariadb")
    for unit in UNITS:
        debian.until(f"systemctl is-active {unit}", 30)


def take_a_credential(debian):
    """The account gets a password, which only a credential has."""
    debian.sh("mariadb -e \"ALTER USER duetime@localhost IDENTIFIED BY 'of the store'\"")
    debian.sh("(umask 077; echo 'of the store' > /etc/duetime/credentials/mysql.password); systemctl restart duetime-api duetime-dispatcher")
    use(debian, "second")


def hang(debian):
    """A program whose main loop stands still is started anew by the watchdog."""
    for unit in UNITS:
        debian.sh(f"mkdir -p /etc/systemd/system/{unit}.service.d; printf '[Service]\\nWatchdogSec=2\\nTimeoutAbortSec=1\\n' > /etc/systemd/system/{unit}.service.d/short.conf")
    debian.sh("systemctl daemon-reload; systemctl restart duetime-api duetime-dispatcher; sleep 5")
    for unit in UNITS:
        assert "NRestarts=0" in debian.sh(f"systemctl show -p NRestarts {unit}"), "the watchdog ends what lives"
        debian.sh(f"kill -STOP $(systemctl show -P MainPID {unit})")
        debian.until(f"test $(systemctl show -P NRestarts {unit}) -gt 0 && systemctl is-active {unit}", 30)
    debian.sh("rm -r /etc/systemd/system/duetime-*.service.d; systemctl daemon-reload; systemctl restart duetime-api duetime-dispatcher")
    use(debian, "third")


def purge(debian, before):
    debian.sh("systemctl restart duetime-api; systemctl stop duetime-dispatcher; systemctl show -p Result duetime-dispatcher | grep -q success")
    debian.sh("rm /etc/duetime/credentials/*; mariadb -e 'DROP DATABASE duetime; DROP USER duetime@localhost'")
    debian.sh("apt-get -qq remove -y duetime")  # and the symbols, which need it
    assert debian.sh("ls /etc/duetime").strip() == "duetime.ini"
    debian.sh("apt-get -qq purge -y duetime && apt-get -qq autoremove -y --purge && rm -r /srv/*.deb")
    debian.sh("! pgrep duetime-")
    of_others = set(debian.sh("cat /var/lib/dpkg/info/*.list").split("\n"))  # dependencies that something else recommends may stay
    left = {path for path in debian.files() - before[0] - of_others if not path.endswith("/.updated")}  # systemd's own mark
    gone = before[0] - debian.files()
    assert not left, f"left behind: {sorted(left)}"
    assert not gone, f"taken away: {sorted(gone)}"
    assert debian.accounts() == before[1], "accounts"


STEPS = (judge_units, use, reload, wait_for_mysql, take_a_credential, hang)


def journal(debian):
    """What the units and the system told last."""
    return debian.sh("journalctl --no-pager -n 60 2>&1; systemctl --no-pager status duetime-api duetime-dispatcher 2>&1", check=False)[1]


def whole_life(debian, packages):
    print("    install", flush=True)
    before = install(debian, packages)
    try:
        for step in (set_up, *STEPS):
            print(f"    {step.__name__.replace('_', ' ')}", flush=True)
            step(debian)
    except AssertionError:
        print(journal(debian))
        raise
    print("    purge", flush=True)
    purge(debian, before)
