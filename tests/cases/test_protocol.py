"""Field cases about the protocol: fetch limits, codecs of all makes, broken batches, versions."""

import gzip
import os
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import cramjam
import lz4.frame
import pytest
import zstandard

from seglog.clients import Admin, Consumer
from seglog.clients.testing import RunningBroker, running_broker
from seglog.protocol import api
from seglog.protocol.compression import Codec
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka.messages import api_versions
from seglog.protocol.kafka.operations import OPERATION_OF_KEY
from seglog.protocol.records import build_batch
from support.batches import batch_of_area, with_header, with_wrong_checksum
from support.kafka_messages import generic_of
from support.processor_time import in_time
from support.real_broker import describe, free_port, log_lines, metric, scrape, wait_for_line
from support.wires import WIRES, KafkaWire, open_wire, read_records

T = 1_700_000_000_000
MEGABYTE = 1 << 20
LIMIT_SLACK = 512


class MeasuredBroker:
    """A broker with its metrics and an admin client."""

    def __init__(self, process: RunningBroker, metrics_port: int, admin: Admin) -> None:
        self.process = process
        self.port = process.port
        self.admin = admin
        self._metrics_port = metrics_port

    def metric(self, name: str, **labels: str) -> float:
        """One series."""
        return metric(scrape(self._metrics_port), name, **labels)


@pytest.fixture(scope="module")
def broker() -> Iterator[MeasuredBroker]:
    port = free_port()
    configs = {"metrics.listener": f"127.0.0.1:{port}", "log.retention.ms": -1}
    with running_broker(configs=configs) as process, Admin(process.address) as admin:
        yield MeasuredBroker(process, port, admin)


def small_batch(value: bytes = b"v", **options: Any) -> bytearray:
    return build_batch([(T, None, value, ())], **options)


# ---- C036


@pytest.fixture(scope="module")
def sized(broker: MeasuredBroker) -> str:
    """Partition 0: one batch of 900 KB, then 100 small ones; partition 1: 1000 of 1 KB."""
    broker.admin.create_topic("sized", partitions=2, configs={"max.message.bytes": MEGABYTE})
    with KafkaWire(broker.port) as wire:
        wire.produce("sized", small_batch(os.urandom(900_000)))
        for _ in range(100):
            wire.produce("sized", small_batch(b"s" * 100))
        for number in range(1000):
            wire.produce("sized", small_batch(b"%04d" % number * 233), partition=1)
    return "sized"


@pytest.mark.parametrize("dialect", WIRES)
@pytest.mark.parametrize("limit", [1, 100_000])
def test_a_batch_over_the_limits_comes_whole_and_alone(
    broker: MeasuredBroker, sized: str, dialect: str, limit: int
) -> None:
    """C036: the first batch is never withheld; nothing is added to it beyond the limit."""
    with open_wire(dialect, broker.port) as wire:
        answer = wire.fetch(sized, 0, max_bytes=limit, partition_max_bytes=limit)
        assert [each.header.record_count for each in answer.batches] == [1]
        assert answer.batches[0].header.size_bytes > 900_000
        answer = wire.fetch(sized, 1, max_bytes=limit, partition_max_bytes=limit)
        assert answer.batches[0].header.base_offset == 1
        answer = wire.fetch(sized, 0, partition=1, max_bytes=limit, partition_max_bytes=limit)
        if limit == 1:
            assert len(answer.batches) == 1
        else:
            assert len(answer.batches) > 80
            assert len(answer.records) <= limit


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("limit", [1, 1000, 100_000, 1_000_000])
def test_an_answer_about_two_partitions_stays_within_its_limit(
    broker: MeasuredBroker, sized: str, first: int, limit: int
) -> None:
    """C036: small batches alone never exceed the limit; one large one may, as the very first."""
    partitions = [first, 1 - first]
    with KafkaWire(broker.port) as wire:
        asked = [api.FetchPartition(sized, each, 0, limit) for each in partitions]
        answer = wire.ask(api.FetchRequest(0, 0, limit, asked), 11, api.FetchResponse)
    sizes = {each.partition: len(each.records or b"") for each in answer.partitions}  # type: ignore[arg-type]  # a view
    assert sizes[first] > 0, "the first partition that has anything gives its first batch"
    if first == 1 and limit > 1000:
        assert sum(sizes.values()) <= limit + LIMIT_SLACK
    elif first == 0:
        assert sizes[0] > 900_000
        assert sizes[1] <= max(0, limit - sizes[0]) + LIMIT_SLACK


