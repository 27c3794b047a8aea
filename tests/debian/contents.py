#!/usr/bin/python3
"""What is in the Debian packages, without installing them: the files with their modes, what they depend on, the units, the
file of settings. usage: contents.py FOLDER (of the packages) BUILD (of the programs)

Migrations, views and procedures are those of sql/, and the pages of deploy/runbook and deploy/disaster are all there, as is deploy/monitoring; all else is
named in deploy/debian/files.list.
"""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from sbom import check_sbom

TREE = Path(__file__).resolve().parents[2]
DEBIAN = TREE / "deploy" / "debian"
UNITS = ("duetime-api.service", "duetime-dispatcher.service")
MOST_EXPOSED = 2.0
FOLDERS = {"/usr/share/duetime/sql": ("sql", "**/*.sql"), "/usr/share/duetime/monitoring": ("deploy/monitoring", "**/*"),
           "/usr/share/doc/duetime/deploy/runbook": ("deploy/runbook", "**/*.md"), "/usr/share/doc/duetime/deploy/disaster": ("deploy/disaster", "*.md")}


def output(*argv):
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout


def files(package):
    """{path: "mode owner"} of what is no folder."""
    found = {}
    for line in output("dpkg-deb", "--contents", package).splitlines():
        mode, owner, _, _, _, path = line.split(maxsplit=5)
        if not mode.startswith("d"):
            found[path.removeprefix(".")] = f"{mode} {owner}"
    return found


def expected():
    named = [line.split(maxsplit=2) for line in (DEBIAN / "files.list").read_text().splitlines()]
    wanted = {path: f"{mode} {owner}" for mode, owner, path in named}
    for place, (folder, pattern) in FOLDERS.items():
        for path in (TREE / folder).glob(pattern):
            if path.is_file() and "__pycache__" not in path.parts:
                wanted[f"{place}/{path.relative_to(TREE / folder)}"] = None  # any mode
    return wanted


def check_files(package, _):
    have, want = files(package), expected()
    for path in sorted(set(have) | set(want)):
        if path not in have:
            yield f"{path} is missing"
        elif path not in want:
            yield f"{path} is in the package, and not in files.list"
        elif want[path] and want[path] != have[path]:
            yield f"{path} is {have[path]}, and should be {want[path]}"


def check_control(package, _):
    fields = dict(line.split(": ", 1) for line in output("dpkg-deb", "--field", package).splitlines() if ": " in line and not line.startswith(" "))
    version = re.search(r"project\(duetime VERSION (\S+)", (TREE / "CMakeLists.txt").read_text())[1]
    if not fields["Version"].startswith(f"{version}-"):
        yield f"the version is {fields['Version']}, and CMakeLists.txt says {version}"
    for library in ("libc6", "libcurl4", "libmariadb3", "libnghttp2-14", "librdkafka1", "libssl3", "libhiredis", "libzookeeper-mt2", "tzdata"):
        if library not in fields["Depends"]:
            yield f"it does not depend on {library}"
    with tempfile.TemporaryDirectory() as folder:
        output("dpkg-deb", "--control", package, folder)
        if Path(folder, "conffiles").read_text() != "/etc/duetime/duetime.ini\n":
            yield "duetime.ini is no conffile"
        for name in ("postinst", "prerm", "postrm"):
            if not Path(folder, name).stat().st_mode & 0o111:
                yield f"{name} cannot be run"


def check_units(_, build):
    """systemd's own opinion, with the programs of the build in place of those that are not installed here."""
    if not shutil.which("systemd-analyze"):
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in UNITS:
            text = (DEBIAN / name).read_text().replace("/usr/bin/duetime-api", str(build / "api/duetime-api"))
            text = re.sub(r"^Documentation=man:\S+ ", "Documentation=", text, flags=re.M)
            Path(folder, name).write_text(text.replace("/usr/bin/duetime-dispatcher", str(build / "dispatcher/duetime-dispatcher")))
            verdict = subprocess.run(["systemd-analyze", "verify", "--man=no", Path(folder, name)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if verdict.returncode or verdict.stdout.strip():
                yield f"{name}: {verdict.stdout or verdict.returncode}"
            told = subprocess.run(["systemd-analyze", "security", "--offline=true", Path(folder, name)], stdout=subprocess.PIPE, text=True)
            exposure = re.search(r"Overall exposure level for \S+: ([\d.]+)", told.stdout)
            if not exposure or float(exposure[1]) > MOST_EXPOSED:
                yield f"{name} is exposed: {exposure[1] if exposure else told.stdout}"


def check_credentials(package, _):
    """The folder of secrets is root's alone, and both units load it."""
    listed = output("dpkg-deb", "--contents", package)
    if not re.search(r"^drwx------ root/root .* \./etc/duetime/credentials/$", listed, re.M):
        yield "/etc/duetime/credentials is not there for root alone"
    for name in UNITS:
        if "\nLoadCredential=duetime:/etc/duetime/credentials\n" not in (DEBIAN / name).read_text():
            yield f"{name} does not load the folder of secrets"


def check_settings(_, build):
    """The sample names each key of the table once, and is read; so it is with every default in it taken for a value."""
    program = build / "dispatcher/duetime-dispatcher"
    sample = output(program, "--config-sample")
    named = re.findall(r"^#(\w+) =", sample, re.M)
    table = re.findall(r"^\| `\w+\.(\w+)` \|", output(program, "--config-reference"), re.M)
    if named != table:
        yield f"the sample has other keys than the table: {set(named) ^ set(table) or 'in another order'}"
    left_out = re.findall(r"^(\w+) =\n", sample, re.M)
    if left_out != ["endpoints", "brokers", "servers"]:
        yield f"the sample sets {left_out}"
    defaults = re.sub(r"^#(\w+ =)", r"\1", re.sub(r"^\w+ =\n", "", sample, flags=re.M), flags=re.M)
    for text in (sample, defaults):
        with tempfile.NamedTemporaryFile("w", suffix=".ini") as file:
            file.write(text)
            file.flush()
            if subprocess.run([program, "--config", file.name, "--check-config"], stdout=subprocess.DEVNULL).returncode:
                yield "the sample is not read back"


CHECKS = (check_files, check_control, check_sbom, check_units, check_credentials, check_settings)


def main():
    folder, build = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    packages = sorted(folder.glob("duetime_*.deb"))
    symbols = sorted(folder.glob("duetime-dbgsym_*.deb"))
    told = [] if len(packages) == 1 and len(symbols) == 1 else [f"packages: {[path.name for path in folder.glob('*')]}"]
    for check in CHECKS if not told else ():
        told += check(packages[0], build)
    print("\n".join(told), end="\n" if told else "")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
