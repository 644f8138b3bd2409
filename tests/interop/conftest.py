"""Brokers and foreign clients for the tests of this folder.

What a module leaves on disk is read at its end by Kafka's own dump tool, where that is to be had.
"""

import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from seglog.clients import Admin
from seglog.clients.testing import RunningBroker, running_broker
from support.foreign.dump_tool import dump_folder
from support.foreign.everyone import open_client
from support.foreign.shape import ForeignClient, UnavailableError

CONFIGS = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 4,
    "log.segment.delete.delay.ms": 200,
    "log.retention.ms": -1,  # the records are stamped with a fixed day of the past
    "log.cleaner.dedupe.buffer.size": 4194304,
    "log.cleaner.io.buffer.size": 262144,
}

NOT_OURS = ("DeprecationWarning", "ResourceWarning", "pytest.PytestUnraisableExceptionWarning")
"""Old-fashioned calls inside of other people's clients, and the sockets that they forget."""

Opener = Callable[[str], ForeignClient]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of this takes seconds."""
    here = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.slow)
            for warning in NOT_OURS:
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{warning}"))


@pytest.fixture(autouse=True)
def _forgotten_sockets() -> Iterator[None]:
    """Found here, where they are excused, and not by a test that happens to come later."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def data_folders() -> Iterator[list[Path]]:
    """The data folders that the tests of a module leave; Kafka's tool must not complain."""
    folders: list[Path] = []
    yield folders
    try:
        found = dump_folder(*folders)
    except UnavailableError:
        return
    assert found.complaints == []


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
