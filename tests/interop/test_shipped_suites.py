"""The integration suites that clients ship with themselves, run against a broker of ours.

Nothing of them is in this repository: kafka-python's comes with its source distribution from the
package index; aiokafka's is only in its repository, a checkout of which ``AIOKAFKA_SOURCE``
may name. ``*.allow`` lists what passes, and only grows; ``docs/compatibility.md`` says why the rest
does not. Where a suite wants to start a broker itself, it is given the address of ours.
"""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from seglog.clients.testing import RunningBroker, running_broker
from support.foreign.programs import cache_folder
from support.real_broker import free_port

SUITE_SECONDS = 400
HERE = Path(__file__).parent

KAFKA_PYTHON_SERVICES = '''"""The broker runs already: nothing to be started or stopped."""


class ExternalService:
    def __init__(self, host, port):
        self.address = (host, port)

    def open(self):
        pass

    def close(self):
        pass


class SpawnedService(ExternalService):
    pass
'''

AIOKAFKA_FIXTURES = '''"""What the suite expects around it, for a broker that runs already."""

import asyncio
import gc
import os

import pytest

HOST, PORT = os.environ["BROKER_ADDRESS"].split(":")


def pytest_addoption(parser):
    parser.addoption("--docker-image", default=None)


class NoContainer:
    def __getattr__(self, name):
        pytest.skip("wants a container with Kafka in it")


@pytest.fixture(scope="class")
def loop():
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    if not loop.is_closed():
        loop.close()
    gc.collect()
    asyncio.set_event_loop(None)


@pytest.fixture(scope="class")
def setup_test_class_serverless(request, loop):
    request.cls.loop = loop


@pytest.fixture(scope="class")
def setup_test_class(request, loop):
    fields = {
        "loop": loop, "kafka_host": HOST, "kafka_port": int(PORT), "hosts": [f"{HOST}:{PORT}"],
        "kafka_ssl_port": 1, "kafka_sasl_plain_port": 1, "kafka_sasl_ssl_port": 1,
        "ssl_folder": None, "acl_manager": NoContainer(), "kerberos_utils": NoContainer(),
        "kafka_config": NoContainer(), "kafka_version": "2.8.1",
    }
    for name, value in fields.items():
        setattr(request.cls, name, value)
'''


@pytest.fixture
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningBroker]:
    """A broker with what the suites set in Kafka's own configuration."""
    port = free_port()
    configs = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "num.partitions": request.param,
        "auto.create.topics.enable": True,
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 1000,
    }
    with running_broker(configs=configs, folder=tmp_path) as running:
        yield running


def run_suite(folder: Path, paths: list[str], environment: dict[str, str], *options: str) -> str:
    command = [
        sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "-W", "ignore",
        "--timeout", "60", *options, *paths,
    ]  # fmt: skip
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=SUITE_SECONDS,
        check=False,
    )
    return done.stdout + done.stderr


def check(output: str, allowed: Path) -> None:
    """All that is listed must have passed; what passes beyond it should be added to the list."""
    passed = set(re.findall(r"^PASSED (\S+)", output, re.MULTILINE))
    expected = set(allowed.read_text().split())
    assert passed, output[-3000:]
    print("not in the list yet:", sorted(passed - expected))
    assert sorted(expected - passed) == [], output[-3000:]


def kafka_python_source() -> Path:
    """The unpacked source distribution of the installed version."""
    version = importlib.metadata.version("kafka-python")
    folder = cache_folder() / f"kafka-python-{version}"
    if not folder.exists():
        downloads = cache_folder() / "downloads"
        downloads.mkdir(parents=True, exist_ok=True)
        command = [
            sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:",
            "--dest", str(downloads), f"kafka-python=={version}",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        if done.returncode != 0:
            pytest.skip(f"the source of kafka-python {version} was not to be had: {done.stderr}")
        (archive,) = downloads.glob(f"kafka_python-{version}.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(downloads, filter="data")
        (downloads / f"kafka_python-{version}").rename(folder)
    return folder


@pytest.mark.timeout(SUITE_SECONDS)
@pytest.mark.parametrize("broker", [4], indirect=True)
def test_the_suite_of_kafka_python_passes(broker: RunningBroker, tmp_path: Path) -> None:
    """Its integration tests, with the installed library."""
    source = kafka_python_source()
    if not (source / "test/integration").is_dir():
        pytest.skip("this version of kafka-python ships no integration tests")
    shutil.copytree(source / "test", tmp_path / "suite/test")
    (tmp_path / "suite/test/__init__.py").touch()
    (tmp_path / "suite/test/service.py").write_text(KAFKA_PYTHON_SERVICES)
    environment = {
        "KAFKA_URI": f"kafka://{broker.address}",
        "KAFKA_VERSION": "4.3.0",
        "KAFKA_ROOT": str(tmp_path),
    }
    names = ("admin", "consumer", "producer")
    paths = [f"test/integration/test_{name}_integration.py" for name in names]
    check(run_suite(tmp_path / "suite", paths, environment), HERE / "kafka_python.allow")


@pytest.mark.timeout(SUITE_SECONDS)
@pytest.mark.parametrize("broker", [2], indirect=True)
def test_the_suite_of_aiokafka_passes(broker: RunningBroker, tmp_path: Path) -> None:
    """Its integration tests, with the installed library."""
    source = os.environ.get("AIOKAFKA_SOURCE")
    if not source:
        pytest.skip("AIOKAFKA_SOURCE names no checkout; the package ships without tests")
    shutil.copytree(Path(source) / "tests", tmp_path / "suite/tests")
    (tmp_path / "suite/tests/conftest.py").write_text(AIOKAFKA_FIXTURES)
    (tmp_path / "suite/pytest.ini").write_text(
        "[pytest]\nasyncio_mode = auto\nmarkers =\n    ssl: wants certificates\n"
    )
    names = (
        "admin", "client", "conn", "consumer", "coordinator", "fetcher", "message_accumulator",
        "pep492", "producer", "rack_awareness", "sender",
    )  # fmt: skip
    paths = [f"tests/test_{name}.py" for name in names]
    paths += [f"tests/test_transactional_{name}.py" for name in ("consumer", "producer")]
    output = run_suite(
        tmp_path / "suite",
        paths,
        {"BROKER_ADDRESS": broker.address},
        "--docker-image=none/kafka:2.8.1",
    )
    check(output, HERE / "aiokafka.allow")