def test_the_bundled_client_reads_on_through_a_large_batch(
    broker: MeasuredBroker, sized: str
) -> None:
    """C036: with limits far below the batch; foreign clients: test_foreign_clients."""
    with Consumer(
        broker.process.address, [sized], start="earliest", stop_at_end=True,
        fetch_max_bytes=100_000, partition_fetch_bytes=1024,
    ) as consumer:  # fmt: skip
        assert sum(1 for _ in consumer) == 1101


# ---- C040

XERIAL_MAGIC = b"\x82SNAPPY\x00"


def framed_snappy(area: bytes, order: str = ">") -> bytes:
    """The framing of the Java library, chunks of 32 KB."""
    out = bytearray(XERIAL_MAGIC + struct.pack(f"{order}ii", 1, 1))
    for start in range(0, len(area), 32_768):
        chunk = bytes(cramjam.snappy.compress_raw(area[start : start + 32_768]))
        out += struct.pack(">i", len(chunk)) + chunk
    return bytes(out)


def streamed_zstd(area: bytes) -> bytes:
    """A frame that does not say how long its content is."""
    out = zstandard.ZstdCompressor(write_content_size=False).compress(area)
    assert zstandard.get_frame_parameters(out).content_size == zstandard.CONTENTSIZE_UNKNOWN
    return out


CODINGS: dict[str, tuple[Codec, Callable[[bytes], bytes]]] = {
    "snappy-raw": (Codec.SNAPPY, lambda area: bytes(cramjam.snappy.compress_raw(area))),
    "snappy-framed": (Codec.SNAPPY, framed_snappy),
    "snappy-framed-little-endian": (Codec.SNAPPY, lambda area: framed_snappy(area, "<")),
    "lz4-with-size": (Codec.LZ4, lambda area: lz4.frame.compress(area, store_size=True)),
    "lz4-without-size": (Codec.LZ4, lambda area: lz4.frame.compress(area, store_size=False)),
    "lz4-linked-blocks": (
        Codec.LZ4,
        lambda area: lz4.frame.compress(
            area, block_linked=True, block_size=lz4.frame.BLOCKSIZE_MAX64KB, store_size=False
        ),
    ),
    "lz4-with-checksums": (
        Codec.LZ4,
        lambda area: lz4.frame.compress(area, block_checksum=True, content_checksum=True),
    ),
    "zstd-without-size": (Codec.ZSTD, streamed_zstd),
    "zstd-two-frames": (
        Codec.ZSTD,
        lambda area: streamed_zstd(area[:999]) + streamed_zstd(area[999:]),
    ),
    "gzip": (Codec.GZIP, gzip.compress),
    "gzip-two-members": (
        Codec.GZIP,
        lambda area: gzip.compress(area[:999]) + gzip.compress(area[999:]),
    ),
}


def fifty_records() -> tuple[bytes, list[bytes]]:
    """The records area of 50 records of 1000 bytes, and their values."""
    values = [bytes([number]) * 500 + os.urandom(500) for number in range(50)]
    plain = build_batch([(T + n, None, value, ()) for n, value in enumerate(values)])
    return bytes(plain[61:]), values


def coded_batch(area: bytes, codec: Codec, payload: bytes) -> bytes:
    return bytes(
        batch_of_area(payload, 50, attributes=int(codec), max_timestamp=T + 49, base_timestamp=T)
    )


@pytest.mark.parametrize("name", CODINGS)
def test_every_make_of_compression_is_stored_as_it_came(broker: MeasuredBroker, name: str) -> None:
    """C040: the served bytes are those that were sent, and the bundled client reads 50 records."""
    codec, encode = CODINGS[name]
    area, values = fifty_records()
    sent = coded_batch(area, codec, encode(area))
    topic = f"coded-{name}"
    broker.admin.create_topic(topic, partitions=1)
    with KafkaWire(broker.port) as wire:
        assert wire.produce(topic, sent).error == ErrorCode.NONE
        stored = wire.fetch(topic, 0).records
        assert stored[61:] == sent[61:]
        # Offset and leader epoch are the broker's; from magic on it is what was sent.
        assert stored[16:61] == sent[16:61]
        assert [each.value for each in read_records(wire, topic)] == values
    with Consumer(broker.process.address, [topic], start="earliest", stop_at_end=True) as consumer:
        assert [each.value for each in consumer] == values


