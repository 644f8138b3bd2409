"""What is in deploy/ fits the daemon: files parse; metrics, keys, commands, ports, paths exist."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from seglog.broker.daemon.app import FLUSH_SECONDS
from seglog.broker.daemon.main import main as seglogd
from seglog.config import load_broker_config
from support.metrics_scrape import ScrapedFamily, busy_scrape, series_names

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
ALERTS = DEPLOY / "prometheus/alerts.yml"
DASHBOARD = DEPLOY / "grafana/seglog.json"
METRIC = re.compile(r"\b(?:kafka|seglog|process)_[a-z_]\w*")
FROM_PROMETHEUS = {"up", "instance", "job"}
PROMTOOL = shutil.which("promtool")
SYSTEMD_ANALYZE = shutil.which("systemd-analyze")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def dockerfile() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile with their arguments."""
    text = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text())
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.partition(" ") for line in lines if line and not line.startswith("#"))
    return [(name, arguments) for name, _, arguments in pairs]


def dockerfile_environment() -> dict[str, str]:
    words = " ".join(arguments for name, arguments in dockerfile() if name == "ENV").split()
    return dict(word.split("=", 1) for word in words)


@pytest.fixture(scope="module")
def scraped() -> dict[str, ScrapedFamily]:
    return busy_scrape()


# ---- Prometheus


def alert_rules() -> list[dict[str, Any]]:
    return [rule for group in load(ALERTS)["groups"] for rule in group["rules"]]


def test_an_alert_asks_for_a_metric_that_does_not_exist(
    scraped: dict[str, ScrapedFamily],
) -> None:
    check_queries([rule["expr"] for rule in alert_rules()], scraped)


def test_an_alert_says_not_what_to_do() -> None:
    for rule in alert_rules():
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}, rule
        assert set(rule["annotations"]) == {"summary", "description"}, rule


def test_an_alert_is_never_tried() -> None:
    tried = (DEPLOY / "prometheus/alerts_test.yml").read_text()
    assert not [rule["alert"] for rule in alert_rules() if rule["alert"] not in tried]


def test_prometheus_looks_elsewhere() -> None:
    config = load(DEPLOY / "prometheus/prometheus.yml")
    assert config["rule_files"] == [ALERTS.name]
    [job] = config["scrape_configs"]
    assert job["job_name"] == "seglog"
    assert job["static_configs"] == [{"targets": ["seglog:9644"]}]


@needs_promtool
def test_prometheus_refuses_its_files() -> None:
    promtool("check", "config", "prometheus.yml")
    promtool("check", "rules", ALERTS.name)


@needs_promtool
def test_an_alert_fires_at_the_wrong_time() -> None:
    promtool("test", "rules", "alerts_test.yml")


@needs_promtool
def test_a_query_of_the_dashboard_is_no_promql(tmp_path: Path) -> None:
    queries = [
        query.replace("$__rate_interval", "5m").replace("$instance", ".+").replace("$topic", ".+")
        for query in dashboard_queries()
    ]
    rules = [{"record": f"panel:{n}", "expr": query} for n, query in enumerate(queries)]
    path = tmp_path / "panels.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", str(path))


