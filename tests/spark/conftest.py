"""A real SparkSession and a real broker for all tests in this folder.

Without PySpark, or without Java, nothing here is collected. One session serves all tests, since it
takes seconds to start and the first query more of them.
"""

import importlib.util
import os
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from seglog.clients import Admin
from seglog.clients.testing import RunningBroker, running_broker
from support.spark_log import SparkLog

HERE = Path(__file__).parent
HAS_SPARK = importlib.util.find_spec("pyspark") is not None and shutil.which("java") is not None
collect_ignore_glob = [] if HAS_SPARK else ["test_*.py"]


def pytest_configure(config: pytest.Config) -> None:
    # PySpark says so of pandas 3; its sockets to the JVM are closed when the interpreter ends.
    config.addinivalue_line("filterwarnings", "ignore:PySpark does not yet:FutureWarning")
    config.addinivalue_line("filterwarnings", "ignore::ResourceWarning")
    config.addinivalue_line("filterwarnings", "ignore::pytest.PytestUnraisableExceptionWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def _spark_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A SPARK_HOME without pyspark.zip, which every Python process would compile once more."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.submodule_search_locations
    installed = Path(found.submodule_search_locations[0])
    home = tmp_path_factory.mktemp("spark_home")
    for name in ("jars", "bin", "sbin"):
        (home / name).symlink_to(installed / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_HOME", str(home))
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        yield


@pytest.fixture(scope="session")
def spark_log(tmp_path_factory: pytest.TempPathFactory) -> SparkLog:
    return SparkLog(tmp_path_factory.mktemp("spark_log") / "stderr")


@pytest.fixture(scope="session")
def spark(
    _spark_home: None, spark_log: SparkLog, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    builder = SparkSession.builder.master("local[2]")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": java,
        "spark.local.dir": str(tmp_path_factory.mktemp("spark_local")),
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing."
            "FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.log.level": "ERROR",
    }.items():
        builder = builder.config(name, value)
    # The JVM inherits where our errors go; what it writes there is looked at by tests.
    with spark_log.path.open("wb") as log:
        ours = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            session = builder.getOrCreate()
        finally:
            os.dup2(ours, 2)
            os.close(ours)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    # Records are stamped as tests need it, many in the past.
    configs = {"auto.create.topics.enable": False, "log.retention.ms": -1}
    with running_broker(configs=configs, folder=tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="session")
def admin(broker: RunningBroker) -> Iterator[Admin]:
    with Admin(broker.address) as client:
        yield client


@pytest.fixture
def new_topic(admin: Admin) -> Callable[..., str]:
    """Makes topics with names that no other test has."""

    def make(partitions: int = 1, **configs: Any) -> str:
        name = f"t{uuid.uuid4().hex[:10]}"
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        admin.create_topic(name, partitions=partitions, configs=dotted)
        return name

    return make
