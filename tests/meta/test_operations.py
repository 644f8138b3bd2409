"""docs/metrics.md, log-events.md and operations.md against the broker itself."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

import pytest

from support.metrics_scrape import ScrapedFamily, busy_broker, parse_families
from support.real_broker import scrape

ROOT = Path(__file__).resolve().parents[2]
PAGES = {"metrics": ROOT / "docs/metrics.md", "events": ROOT / "docs/log-events.md"}
ERROR_LEVELS = {"error", "exception", "critical"}
LOG_CALLS = {*ERROR_LEVELS, "debug", "info", "warning", "log", "report"}


def marked(name: str) -> str:
    found = re.search(
        rf"<!-- {name}: .+? -->(.+?)<!-- end of {name} -->", PAGES[name].read_text(), re.DOTALL
    )
    assert found, name
    return found[1]


@pytest.fixture(scope="module")
def families() -> Iterator[dict[str, ScrapedFamily]]:
    with busy_broker() as (_, port):
        assert scrape(port, "/healthz") == "ok\n"
        assert scrape(port, "/readyz") == "ready\n"
        with pytest.raises(HTTPError, match="404"):
            scrape(port, "/")
        yield parse_families(scrape(port))


def documented_metrics() -> dict[str, tuple[str, set[str]]]:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*?) ?\| .+ \|$", marked("metrics"), re.MULTILINE)
    return {name: (kind, set(filter(None, labels.split(", ")))) for name, kind, labels in rows}


def test_every_metric_is_documented(families: dict[str, ScrapedFamily]) -> None:
    assert set(families) - set(documented_metrics()) == set()


def test_every_documented_metric_exists(families: dict[str, ScrapedFamily]) -> None:
    assert set(documented_metrics()) - set(families) == set()


def test_the_documentation_has_the_kind_and_the_labels_of_each_metric(
    families: dict[str, ScrapedFamily],
) -> None:
    documented = documented_metrics()
    assert {name: family.kind for name, family in families.items()} == {
        name: kind for name, (kind, _) in documented.items()
    }
    for name, family in families.items():
        if family.series and family.labels:
            assert family.labels == documented[name][1], name


def events_in_code() -> dict[str, set[str]]:
    """Every event that the broker logs, with its levels."""
    events: dict[str, set[str]] = {}
    for path in (ROOT / "broker").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            level = node.func.attr
            if level not in LOG_CALLS:
                continue
            for text in (each.value for each in node.args if isinstance(each, ast.Constant)):
                found = re.match(r"event=([\w-]+)", str(text))
                if found:
                    events.setdefault(found[1], set()).add(level)
    return events


def documented_events() -> set[str]:
    cells = re.findall(r"^\| (`.+?`) \|", marked("events"), re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([\w-]+)`", cell)}


def test_every_documented_event_is_logged() -> None:
    assert documented_events() - set(events_in_code()) == set()


def test_every_error_and_warning_is_explained() -> None:
    loud = {*ERROR_LEVELS, "warning"}
    events = {name for name, levels in events_in_code().items() if levels & loud}
    assert events - documented_events() == set()


@pytest.mark.parametrize(
    ("overrides", "status", "said"),
    [
        (["log.segment.bytes=3"], 2, "log.segment.bytes"),
        (["no.such.key=1"], 2, "no.such.key"),
        (["listeners=PLAINTEXT://192.0.2.1:9092"], 1, "192.0.2.1"),
    ],
)
def test_the_exit_status_is_the_documented_one(
    overrides: list[str], status: int, said: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "seglog.broker", "serve"]
    for override in [f"log.dirs={tmp_path}", "metrics.listener=", *overrides]:
        command += ["--override", override]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert finished.returncode == status
    [line] = [each for each in finished.stderr.splitlines() if each.startswith("seglogd: ")]
    assert said in line