def promtool(*arguments: str) -> None:
    assert PROMTOOL is not None
    finished = subprocess.run(
        [PROMTOOL, *arguments], cwd=ALERTS.parent, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr


def check_queries(queries: list[str], scraped: dict[str, ScrapedFamily]) -> None:
    """Every metric of a query is in a scrape, and every label that selects or groups is its own."""
    known = series_names(scraped)
    labels = {label for family in scraped.values() for label in family.labels}
    # Only seen where there is something to see: no group, no refused connection in that scrape.
    labels |= {"le", "consumergroup", "limit", "reason", "clientSoftwareName"}
    labels |= {"clientSoftwareVersion", *FROM_PROMETHEUS}
    for query in queries:
        names = set(METRIC.findall(query))
        assert names or "up{" in query, query
        assert names <= known, (query, names - known)
        used = re.findall(r"(\w+)\s*(?:=~|!=|=)\s*\"", query)
        for grouping in re.findall(r"\bby \(([^)]*)\)", query):
            used += re.findall(r"\w+", grouping)
        assert set(used) <= labels, (query, set(used) - labels)


# ---- Grafana


def panels() -> list[dict[str, Any]]:
    return [each for each in json.loads(DASHBOARD.read_text())["panels"] if each["type"] != "row"]


def dashboard_queries() -> list[str]:
    return [target["expr"] for panel in panels() for target in panel["targets"]]


def test_a_panel_asks_for_a_metric_that_does_not_exist(scraped: dict[str, ScrapedFamily]) -> None:
    check_queries(dashboard_queries(), scraped)
    source, *variables = json.loads(DASHBOARD.read_text())["templating"]["list"]
    assert (source["type"], source["query"]) == ("datasource", "prometheus")
    for variable in variables:
        found = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"])
        assert found
        assert found[1] in scraped
        assert found[2] == variable["name"]


def test_panels_lie_on_each_other() -> None:
    places: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        position = panel["gridPos"]
        columns = range(position["x"], position["x"] + position["w"])
        rows = range(position["y"], position["y"] + position["h"])
        cells = {(x, y) for x in columns for y in rows}
        assert not cells & places, panel["title"]
        assert max(columns) < 24
        places |= cells
    assert len({panel["id"] for panel in panels()}) == len(panels())


def test_every_panel_says_what_it_shows() -> None:
    """U42."""
    assert not [panel["title"] for panel in panels() if len(panel.get("description", "")) < 20]


def test_the_dashboard_takes_any_prometheus_data_source() -> None:
    """U42: a Grafana that exists already calls its data source otherwise."""
    dashboard = json.loads(DASHBOARD.read_text())
    asking = [*panels(), *dashboard["templating"]["list"][1:]]
    asking += [each for panel in panels() for each in panel["targets"] if "datasource" in each]
    assert {each["datasource"]["uid"] for each in asking} == {"${datasource}"}


def test_grafana_finds_dashboard_and_data() -> None:
    [source] = load(DEPLOY / "grafana/datasource.yml")["datasources"]
    assert source["type"] == "prometheus"
    [provider] = load(DEPLOY / "grafana/dashboards.yml")["providers"]
    mounts = load(DEPLOY / "compose.yaml")["services"]["grafana"]["volumes"]
    assert any(f":{provider['options']['path']}/{DASHBOARD.name}:" in mount for mount in mounts)


# ---- compose, Kubernetes, systemd


def seglog_variables(variables: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name.startswith("SEGLOG_")}


def check_command(words: list[str]) -> None:
    """A command line that the daemon would understand: its options exist."""
    name, *options = words
    outcome = CliRunner().invoke(seglogd, [name, "--help"])
    assert outcome.exit_code == 0, outcome.output
    for option in options:
        if option.startswith("--"):
            assert option in outcome.output


def kubernetes() -> dict[str, dict[str, Any]]:
    documents = yaml.safe_load_all((DEPLOY / "kubernetes/seglog.yaml").read_text())
    return {document["kind"]: document for document in documents}


def container() -> dict[str, Any]:
    pod = kubernetes()["StatefulSet"]["spec"]["template"]["spec"]
    [only] = pod["containers"]
    return dict(only)


def compose_broker() -> dict[str, Any]:
    return dict(load(DEPLOY / "compose.yaml")["services"]["seglog"])


def settings_of_deployments() -> Iterator[tuple[str, dict[str, str]]]:
    yield "Dockerfile", dockerfile_environment()
    yield "compose", dockerfile_environment() | compose_broker()["environment"]
    yield "kubernetes", {each["name"]: in_namespace(each) for each in container()["env"]}
    yield "systemd", dict(each.split("=", 1) for each in systemd_lines("Environment"))


def in_namespace(variable: dict[str, Any]) -> str:
    """The value of a variable of the pod, in a namespace called ``data``."""
    if "valueFrom" in variable:
        assert variable["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.namespace"}}
        return "data"
    return str(variable["value"]).replace("$(POD_NAMESPACE)", "data")


def systemd_lines(key: str) -> list[str]:
    lines = (DEPLOY / "systemd/seglogd.service").read_text().splitlines()
    return [line.partition("=")[2] for line in lines if line.startswith(f"{key}=")]


@pytest.mark.parametrize("name", ["Dockerfile", "compose", "kubernetes", "systemd"])
def test_a_deployment_sets_what_the_daemon_does_not_know(name: str) -> None:
    variables = dict(settings_of_deployments())[name]
    assert seglog_variables(variables)
    config = load_broker_config(None, variables, ())
    assert list(config.log_dirs) == ["/var/lib/seglog/data"]
    if name != "systemd":  # it listens where an installation by hand would
        listener = config.listeners[0]
        assert (listener.host, listener.port) == ("0.0.0.0", 9092)
        assert config.metrics_listener is not None
        assert (config.metrics_listener.host, config.metrics_listener.port) == ("0.0.0.0", 9644)


def test_containers_and_the_host_are_told_the_address_that_they_reach() -> None:
    """U40: a client goes on with the advertised address, and one cannot serve both."""
    variables = dict(settings_of_deployments())["compose"]
    config = load_broker_config(None, variables, ())
    listening = {each.listener_name: each.port for each in config.listeners}
    assert config.advertised_listeners is not None
    told = {each.listener_name: (each.host, each.port) for each in config.advertised_listeners}
    assert told == {"CONTAINERS": ("seglog", 9092), "HOST": ("localhost", 9092)}
    assert listening["CONTAINERS"] == 9092
    assert f"9092:{listening['HOST']}" in compose_broker()["ports"]


