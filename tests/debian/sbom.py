#!/usr/bin/python3
"""The list of what the package is made of (deploy/sbom), held against others that know: dpkg-shlibdeps, which wrote Depends, npm's lock, and the
includes in our sources. usage: sbom.py FOLDER (of the packages)

As a program it also has the schema of CycloneDX judge the list: cyclonedx-python-lib is fetched from PyPI, into .local/linters/sbom.
"""
import json
import re
import subprocess
import sys
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
PLACE = "./usr/share/doc/duetime/duetime.cdx.json"
VALIDATOR = TREE / ".local" / "linters" / "sbom"
NO_LIBRARY = re.compile(r"systemd|tzdata")
JUDGE = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.stdin.read())
sys.exit(f"{error}"[:2000] if error else 0)
"""


def output(*argv):
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout


def text_of(package):
    packed = output("dpkg-deb", "--fsys-tarfile", package)
    return subprocess.run(["tar", "-xO", PLACE], check=True, input=packed, stdout=subprocess.PIPE).stdout.decode()


def linkage(component):
    return next(each["value"] for each in component["properties"] if each["name"] == "duetime:linkage")


def libraries(package):
    """Packages that dpkg-shlibdeps found the programs to need."""
    depends = output("dpkg-deb", "--field", package, "Depends").decode()
    alternatives = [each.split("|")[0].split("(")[0].strip() for each in depends.split(",")]
    return {name for name in alternatives if not NO_LIBRARY.match(name)}


def shipped(build):
    """Packages of npm whose code is in the API; none where it was built without the console."""
    if b"text/javascript; charset" not in (build / "api" / "duetime-api").read_bytes():
        return set()
    lock = json.loads((TREE / "api" / "console" / "package-lock.json").read_text())
    return {path.removeprefix("node_modules/") for path, entry in lock["packages"].items() if path and not entry.get("dev")}


def judge(bom, depends, embedded):
    """What the list lacks, or has too much of."""
    of_kind = {kind: {c["name"] for c in bom["components"] if linkage(c) == kind} for kind in ("dynamic", "headers", "embedded")}
    direct = next(each["dependsOn"] for each in bom["dependencies"] if each["ref"] == "duetime")
    named = {c["bom-ref"]: c["name"] for c in bom["components"]}
    used = {name for ref, name in named.items() if ref in direct}
    yield from (f"{name} is a library that the programs need, and not in the list" for name in sorted(depends - of_kind["dynamic"]))
    yield from (f"{name} is said to be needed by the programs, which dpkg-shlibdeps does not say" for name in sorted((used & of_kind["dynamic"]) - depends))
    if of_kind["embedded"] != embedded:
        yield f"embedded are {sorted(of_kind['embedded'])}, and the console's lock says {sorted(embedded)}"
    if "uthash-dev" not in of_kind["headers"] or {"libcurl4-openssl-dev", "libc6-dev", "zlib1g-dev"} & of_kind["headers"]:
        yield f"headers of {sorted(of_kind['headers'])}"
    graph = {each["ref"]: each["dependsOn"] for each in bom["dependencies"]}
    reached, todo = set(), ["duetime"]
    while todo:
        todo += [ref for ref in graph.get(todo.pop(), ()) if ref not in reached and not reached.add(ref)]
    yield from (f"nothing needs {name}" for ref, name in named.items() if ref not in reached)
    yield from (f"{ref} is needed, and no component" for ref in sorted(reached - set(named)))


def check_sbom(package, build):
    bom = json.loads(text_of(package))
    yield from (f"sbom: {line}" for line in judge(bom, libraries(package), shipped(build)))
    notices = (TREE / "deploy" / "debian" / "copyright").read_text()
    yield from (f"copyright has no notice of {name}" for name in sorted({"uthash", *shipped(build)}) if f"/{name}" not in notices)
    again = json.loads(output(TREE / "deploy" / "sbom", build))
    if again["components"] != bom["components"]:
        yield "sbom: deploy/sbom makes another list of this build"


def fits_schema(text):
    if not (VALIDATOR / "bin/python").exists():
        subprocess.run([sys.executable, "-m", "venv", VALIDATOR], check=True)
        subprocess.run([VALIDATOR / "bin/pip", "-q", "install", "cyclonedx-python-lib[json-validation]"], check=True)
    done = subprocess.run([VALIDATOR / "bin/python", "-c", JUDGE], input=text, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        yield f"sbom: {done.stderr.strip()}"


def main():
    package, = sorted(Path(sys.argv[1]).glob("duetime_*.deb"))
    told = list(fits_schema(text_of(package)))
    print("\n".join(told) or "it fits the schema of CycloneDX 1.6")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
