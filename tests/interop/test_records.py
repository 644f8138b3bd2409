"""Every client writes with every codec, and every client reads what every other has written."""

import pytest

from seglog.clients import Admin
from seglog.clients.testing import RunningBroker
from support.foreign.everyone import CLIENTS
from support.foreign.shape import CODECS, ForeignClient, Read, Sent
from support.real_broker import describe
from support.wires import KafkaWire, read_batches, read_records

T = 1_700_000_000_000

RECORDS = [
    Sent(b"key", b"value", (), T),
    Sent(None, b"no key", (), T + 10),
    Sent(b"no value", None, (), T + 20),
    Sent(b"", b"", (), T + 30),
    Sent(b"one header", b"v", (("a", b"1"),), T + 40),
    Sent(b"headers", b"v", (("a", b"1"), ("a", b"2"), ("empty", b""), ("größer", b"\xff\0")), T),
    Sent(b"out of order", b"v", (), T + 5),
    *(
        Sent(b"%d" % index, b"text " * 40 + b"%d" % index, (), T + 100 + index)
        for index in range(60)
    ),
    Sent(b"large", bytes(range(256)) * 200, (), T + 1000),
]


def records_for(client: ForeignClient) -> list[Sent]:
    """What the client can say."""
    without_value = Sent(b"null header", b"v", (("nothing", None),), T + 50)
    return [*RECORDS, without_value] if client.null_header_values else RECORDS


def as_read(records: list[Sent]) -> list[Read]:
    return [
        Read(0, offset, each.timestamp_ms, each.key, each.value, each.headers)
        for offset, each in enumerate(records)
    ]


@pytest.fixture(scope="module")
def written(admin: Admin, foreign):
    """Topics by client and codec, written when they are first asked for."""
    topics: dict[tuple[str, str], str] = {}

    def topic_of(writer: str, codec: str) -> str:
        name = f"records-{writer}-{codec}"
        if (writer, codec) not in topics:
            client = foreign(writer)
            admin.create_topic(name, partitions=1, configs={"retention.ms": -1})
            records = records_for(client)
            assert client.produce(name, records, codec=codec) == list(range(len(records)))
            topics[writer, codec] = name
        return name

    return topic_of


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", CLIENTS)
def test_records_of_every_client_are_stored_unchanged(
    broker: RunningBroker, written, foreign, writer: str, codec: str
) -> None:
    """Keys, values, nulls, headers and times of a record, and the codec of its batch."""
    topic = written(writer, codec)
    with KafkaWire(broker.port) as wire:
        records = read_records(wire, topic)
        codecs = {each.header.codec.name.lower() for each in read_batches(wire, topic)}
    found = [
        Read(0, each.offset, each.timestamp_ms, each.key, each.value, tuple(each.headers))
        for each in records
    ]
    assert found == as_read(records_for(foreign(writer)))
    assert codec in codecs, "the client thought it must not compress"


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", CLIENTS)
@pytest.mark.parametrize("reader", CLIENTS)
def test_every_client_reads_what_every_client_wrote(
    written, foreign, reader: str, writer: str, codec: str
) -> None:
    """The same records come out, in order, from the start and from the middle of a batch."""
    topic = written(writer, codec)
    expected = as_read(records_for(foreign(writer)))
    client = foreign(reader)
    assert client.consume(topic, len(expected)) == expected
    if reader == writer:
        middle = len(expected) // 2
        assert client.consume(topic, len(expected) - middle, start=middle) == expected[middle:]


@pytest.mark.parametrize("reader", CLIENTS)
def test_every_client_seeks_by_time(admin: Admin, foreign, reader: str) -> None:
    """Times before, between, on and behind those of the records (LIST-5)."""
    topic = f"times-{reader}"
    admin.create_topic(topic, partitions=1, configs={"retention.ms": -1})
    client = foreign(reader)
    stamps = [T, T + 10, T + 20, T + 30]
    client.produce(topic, [Sent(b"k", b"v", (), stamp) for stamp in stamps])
    questions = {
        T - 5: 0, T: 0, T + 1: 1, T + 10: 1, T + 15: 2, T + 29: 3, T + 30: 3, T + 31: None,
    }  # fmt: skip
    assert {time: client.offset_at(topic, time) for time in questions} == questions
    assert [each.offset for each in client.consume(topic, 2, start=2)] == [2, 3]
    assert describe(admin, topic).log_end_offset == 4
