"""Field case C052: a producer dies inside of a transaction, and readers must not wait for ever."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from seglog.clients import Admin, Consumer, Producer
from seglog.clients.errors import BrokerError
from seglog.clients.testing import RunningBroker, running_broker
from seglog.protocol.errors import ErrorCode
from support.eventually import eventually
from support.foreign.confluent import ConfluentClient
from support.processor_time import in_time
from support.real_broker import free_port, metric, scrape

pytestmark = pytest.mark.slow

CHECK_SECONDS = 0.2
CONFIGS = {
    "transaction.max.timeout.ms": 5000,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": round(CHECK_SECONDS * 1000),
    "transaction.state.log.num.partitions": 4,
    "offsets.topic.num.partitions": 4,
}
TIMEOUT_SECONDS = 3.0
SLOW_MACHINE_SECONDS = 3.0
OLDEST = "seglog_oldest_open_transaction_seconds"

DYING = {
    "seglog": """
import sys
from seglog.clients import Producer

address, name, timeout_ms, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
producer = Producer(address, transactional_id=name, transaction_timeout_ms=timeout_ms)
producer.begin_transaction()
for number in range(count):
    producer.send("topic", b"dead %d" % number, partition=0).result(10)
print("open", flush=True)
sys.stdin.read()
""",
    "confluent-kafka": """
import sys
from confluent_kafka import Producer

address, name, timeout_ms, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
producer = Producer(
    {
        "bootstrap.servers": address,
        "transactional.id": name,
        "transaction.timeout.ms": timeout_ms,
    }
)
producer.init_transactions(10)
producer.begin_transaction()
for number in range(count):
    producer.produce("topic", b"dead %d" % number, partition=0)
assert producer.flush(10) == 0
print("open", flush=True)
sys.stdin.read()
""",
}


@pytest.fixture
def ops_port() -> int:
    return free_port()


@pytest.fixture
def broker(tmp_path: Path, ops_port: int) -> Iterator[RunningBroker]:
    configs = {**CONFIGS, "metrics.listener": f"127.0.0.1:{ops_port}"}
    with running_broker(configs=configs, folder=tmp_path) as running:
        with Admin(running.address) as admin:
            admin.create_topic("topic", partitions=1)
        yield running


@contextmanager
def dying_producer(
    kind: str, address: str, name: str, timeout_ms: int, count: int
) -> Iterator["subprocess.Popen[str]"]:
    """A program with an open transaction of so many records, to be killed."""
    command = [sys.executable, "-c", DYING[kind], address, name, str(timeout_ms), str(count)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "open\n"
            yield program
        finally:
            program.kill()


def committed(address: str) -> list[bytes | None]:
    """What a reader of committed records gets up to the last stable offset."""
    with Consumer(
        address, "topic", start="earliest", stop_at_end=True, isolation="read_committed"
    ) as consumer:
        return [record.value for record in consumer]


def test_too_long_a_transaction_timeout_is_refused(broker: RunningBroker) -> None:
    """900000 against 5000 is INVALID_TRANSACTION_TIMEOUT (50), and nothing is remembered of it."""
    with pytest.raises(BrokerError, match=r"transaction\.max\.timeout\.ms") as refused:
        Producer(broker.address, transactional_id="long", transaction_timeout_ms=900_000)
    assert refused.value.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    other = ConfluentClient(broker.address).producer(
        transactional_id="long", transaction_timeout_ms=900_000
    )
    with pytest.raises(KafkaException) as refused_too:
        other.init_transactions(10)
    assert refused_too.value.args[0].code() == 50
    with Admin(broker.address) as admin:
        assert admin.list_transactions() == []


@pytest.mark.parametrize("kind", DYING)
def test_the_transaction_of_a_dead_producer_is_aborted_in_time(
    broker: RunningBroker, ops_port: int, kind: str
) -> None:
    """3 records, kill; 10 transactions and 10 plain records of others; kill -9 of the broker."""
    before = time.monotonic()
    with dying_producer(kind, broker.address, "dead", round(TIMEOUT_SECONDS * 1000), 3) as dying:
        dying.kill()
        opened = time.monotonic()
    expected: list[bytes | None] = []
    with (
        Producer(broker.address, transactional_id="other", transaction_timeout_ms=5000) as other,
        Producer(broker.address) as plain,
    ):
        for number in range(10):
            with other.transaction():
                other.send("topic", b"transaction %d" % number, partition=0)
            plain.send("topic", b"plain %d" % number, partition=0).result(10)
            expected += [b"transaction %d" % number, b"plain %d" % number]
    assert committed(broker.address) == []
    assert metric(scrape(ops_port), OLDEST) > 0
    broker.kill()
    broker.start()
    assert committed(broker.address) == [] or time.monotonic() - before >= TIMEOUT_SECONDS
    eventually(lambda: committed(broker.address) == expected)
    late_seconds = time.monotonic() - opened - TIMEOUT_SECONDS - CHECK_SECONDS
    assert in_time(late_seconds, SLOW_MACHINE_SECONDS)
    assert metric(scrape(ops_port), OLDEST) == 0


def test_an_administrator_ends_what_hangs(broker: RunningBroker) -> None:
    """It is listed with its age and its partition, and aborted long before its time is up."""
    with (
        dying_producer("confluent-kafka", broker.address, "hangs", 5000, 1) as dying,
        Admin(broker.address) as admin,
        Producer(broker.address) as plain,
    ):
        dying.kill()
        plain.send("topic", b"behind it", partition=0).result(10)
        assert committed(broker.address) == []
        (listed,) = admin.list_transactions(states=["Ongoing"])
        assert listed.transactional_id == "hangs"
        (found,) = admin.open_transactions(["topic"])
        assert (found.transactional_id, found.start_offset) == ("hangs", 0)
        asked = time.monotonic()
        admin.abort_transactions(["hangs"])
        eventually(lambda: committed(broker.address) == [b"behind it"])
        assert in_time(time.monotonic() - asked, 2.0)
        assert admin.list_transactions(states=["Ongoing"]) == []
