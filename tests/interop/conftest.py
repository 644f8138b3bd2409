"""Brokers and foreign clients for the tests of this folder.

All data folders of a run are kept until its end: the last test has Kafka's own tool read them all.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from seglog.clients import Admin
from seglog.clients.testing import RunningBroker, running_broker
from support.foreign.everyone import open_client
from support.foreign.shape import ForeignClient, UnavailableError

CONFIGS = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 4,
    "log.segment.delete.delay.ms": 200,
    "log.initial.task.delay.ms": 100,
    "log.cleaner.dedupe.buffer.size": 4194304,
    "log.cleaner.io.buffer.size": 262144,
}

Opener = Callable[[str], ForeignClient]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What looks at the data of all other tests comes last; all of it takes seconds."""
    here = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.slow)
            # What is old-fashioned inside of other people's clients is not ours to mend.
            item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning"))
    items.sort(key=lambda item: item.path.name == "test_dump_tool.py")


@pytest.fixture(scope="session")
def data_folders() -> list[Path]:
    """The data folders that the tests of this run left; every broker adds its own."""
    return []


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, data_folders: list[Path]
) -> Iterator[RunningBroker]:
    """One broker for a module."""
    folder = tmp_path_factory.mktemp("broker")
    with running_broker(configs=CONFIGS, folder=folder) as running:
        data_folders.append(running.data_directory)
        yield running


@pytest.fixture(scope="module")
def admin(broker: RunningBroker) -> Iterator[Admin]:
    """Our own admin client, which arranges things."""
    with Admin(broker.address) as found:
        yield found


@pytest.fixture(scope="module")
def foreign(broker: RunningBroker) -> Iterator[Opener]:
    """Foreign clients by name, each started once; skips where one is not to be had."""
    started: dict[str, ForeignClient] = {}

    def opener(name: str) -> ForeignClient:
        if name not in started:
            try:
                started[name] = open_client(name, broker.address)
            except UnavailableError as error:
                pytest.skip(f"{name}: {error}")
        return started[name]

    yield opener
    for client in started.values():
        client.close()