UNREADABLE = (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.INVALID_RECORD)
"""As Apache Kafka says it: CORRUPT_MESSAGE would have clients send it again and again."""


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("dialect", WIRES)
def test_random_bytes_are_not_taken_for_compressed_ones(
    broker: MeasuredBroker, dialect: str, codec: Codec
) -> None:
    """C040: a payload that its codec cannot read is refused and never stored."""
    topic = f"random-{dialect}-{codec.name.lower()}"
    broker.admin.create_topic(topic, partitions=1)
    with open_wire(dialect, broker.port) as wire:
        for payload in (os.urandom(3000), b"", b"\0", XERIAL_MAGIC, gzip.compress(b"")):
            answer = wire.produce(topic, coded_batch(b"", codec, payload))
            assert answer.error in UNREADABLE, payload
        area, _ = fifty_records()
        good = CODINGS["gzip"][1](area)
        nested = gzip.compress(gzip.compress(area))
        answer = wire.produce(topic, coded_batch(area, Codec.GZIP, nested))
        assert answer.error in UNREADABLE
        cut = coded_batch(area, Codec.GZIP, good[:-20])
        assert wire.produce(topic, cut).error in UNREADABLE
        assert describe(broker.admin, topic).size_bytes == 0
        assert wire.produce(topic, coded_batch(area, Codec.GZIP, good)).base_offset == 0


def test_a_value_that_looks_compressed_is_left_alone(broker: MeasuredBroker) -> None:
    """C040: what is in a value is nobody's business."""
    broker.admin.create_topic("looks", partitions=1)
    value = gzip.compress(b"inner" * 100)
    with KafkaWire(broker.port) as wire:
        wire.produce("looks", small_batch(value))
        wire.produce("looks", small_batch(value, codec=Codec.GZIP))
        assert [each.value for each in read_records(wire, "looks")] == [value, value]


def test_a_decompression_bomb_is_refused(broker: MeasuredBroker) -> None:
    """Next to C040: a megabyte that claims to be gigabytes costs neither memory nor time."""
    broker.admin.create_topic("bomb", partitions=1, configs={"max.message.bytes": 2 * MEGABYTE})
    bomb = zstandard.ZstdCompressor(level=1).compress(bytes(600 * MEGABYTE))
    before = resident_bytes(broker.process.process_id)
    started = time.monotonic()
    with KafkaWire(broker.port) as wire:
        answer = wire.produce("bomb", coded_batch(b"", Codec.ZSTD, bomb))
    assert answer.error in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD, 2)
    assert in_time(time.monotonic() - started, 5)
    assert resident_bytes(broker.process.process_id) - before < 300 * MEGABYTE


