"""Whatever bytes come, the Kafka dialect decodes them or raises ``ProtocolError``."""

import random
import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seglog.protocol.errors import ProtocolError
from seglog.protocol.kafka import codec
from seglog.protocol.kafka.connection import KafkaServerConnection
from seglog.protocol.kafka.operations import ALL_OPERATIONS, Offer
from seglog.protocol.kafka.schema import Message
from support.examples import examples
from support.kafka_messages import all_messages, random_message

MESSAGES = all_messages()
SERVER = KafkaServerConnection(
    offer=Offer(operation.key for operation in ALL_OPERATIONS), max_frame_bytes=100_000
)
MEMORY_PER_BYTE_MAX = 200
"""Of a hostile input: a struct of one byte on the wire is an object of some dozen slots."""

declared = st.sampled_from(
    [(message, version) for message in MESSAGES for version in message.versions.versions()]
)
numbers = st.sampled_from(
    [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\x7f\xff\xff\xff", b"\xff\xff", b"\x80"]
)


def check(message: type[Message], version: int, data: bytes) -> None:
    """Decoding ends in a message that encodes again, or in ``ProtocolError``."""
    try:
        decoded, position = codec.decode(message, version, memoryview(data))
    except ProtocolError:
        return
    assert 0 <= position <= len(data)
    again = codec.encode_bytes(decoded, version)
    assert (
        codec.encode_bytes(codec.decode(message, version, memoryview(again))[0], version) == again
    )


@settings(max_examples=examples(400), deadline=None)
@given(declared, st.binary(max_size=200))
def test_random_bytes_raise_something_else(case: tuple[type[Message], int], data: bytes) -> None:
    """Pure noise."""
    check(*case, data)


@settings(max_examples=examples(600), deadline=None)
@given(declared, st.integers(0, 2**32), st.data())
def test_damaged_message_raises_something_else(
    case: tuple[type[Message], int], seed: int, data: st.DataObject
) -> None:
    """A real message with bytes changed, put in, or cut off: it gets deeper than noise."""
    message, version = case
    source = random.Random(seed)
    encoded = bytearray(codec.encode_bytes(random_message(message, version, source), version))
    for _ in range(data.draw(st.integers(1, 3))):
        position = source.randrange(len(encoded) + 1)
        match data.draw(st.integers(0, 2)):
            case 0:
                del encoded[position:]
            case 1:
                encoded[position : position + 1] = data.draw(st.binary(min_size=1, max_size=4))
            case _:
                hostile = data.draw(numbers)
                encoded[position : position + len(hostile)] = hostile
    check(message, version, bytes(encoded))


@settings(max_examples=examples(400), deadline=None)
@given(st.integers(-1, 80), st.integers(-1, 20), st.binary(max_size=120))
def test_connection_raises_something_else(key: int, version: int, body: bytes) -> None:
    """The same through headers and translation, for every key and version."""
    frame = struct.pack(">ihhih", 0, key, version, 1, 1) + b"c" + body
    try:
        SERVER.decode(memoryview(bytearray(frame)), 0, len(frame))
    except ProtocolError:
        return


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_hostile_counts_decide_how_much_is_allocated(message: type[Message]) -> None:
    """Counts and lengths of 2^31-1 at any place cost no more memory than the bytes justify."""
    source = random.Random(message.__name__)
    version = message.versions.last
    cases = []
    for _ in range(30):
        encoded = bytearray(codec.encode_bytes(random_message(message, version, source), version))
        position = source.randrange(len(encoded) + 1)
        hostile = source.choice((b"\xff\xff\xff\xff\x07", b"\x7f\xff\xff\xff"))
        encoded[position : position + len(hostile)] = hostile
        cases.append(bytes(encoded) + bytes(200))
    check(message, version, cases[0])
    for data in cases:
        tracemalloc.start()
        try:
            codec.decode(message, version, memoryview(data))
        except ProtocolError:
            pass
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < 20_000 + MEMORY_PER_BYTE_MAX * len(data)
