"""Kafka's own system test of exactly-once: copiers that are killed, with aborts at random."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from seglog.clients import Admin, Consumer, Producer
from seglog.clients.testing import RunningBroker, running_broker
from support.eventually import eventually
from support.foreign.programs import java_command, kafka_class_path
from support.foreign.shape import UnavailableError

COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
COUNT = 4000
PARTITIONS = 2
COPY_SECONDS = 60
CONFIGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
}


@contextmanager
def copier(broker: RunningBroker, number: int, *options: str) -> Iterator["subprocess.Popen[str]"]:
    """One that copies a partition, 50 records in a transaction, and aborts one in three."""
    try:
        command = [*java_command(), "-cp", kafka_class_path(), COPIER]
    except UnavailableError as error:
        pytest.skip(str(error))
    command += [
        "--broker-list", broker.address, "--input-topic", "input", "--output-topic", "output",
        "--input-partition", str(number), "--consumer-group", "copiers",
        "--transactional-id", f"copier-{number}", "--transaction-size", "50",
        "--transaction-timeout", "5000", "--enable-random-aborts", "--use-group-metadata", *options,
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        try:
            yield program
        finally:
            program.kill()


def copied(broker: RunningBroker) -> list[bytes | None]:
    with Consumer(
        broker.address, "output", start="earliest", stop_at_end=True, isolation="read_committed"
    ) as consumer:
        return [record.value for record in consumer]


@pytest.mark.parametrize("options", [(), ("--group-mode",)], ids=["assigned", "subscribed"])
def test_a_copy_has_no_gaps_and_no_repeats(
    tmp_path: Path, data_folders: list[Path], options: tuple[str, ...]
) -> None:
    """Copiers and the broker are killed in the middle; what is committed is what there was."""
    with running_broker(configs=CONFIGS, folder=tmp_path) as broker:
        data_folders.append(broker.data_directory)
        values = [b"%d" % number for number in range(COUNT)]
        with Admin(broker.address) as admin, Producer(broker.address) as producer:
            admin.create_topic("input", partitions=PARTITIONS)
            admin.create_topic("output", partitions=PARTITIONS)
            for partition in range(PARTITIONS):
                half = [(None, value, None) for value in values[partition::PARTITIONS]]
                producer.send_many("input", half, partition=partition)
        with ExitStack() as first:
            programs = [
                first.enter_context(copier(broker, each, *options)) for each in range(PARTITIONS)
            ]
            eventually(lambda: len(copied(broker)) > COUNT // 10, COPY_SECONDS)
            broker.kill()
            broker.start()
            before = len(copied(broker))
            eventually(lambda: len(copied(broker)) > before, COPY_SECONDS)
            programs[0].kill()
            programs[1].kill()
        assert len(copied(broker)) < COUNT, "nothing is left to go on with"
        with ExitStack() as second:
            for each in range(PARTITIONS):
                second.enter_context(copier(broker, each, *options))
            eventually(lambda: len(copied(broker)) >= COUNT, COPY_SECONDS)
        assert sorted(copied(broker), key=lambda value: int(value or b"-1")) == values
