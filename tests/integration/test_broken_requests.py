"""Every operation in every version, sound and damaged, through real sockets to a real broker."""

import random
import socket
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from seglog.protocol import api
from seglog.protocol.kafka import codec
from seglog.protocol.kafka.messages.api_versions import ApiVersionsRequest
from seglog.protocol.kafka.operations import ALL_OPERATIONS
from seglog.protocol.kafka.refusals import REFUSABLE
from support.broker_process import BlockingClient, BrokerProcess, broker_process
from support.kafka_messages import generic_of, random_message

MEGABYTE = 1024 * 1024
CORRELATION_ID = 0x5EA6
HOSTILE = (
    b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\x7f\xff", b"\x80\0",
    b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\xff\xff\x01",
)  # fmt: skip
"""Counts and lengths: the largest, null, negative, and varints of 31, 32 and more bits."""


class Subject(NamedTuple):
    """One version of one operation."""

    key: int
    version: int
    request: Any
    flexible: bool


def subjects() -> Iterator[Subject]:
    for operation in ALL_OPERATIONS:
        for version in operation.versions.versions():
            yield Subject(
                int(operation.key), version, generic_of(operation.request),
                version in operation.request.flexible,
            )  # fmt: skip
    for version in ApiVersionsRequest.versions.versions():
        yield Subject(18, version, ApiVersionsRequest, version in ApiVersionsRequest.flexible)
    for key, refusable in REFUSABLE.items():
        for version in refusable.response.versions.versions():
            flexible = version in (refusable.request or refusable.response).flexible
            yield Subject(key, version, refusable.request, flexible)


SUBJECTS = list(subjects())


def body_of(subject: Subject, source: random.Random) -> bytes:
    if subject.request is None:
        return source.randbytes(20)
    message = random_message(subject.request, subject.version, source)
    for name in ("timeout_ms", "max_wait_ms", "rebalance_timeout_ms", "session_timeout_ms"):
        # It is about what is asked, not about how long.
        if hasattr(message, name):
            setattr(message, name, min(getattr(message, name), 10))
    return codec.encode_bytes(message, subject.version)


def frames_of(subject: Subject, source: random.Random) -> Iterator[bytes]:
    """A sound request, and what becomes of it on a bad line or in bad hands."""
    head = struct.pack(">hhih", subject.key, subject.version, CORRELATION_ID, 4) + b"fuzz"
    if subject.flexible:
        head += b"\0"
    sound = head + body_of(subject, source)
    yield framed(sound)
    yield framed(sound[: source.randrange(8, len(sound) + 1)])
    yield framed(sound + source.randbytes(source.randrange(1, 30)))
    yield framed(head + source.randbytes(source.randrange(60)))
    yield framed(head + source.choice(HOSTILE) * 20)
    for _ in range(3):
        damaged = bytearray(sound)
        position = source.randrange(min(len(head), len(damaged) - 1), len(damaged))
        hostile = source.choice(HOSTILE)
        damaged[position : position + len(hostile)] = hostile
        yield framed(bytes(damaged))
    flipped = bytearray(sound)
    for _ in range(3):
        flipped[source.randrange(8, len(flipped))] ^= 1 << source.randrange(8)
    yield framed(bytes(flipped))
    if subject.flexible:
        # Ten thousand tags and more, tags without end, a tag longer than all.
        for tags in (b"\x91\x4e" + b"\0\0" * 10_001, b"\xff\xff\xff\xff\x0f", b"\x01\x05\xff\x7f"):
            yield framed(head[:-1] + tags + sound[len(head) :])
            yield framed(sound[:-1] + tags)
    yield struct.pack(">i", len(sound) + source.choice((1, 1000))) + sound
    yield struct.pack(">i", max(1, len(sound) - 3)) + sound


def framed(request: bytes) -> bytes:
    return struct.pack(">i", len(request)) + request


def converse(port: int, data: bytes) -> bytes:
    """Send all, hang up one way, and listen until the broker hangs up, too."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
        try:
            line.sendall(data)
            line.shutdown(socket.SHUT_WR)
            while chunk := line.recv(65_536):
                received += chunk
        except ConnectionError:
            pass
    return received


def check_answers(answers: bytes) -> None:
    """Whole frames with our correlation id, or nothing."""
    while answers:
        (size,) = struct.unpack_from(">i", answers)
        assert 4 <= size <= len(answers) - 4
        answers = answers[4 + size :]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One daemon for all of them."""
    with broker_process(tmp_path_factory.mktemp("broken")) as running:
        yield running
        assert running.stop() == 0


@pytest.mark.slow
@pytest.mark.parametrize("key", sorted({subject.key for subject in SUBJECTS}))
def test_broken_request_breaks_the_broker(key: int, broker: BrokerProcess) -> None:
    """C034, C041: answered or hung up on; memory stays bounded, and no defect is logged."""
    source = random.Random(key)
    before = broker.resident_bytes()
    log_before = len(broker.log.read_bytes())
    for subject in SUBJECTS:
        if subject.key == key:
            for data in frames_of(subject, source):
                check_answers(converse(broker.port, data))
    with BlockingClient(broker.port) as client:
        client.ask(api.MetadataRequest())
    assert broker.resident_bytes() - before < 30 * MEGABYTE
    log = broker.log.read_bytes()[log_before:].decode(errors="replace")
    for defect in ("Traceback", "event=request-failed", "event=connection-failed", " ERROR "):
        assert defect not in log, log