def resident_bytes(process_id: int) -> int:
    with open(f"/proc/{process_id}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


# ---- C041


def with_size(batch: bytes, delta: int) -> bytes:
    """A batch whose length field says more or less than there is."""
    (length,) = struct.unpack_from(">i", batch, 8)
    return batch[:8] + struct.pack(">i", length + delta) + batch[12:]


def four_records() -> bytearray:
    return build_batch([(T + n, b"k", b"v%d" % n, ()) for n in range(4)])


def old_format(magic: int) -> bytes:
    """A message set as it was before record batches."""
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", T) if magic else b"")
    body += struct.pack(">i", -1) + struct.pack(">i", 5) + b"value"
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message


BAD = {
    "crc": lambda: with_wrong_checksum(four_records()),
    "magic-0": lambda: old_format(0),
    "magic-1": lambda: old_format(1),
    "magic-3": lambda: with_header(four_records(), magic=3),
    "magic-0-in-a-batch": lambda: with_header(four_records(), magic=0),
    "count-too-high": lambda: with_header(four_records(), record_count=5),
    "count-too-low": lambda: with_header(four_records(), record_count=3),
    "count-and-delta-too-high": lambda: with_header(
        four_records(), record_count=5, last_offset_delta=4
    ),
    "count-negative": lambda: with_header(four_records(), record_count=-1),
    "count-huge": lambda: with_header(four_records(), record_count=2**31 - 1),
    "delta-too-small": lambda: with_header(four_records(), last_offset_delta=2),
    "delta-too-large": lambda: with_header(four_records(), last_offset_delta=4),
    "delta-negative": lambda: with_header(four_records(), last_offset_delta=-1),
    "two-batches": lambda: bytes(four_records()) + bytes(four_records()),
    "length-too-long": lambda: with_size(bytes(four_records()), 1),
    "length-too-short": lambda: with_size(bytes(four_records()), -1),
    "length-huge": lambda: with_size(bytes(four_records()), 2**30),
    "length-negative": lambda: with_size(bytes(four_records()), -(2**20)),
    "too-large": lambda: build_batch([(T, None, os.urandom(100_001 - 61 - 12 + 1), ())]),
    "no-records": lambda: batch_of_area(b"", 0),
    "no-records-but-delta": lambda: batch_of_area(b"", 0, last_offset_delta=3),
    "nothing": lambda: b"",
    "a-few-bytes": lambda: bytes(four_records())[:30],
    "header-only": lambda: bytes(four_records())[:61],
    "control": lambda: with_header(four_records(), attributes=0x20),
    "unknown-codec": lambda: with_header(four_records(), attributes=5),
    "producer-without-sequence": lambda: with_header(
        four_records(), producer_id=7, producer_epoch=0, base_sequence=-1
    ),
}
FITTING = {
    ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_REQUEST,
}  # fmt: skip


def three_partitions(topic: str, middle: bytes, acks: int = -1) -> api.ProduceRequest:
    good = bytes(four_records())
    parts = [good, bytes(middle), good]
    return api.ProduceRequest(
        acks,
        10_000,
        [
            api.ProducePartition(topic, index, memoryview(records))
            for index, records in enumerate(parts)
        ],
    )


@pytest.fixture(scope="module")
def three(broker: MeasuredBroker) -> str:
    broker.admin.create_topic("three", partitions=3, configs={"max.message.bytes": 100_000})
    return "three"


@pytest.mark.parametrize("kind", BAD)
def test_one_bad_batch_harms_no_other_batch(broker: MeasuredBroker, three: str, kind: str) -> None:
    """C041: neighbours are stored, of the bad one nothing is; the connection goes on."""
    with KafkaWire(broker.port) as wire:
        ends = [wire.find(three, -1, partition=each).offset for each in range(3)]
        answer = wire.ask(three_partitions(three, BAD[kind]()), 9, api.ProduceResponse)
        results = {each.partition: each for each in answer.partitions}
        assert results[0].error == results[2].error == ErrorCode.NONE
        assert results[0].base_offset == ends[0]
        assert results[2].base_offset == ends[2]
        assert results[1].error in FITTING
        assert results[1].base_offset == -1
        assert results[1].error_message
        assert describe(broker.admin, three, 1).size_bytes == 0
        assert wire.find(three, -1, partition=1).offset == ends[1] == 0
        assert wire.find(three, -1, partition=0).offset == ends[0] + 4


def test_bytes_behind_a_batch_are_not_stored(broker: MeasuredBroker) -> None:
    """Next to C041: fewer bytes than another batch needs are dropped, as Kafka does."""
    broker.admin.create_topic("behind", partitions=1)
    batch = bytes(four_records())
    with KafkaWire(broker.port) as wire:
        for _ in range(2):
            assert wire.produce("behind", batch + b"\0" * 7).error == ErrorCode.NONE
        assert describe(broker.admin, "behind").size_bytes == 2 * len(batch)
        assert len(read_records(wire, "behind")) == 8


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_batch_without_an_answer_is_counted(
    broker: MeasuredBroker, three: str, kind: str
) -> None:
    """C041: with acks=0 the connection is closed and the failure counted; neighbours are stored."""
    name = "seglog_unacknowledged_failures_total"
    before = broker.metric(name)
    with KafkaWire(broker.port) as wire:
        end = wire.find(three, -1, partition=2).offset
        wire.send(three_partitions(three, BAD[kind](), acks=0), 9)
        wire.socket.settimeout(5)
        assert wire.socket.recv(1) == b""
    assert broker.metric(name) == before + 1
    with KafkaWire(broker.port) as wire:
        assert wire.find(three, -1, partition=2).offset == end + 4
        assert wire.find(three, -1, partition=1).offset == 0


# ---- C042


def send_raw(wire: KafkaWire, key: int, version: int, correlation_id: int, rest: bytes) -> None:
    frame = struct.pack(">hhih", key, version, correlation_id, 4) + b"test" + rest
    wire.socket.sendall(struct.pack(">i", len(frame)) + frame)


def receive_frame(wire: KafkaWire) -> bytes:
    (size,) = struct.unpack(">i", receive(wire, 4))
    return receive(wire, size)


def receive(wire: KafkaWire, count: int) -> bytes:
    data = b""
    while len(data) < count:
        chunk = wire.socket.recv(count - len(data))
        if not chunk:
            raise ConnectionResetError
        data += chunk
    return data


@pytest.mark.parametrize("version", [99, 5, 32767, -1])
def test_a_future_version_gets_the_supported_versions(broker: MeasuredBroker, version: int) -> None:
    """C042: in the v0 layout, with code 35 and the full table; the connection goes on."""
    with KafkaWire(broker.port) as wire:
        send_raw(wire, 18, version, 7, b"\0\x01x\x01y\0")
        frame = receive_frame(wire)
        correlation_id, error, count = struct.unpack_from(">ihi", frame)
        assert (correlation_id, error) == (7, 35)
        assert len(frame) == 10 + 6 * count
        ranges = {key: (low, high) for key, low, high in struct.iter_unpack(">hhh", frame[10:])}
        assert ranges[18] == (0, 4)
        assert ranges[0] == (0, 13), "from 0 on, for older librdkafka"
        known = wire.ask(api_versions.ApiVersionsRequest(), 0, api_versions.ApiVersionsResponse)
        assert len(known.api_keys) == count


@pytest.mark.parametrize(
    ("name", "release", "error"),
    [
        ("", "1", 42), ("x", "", 42), ("x y", "1", 42), ("-x", "1", 42), ("x-", "1", 42),
        ("seglog-test", "1.0", 0), ("x" * 300, "1", 0),
    ],
)  # fmt: skip
def test_an_illegal_client_name_is_refused(
    broker: MeasuredBroker, name: str, release: str, error: int
) -> None:
    """C042: an empty or odd client name is INVALID_REQUEST, on a connection that goes on."""
    request = api_versions.ApiVersionsRequest(
        client_software_name=name, client_software_version=release
    )
    with KafkaWire(broker.port) as wire:
        wire._correlation_id = 4
        wire.send(request, 3)
        frame = receive_frame(wire)
        assert struct.unpack_from(">ih", frame) == (5, error)
        assert wire.ask(api.MetadataRequest(), 9, api.MetadataResponse)


@pytest.mark.parametrize(("key", "version"), [(0, 14), (999, 0), (1, 99), (3, 14), (-1, 0), (4, 0)])
def test_an_unknown_operation_closes_the_connection_and_is_logged(
    broker: MeasuredBroker, key: int, version: int
) -> None:
    """C042: Produce of version max+1, key 999: closed, or answered with 35."""
    start = broker.process.log_file.stat().st_size
    with KafkaWire(broker.port) as wire:
        send_raw(wire, key, version, 3, b"\0" * 20)
        try:
            frame = receive_frame(wire)
        except ConnectionResetError:
            text = f"API key {key} version {version}"
            # Such lines are limited in number; one of the first is there.
            if not log_lines(broker.process, "API key"):
                wait_for_line(broker.process, text, start=start)
        else:
            assert struct.unpack_from(">i", frame)[0] == 3
    with KafkaWire(broker.port) as wire:
        assert wire.ask(api.MetadataRequest(), 9, api.MetadataResponse)


@pytest.mark.parametrize(
    ("key", "version", "name", "error_at"),
    [
        (17, 1, "SaslHandshake", 4), (29, 1, "DescribeAcls", 8),
        (68, 1, "ConsumerGroupHeartbeat", 9),
        (46, 0, "ListPartitionReassignments", 9), (9, 0, "OffsetFetch", -1),
    ],
)  # fmt: skip
def test_an_operation_that_is_not_offered_is_refused_and_counted(
    broker: MeasuredBroker, key: int, version: int, name: str, error_at: int
) -> None:
    """C042: an operation that is not there and a version of long ago; the connection goes on."""
    error = 34 if key == 17 else 35
    labels = {"listener": "PLAINTEXT", "request": name, "error": ErrorCode(error).name}
    body = b"\0\1g" + struct.pack(">ih1sii", 1, 1, b"t", 1, 0) if key == 9 else b"\0\0\0\0"
    with KafkaWire(broker.port) as wire:
        send_raw(wire, key, version, 9, (b"\0" if key in (46, 68) else b"") + body)
        frame = receive_frame(wire)
        assert struct.unpack_from(">i", frame)[0] == 9
        where = error_at if error_at >= 0 else len(frame) - 2
        assert struct.unpack_from(">h", frame, where)[0] == error
        assert wire.ask(api.MetadataRequest(), 9, api.MetadataResponse)
    assert broker.metric("seglog_requests_refused_total", **labels) == 1
    wait_for_line(broker.process, "event=request-refused operation=")


def test_every_listed_version_is_answered(broker: MeasuredBroker) -> None:
    """C042: every listed version is answered, in a layout that decodes, never with 35."""
    with KafkaWire(broker.port) as wire:
        table = wire.ask(api_versions.ApiVersionsRequest(), 0, api_versions.ApiVersionsResponse)
    for entry in table.api_keys:
        if entry.api_key == 18:
            continue
        operation = OPERATION_OF_KEY[entry.api_key]
        assert entry.max_version == operation.served.last
        for version in operation.served.versions():
            with KafkaWire(broker.port) as wire:
                request = generic_of(operation.request)()
                if entry.api_key == 0:
                    request.acks = 1
                answer = wire.ask(request, version, generic_of(operation.response))
                assert getattr(answer, "error_code", 0) != 35, (operation.key, version)


def test_fifty_requests_at_once_are_answered_in_their_order(broker: MeasuredBroker) -> None:
    """C042: produce, fetch that waits, metadata and refusals, all sent before the first answer."""
    broker.admin.create_topic("piped", partitions=1)
    broker.admin.create_topic("silent", partitions=1)
    with KafkaWire(broker.port) as wire:
        kinds: list[int] = []
        for number in range(50):
            match number % 5:
                case 0:
                    records = memoryview(bytes(small_batch()))
                    entry = api.ProducePartition("piped", 0, records)
                    wire.send(api.ProduceRequest(-1, 1000, [entry]), 9)
                case 1:
                    wire.send(
                        wire.fetch_request("silent", 0, max_wait_ms=30, min_bytes=1), wire.FETCH
                    )
                case 2:
                    wire.send(api.MetadataRequest(), 9)
                case 3:
                    wire.send(wire.fetch_request("piped", 0), wire.FETCH)
                case 4 if number % 2:
                    wire.send(api_versions.ApiVersionsRequest(), 2)
                case _:
                    wire._correlation_id += 1
                    send_raw(wire, 29, 1, wire._correlation_id, b"an ACL")
            kinds.append(number)
        found = [struct.unpack_from(">i", receive_frame(wire))[0] for _ in kinds]
    assert found == list(range(1, 51))


# ---- C034, the Kafka side: any API, any field


@pytest.mark.parametrize("filler", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff", b"\x80"])
def test_no_request_makes_the_broker_allocate_what_it_announces(
    broker: MeasuredBroker, filler: bytes
) -> None:
    """C034: each API in each version with counts of 2^31-1 and lengths without end."""
    before = resident_bytes(broker.process.process_id)
    for operation in OPERATION_OF_KEY.values():
        for version in operation.versions.versions():
            for prefix in (b"", b"\0", b"\0" * 4, b"\0\1\0\1\0\0\0\1"):
                with KafkaWire(broker.port, timeout=5) as wire:
                    body = (prefix + filler * 20)[:60]
                    send_raw(wire, int(operation.key), version, 1, body)
                    wire.socket.shutdown(1)
                    while wire.socket.recv(65_536):
                        pass
    assert resident_bytes(broker.process.process_id) - before < 20 * MEGABYTE
    with KafkaWire(broker.port) as wire:
        assert wire.ask(api.MetadataRequest(), 9, api.MetadataResponse)
    assert not log_lines(broker.process, "Traceback")
