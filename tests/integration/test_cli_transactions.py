"""``seglog transactions`` against a real broker."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from seglog.clients import Admin, Producer
from seglog.clients.cli.main import main
from seglog.clients.testing import RunningBroker, running_broker
from seglog.protocol.errors import ErrorCode
from support.broker_parts import batch_of
from support.eventually import eventually
from support.wires import KafkaWire


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    # Without verification anybody may leave a transaction behind that no coordinator knows.
    configs = {"transaction.partition.verification.enable": False}
    with running_broker(configs=configs) as running:
        with Admin(running.address) as admin:
            admin.create_topic("flights", partitions=2)
            admin.create_topic("planes", partitions=1)
        yield running


@pytest.fixture(autouse=True)
def _log_of_the_library() -> Iterator[None]:
    """A command takes over the library's log for its process, which is that of the other tests."""
    logger = logging.getLogger("seglog.clients")
    handlers, propagate = list(logger.handlers), logger.propagate
    yield
    logger.handlers, logger.propagate = handlers, propagate


@pytest.fixture
def run(broker: RunningBroker) -> Any:
    def run_transactions(*arguments: str) -> Result:
        environment = {"SEGLOG_BOOTSTRAP_SERVER": broker.address}
        return CliRunner().invoke(main, ["transactions", *arguments], env=environment)

    return run_transactions


@pytest.fixture
def producer(broker: RunningBroker) -> Iterator[Producer]:
    """One with the id "billing" and a transaction open in flights-1 from offset 0 on."""
    client = Producer(broker.address, transactional_id="billing")
    client.begin_transaction()
    client.send("flights", b"x", partition=1).result(10)
    yield client
    client.close(5)


def test_an_open_transaction_is_not_shown(run: Any, producer: Producer) -> None:
    listed = run("list", "--state", "ongoing")
    assert listed.exit_code == 0
    assert listed.stdout.split()[:3] == ["TRANSACTIONAL-ID", "PRODUCER-ID", "STATE"]
    assert "billing" in listed.stdout
    assert run("list", "--open-for", "600000", "--json").stdout == "[]\n"
    assert "no such transactional ids" in run("list", "--pattern", "b").stderr
    described = run("describe", "billing")
    assert "flights-1" in described.stdout
    (info,) = json.loads(run("describe", "billing", "--json").stdout)
    assert (info["state"], info["timeout_ms"]) == ("Ongoing", 60_000)
    assert info["partitions"] == [{"topic": "flights", "partition": 1}]
    nobody = run("describe", "nobody")
    assert nobody.exit_code == 1
    assert "nobody" in nobody.stderr
    assert producer is not None


def test_the_producer_goes_on_after_its_transaction_was_aborted(
    run: Any, producer: Producer
) -> None:
    found = run("find-hanging", "--topic", "flights:1", "--all", "--json")
    assert found.exit_code == 0, "it does not hang, its coordinator knows it"
    (shown,) = json.loads(found.stdout)
    assert (shown["topic"], shown["partition"]) == ("flights", 1)
    start = str(shown["start_offset"])
    place = ["--topic", "flights", "--partition", "1", "--start-offset", start]
    refused = run("abort", *place)
    assert refused.exit_code == 1
    assert "belongs to transactional id billing" in refused.stderr
    assert run("abort", "billing").stderr == "billing: aborted\n"
    assert json.loads(run("describe", "billing", "--json").stdout)[0]["partitions"] == []
    with pytest.raises(Exception, match="another producer has taken it over"):
        producer.commit_transaction()
    assert run("abort", "nobody").exit_code == 1
    for mistake in ([], ["billing", *place], place[:2]):
        assert run("abort", *mistake).exit_code == 2


def test_a_hanging_transaction_is_neither_found_nor_ended(broker: RunningBroker, run: Any) -> None:
    """One that an old client left, of which no coordinator has ever heard."""
    batch = batch_of(
        b"x", producer_id=7_000, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    with KafkaWire(broker.port) as wire:
        produced = wire.produce("planes", batch, transactional_id="unheard-of")
        assert produced.error is ErrorCode.NONE
    found = run("find-hanging", "--json")
    assert found.exit_code == 1
    assert found.stderr == "hanging transactions: 1\n"
    (shown,) = json.loads(found.stdout)
    assert (shown["topic"], shown["producer_id"], shown["start_offset"]) == ("planes", 7_000, 0)
    assert shown["transactional_id"] is None
    place = ["--topic", "planes", "--partition", "0", "--start-offset"]
    wrong = run("abort", *place, "5")
    assert wrong.exit_code == 1
    assert "open ones begin at: 0" in wrong.stderr
    assert run("abort", *place, "0").exit_code == 0
    eventually(lambda: run("find-hanging", "--topic", "planes").exit_code == 0, 10)