def test_clients_of_other_namespaces_resolve_the_advertised_name() -> None:
    """U43."""
    variables = dict(settings_of_deployments())["kubernetes"]
    advertised = load_broker_config(None, variables, ()).advertised_listeners
    assert advertised is not None
    assert advertised[0].host == f"{kubernetes()['Service']['metadata']['name']}.data.svc"


def test_the_properties_of_kubernetes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(kubernetes()["ConfigMap"]["data"]["server.properties"])
    load_broker_config(path, {}, ())


def test_kubernetes_starts_or_asks_something_else() -> None:
    broker = container()
    check_command(broker["args"])
    ports = {port["name"]: port["containerPort"] for port in broker["ports"]}
    assert ports == {"broker": 9092, "metrics": 9644}
    assert broker["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}
    assert broker["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "metrics"}
    service = kubernetes()["Service"]["spec"]
    assert {port["targetPort"] for port in service["ports"]} == set(ports)
    pod = kubernetes()["StatefulSet"]["spec"]["template"]
    assert service["selector"].items() <= pod["metadata"]["labels"].items()
    assert pod["metadata"]["annotations"]["prometheus.io/port"] == str(ports["metrics"])
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    volumes = {each["name"] for each in pod["spec"]["volumes"]}
    claims = kubernetes()["StatefulSet"]["spec"]["volumeClaimTemplates"]
    volumes |= {claim["metadata"]["name"] for claim in claims}
    assert {mount["name"] for mount in broker["volumeMounts"]} == volumes


def test_the_prometheus_operator_finds_nothing() -> None:
    monitor = load(DEPLOY / "kubernetes/servicemonitor.yaml")
    service = kubernetes()["Service"]
    selector = monitor["spec"]["selector"]["matchLabels"]
    assert selector.items() <= service["metadata"]["labels"].items()
    [endpoint] = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert endpoint["path"] == "/metrics"
    # Alerts select by it, and it is the name of the Service.
    [job] = load(DEPLOY / "prometheus/prometheus.yml")["scrape_configs"]
    assert service["metadata"]["name"] == job["job_name"]


def test_a_stop_is_cut_short() -> None:
    """Whoever stops the broker has to wait for its last flush."""
    needed = load_broker_config(None, {}, ()).shutdown_timeout_ms / 1000 + FLUSH_SECONDS
    pod = kubernetes()["StatefulSet"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > needed
    assert int(compose_broker()["stop_grace_period"].removesuffix("s")) > needed
    [stop] = systemd_lines("TimeoutStopSec")
    assert int(stop) > needed


def test_compose_mounts_what_does_not_exist() -> None:
    compose = load(DEPLOY / "compose.yaml")
    for service in compose["services"].values():
        for mount in service["volumes"]:
            source = mount.split(":")[0]
            if source.startswith("."):
                assert (DEPLOY / source).is_file(), mount
            else:
                assert source in compose["volumes"], mount
    assert (DEPLOY / compose_broker()["build"] / "Dockerfile").is_file()
    assert compose_broker()["ports"] == ["9092:19092", "9644:9644"]
    assert compose_broker()["volumes"] == ["seglog-data:/var/lib/seglog"]


def test_systemd_starts_something_else() -> None:
    # strict=False: Environment= stands there more than once
    unit = ConfigParser(strict=False, interpolation=None)
    unit.read(DEPLOY / "systemd/seglogd.service")
    service = unit["Service"]
    program, *words = service["ExecStart"].split()
    assert Path(program).name == "seglogd"
    check_command(words)
    assert service["Type"] == "notify"
    assert service["Restart"] == "on-failure"
    assert "HUP" in service["ExecReload"]
    assert service["StateDirectory"] == "seglog"


@pytest.mark.skipif(SYSTEMD_ANALYZE is None, reason="systemd-analyze is not installed")
def test_the_service_keeps_few_rights() -> None:
    """U43: an exposure of at most 2.0 of 10 (it was 6.9)."""
    assert SYSTEMD_ANALYZE is not None
    unit = str(DEPLOY / "systemd/seglogd.service")
    command = [SYSTEMD_ANALYZE, "security", "--offline=true", "--threshold=20", unit]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if "offline" in finished.stderr:
        pytest.skip("this systemd-analyze judges no files")
    assert finished.returncode == 0, finished.stdout


def test_the_image_runs_something_else() -> None:
    instructions = dict(dockerfile())
    # U43: some engines kill what is "unhealthy", and recovery may take long.
    assert "/healthz" in instructions["HEALTHCHECK"]
    assert json.loads(instructions["ENTRYPOINT"]) == ["seglogd"]
    check_command(json.loads(instructions["CMD"]))
    assert instructions["USER"] == "seglog"
    assert instructions["STOPSIGNAL"] == "SIGTERM"
    assert instructions["VOLUME"] == "/var/lib/seglog"
    assert instructions["EXPOSE"].split() == ["9092", "9644"]
