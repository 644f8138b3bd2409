"""Idempotent producers of foreign clients, while connections and brokers die under them."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from seglog.clients import Admin
from seglog.clients.testing import RunningBroker, running_broker
from support.cutting_proxy import CuttingProxy
from support.eventually import eventually
from support.foreign.everyone import CLIENTS
from support.foreign.shape import UnavailableError
from support.foreign.streams import NumberStream
from support.wires import KafkaWire, read_records

COUNT = 600
CONFIGS = {"producer.id.expiration.ms": 86400000}


def stored_numbers(broker: RunningBroker, topic: str) -> list[int]:
    with KafkaWire(broker.port) as wire:
        return [int(each.value or b"-1") for each in read_records(wire, topic)]


def send_through(name: str, address: str, topic: str, harm: Callable[[], None], times: int) -> None:
    """Send numbers, and do harm several times while they are on their way."""
    try:
        stream = NumberStream(name, address, topic, COUNT)
    except UnavailableError as error:
        pytest.skip(f"{name}: {error}")
    stream.start()
    for turn in range(times):
        wanted = COUNT * (turn + 1) // (times + 2)
        eventually(lambda wanted=wanted: stream.sent >= wanted or not stream.is_sending())
        harm()
    stream.finish()


@pytest.mark.parametrize("name", CLIENTS)
def test_nothing_is_lost_or_doubled_when_the_broker_is_killed(
    tmp_path: Path, data_folders: list[Path], name: str
) -> None:
    """kill -9 three times, with requests in flight: each number is stored once, in order."""
    with running_broker(configs=CONFIGS, folder=tmp_path) as broker:
        data_folders.append(broker.data_directory)
        with Admin(broker.address) as admin:
            admin.create_topic("numbers", partitions=1, configs={"segment.bytes": 16384})

        def kill_and_start() -> None:
            broker.kill()
            broker.start()

        send_through(name, broker.address, "numbers", kill_and_start, times=3)
        assert stored_numbers(broker, "numbers") == [*range(COUNT)]


@pytest.mark.parametrize("name", CLIENTS)
def test_nothing_is_lost_or_doubled_when_answers_are_swallowed(tmp_path: Path, name: str) -> None:
    """Requests arrive, their answers do not, then the connections end: retries are known."""
    with CuttingProxy() as proxy:
        configs = CONFIGS | {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}
        with running_broker(configs=configs, folder=tmp_path) as broker:
            proxy.target = broker.port
            with Admin(broker.address) as admin:
                admin.create_topic("numbers", partitions=1)

            def swallow_and_cut() -> None:
                before = proxy.swallowed_bytes
                proxy.swallows_answers = True
                eventually(lambda: proxy.swallowed_bytes > before)
                proxy.cut()
                time.sleep(0.1)

            send_through(name, f"127.0.0.1:{proxy.port}", "numbers", swallow_and_cut, times=4)
            assert stored_numbers(broker, "numbers") == [*range(COUNT)]
            assert proxy.swallowed_bytes > 0
