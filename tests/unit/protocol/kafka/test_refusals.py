"""Operations and versions that are not offered: refused so that their sender can read it."""

import importlib
import importlib.util
import io
import random
import struct
from typing import Any

import pytest

from seglog.protocol.dialect import Reply
from seglog.protocol.errors import ErrorCode, ProtocolError
from seglog.protocol.kafka import codec
from seglog.protocol.kafka.connection import KafkaServerConnection, UnsupportedApiError
from seglog.protocol.kafka.operations import ALL_OPERATIONS, OPERATION_OF_KEY, Offer
from seglog.protocol.kafka.refusals import REFUSABLE
from seglog.protocol.kafka.schema import Message, Struct
from support.kafka_messages import generic_of, random_message
from support.kafka_schemas import FOLDER, load_schema, needs_schemas, snake_case

NOT_OFFERED = ErrorCode.UNSUPPORTED_VERSION
EVERYTHING = Offer(operation.key for operation in ALL_OPERATIONS)
CASES = [
    pytest.param(key, version, id=f"{refusable.name}-{version}")
    for key, refusable in sorted(REFUSABLE.items())
    for version in refusable.response.versions.versions()
]
OLD = [
    pytest.param(operation, version, id=f"{operation.key.name}-{version}")
    for operation in ALL_OPERATIONS
    for version in operation.versions.versions()
    if version not in operation.served
]
NAMES_OF_AIOKAFKA = {
    "Fetch": "fetch.Fetch",
    "ListOffsets": "offset.Offset",
    "OffsetCommit": "commit.OffsetCommit",
    "OffsetFetch": "commit.OffsetFetch",
    "CreateTopics": "admin.CreateTopics",
    "DeleteTopics": "admin.DeleteTopics",
    "DescribeConfigs": "admin.DescribeConfigs",
    "Produce": "produce.Produce",
    "DescribeAcls": "admin.DescribeAcls",
    "CreateAcls": "admin.CreateAcls",
    "DeleteAcls": "admin.DeleteAcls",
    "SaslHandshake": "admin.SaslHandShake",
    "SaslAuthenticate": "admin.SaslAuthenticate",
    "DescribeClientQuotas": "admin.DescribeClientQuotas",
    "AlterPartitionReassignments": "admin.AlterPartitionReassignments",
    "ListPartitionReassignments": "admin.ListPartitionReassignments",
}
CORRELATION_ID = 77


def refuse(key: int, version: int, body: bytes, *, flexible_request: bool) -> Reply:
    """What a broker that offers everything says to a request."""
    header = struct.pack(">hhih", key, version, CORRELATION_ID, 1) + b"c"
    # A tag of the header that nobody knows is stepped over.
    header += b"\x01\x05\x02ab" if flexible_request else b""
    data = memoryview(struct.pack(">i", len(header) + len(body)) + header + body)
    server = KafkaServerConnection(offer=EVERYTHING, max_frame_bytes=10_000_000)
    assert server.frame_size(data, 0, len(data)) == len(data)
    answer = server.decode(data, 0, len(data))
    assert isinstance(answer, Reply)
    # Of SASL it says what Kafka says where a listener has none.
    assert answer.error is (ErrorCode.ILLEGAL_SASL_STATE if key in (17, 36) else NOT_OFFERED)
    assert not answer.closes
    return answer


def body_of(answer: Reply, *, flexible: bool) -> bytes:
    whole = b"".join(bytes(part) for part in answer.parts)  # type: ignore[arg-type] # all are bytes
    size, correlation_id = struct.unpack_from(">ii", whole)
    assert (size, correlation_id) == (len(whole) - 4, CORRELATION_ID)
    if flexible:
        assert whole[8] == 0
    return whole[9 if flexible else 8 :]


def requested(key: int, version: int, source: random.Random) -> tuple[bytes, bool, int]:
    """A random body, whether its header is flexible, and how many refusals it wants at least."""
    refusable = REFUSABLE[key]
    if refusable.request is None:
        flexible = version in refusable.response.flexible
        return source.randbytes(20), flexible, 1
    asked = random_message(refusable.request, version, source)
    wanted = codes_wanted(asked)
    flexible = version in refusable.request.flexible
    return codec.encode_bytes(asked, version), flexible, wanted


def codes_wanted(asked: Any) -> int:
    """How many things a request is about: the leaves of its lists."""
    if hasattr(asked, "deletions"):
        return len({each.name for each in (*asked.deletions, *asked.upsertions)})
    first = next(getattr(asked, each.name) for each in asked.__fields__ if each.kind == "array")
    return sum(_leaves(item) for item in first or ())


def _leaves(item: Any) -> int:
    for name in ("topics", "partitions", "partition_indexes"):
        inner = getattr(item, name, None)
        if (
            isinstance(inner, list)
            and type(item).__name__ != "DescribeShareGroupOffsetsRequestGroup"
        ):
            return sum(_leaves(each) for each in inner)
    return 1


def codes(value: Any, version: int) -> list[int]:
    """All error codes that a message carries, ours or kio's, at any depth."""
    found: list[int] = []
    if isinstance(value, list | tuple):
        return [code for item in value for code in codes(item, version)]
    names = (
        [each.name for each in value.__fields__ if each.is_plain_in(version)]
        if isinstance(value, Struct)
        else list(getattr(value, "__dataclass_fields__", ()))
    )
    for name in names:
        inner = getattr(value, name)
        if name == "error_code":
            found.append(int(inner))
        else:
            found += codes(inner, version)
    return found


@pytest.mark.parametrize(("key", "version"), CASES)
def test_unserved_operation_is_cut_off_or_answered_with_nothing(key: int, version: int) -> None:
    """C042: all that was asked for is refused, in the layout that its sender expects."""
    source = random.Random(f"{key} {version}")
    kind = REFUSABLE[key].response
    for _ in range(5):
        body, flexible, wanted = requested(key, version, source)
        answer = refuse(key, version, body, flexible_request=flexible)
        assert (answer.operation, answer.version) == (REFUSABLE[key].name, version)
        data = body_of(answer, flexible=version in kind.flexible)
        message, position = codec.decode(kind, version, memoryview(data))
        assert position == len(data)
        found = [code for code in codes(message, version) if code]
        assert set(found) <= {answer.error}
        assert len(found) in (wanted, wanted + 1)
        theirs = kio_response(kind, version)
        if theirs is not None:
            decoded, size = theirs(data, 0)
            assert size == len(data)
            assert [code for code in codes(decoded, version) if code] == found


def kio_response(kind: type[Message], version: int) -> Any:
    """How kio reads a response; None where it does not know the version."""
    serial = pytest.importorskip("kio.serial", reason="kio is not installed")
    name = snake_case(kind.__name__.removesuffix("Response"))
    try:
        module = importlib.import_module(f"kio.schema.{name}.v{version}.response")
    except ModuleNotFoundError:
        return None
    return serial.entity_reader(getattr(module, kind.__name__))


@needs_schemas
def test_operation_that_is_known_elsewhere_is_cut_off() -> None:
    """C042: whatever Kafka has a schema for is answered, in each of its versions."""
    refused = set()
    for path in sorted(FOLDER.glob("*Request.json")):
        schema = load_schema(path.stem)
        if schema["validVersions"] == "none" or schema["name"] == "ApiVersionsRequest":
            continue
        key = schema["apiKey"]
        if key in OPERATION_OF_KEY:
            operation = OPERATION_OF_KEY[key]
            declared, kind = operation.versions, generic_of(operation.request)
            assert key not in REFUSABLE, schema["name"]
        else:
            declared, kind = REFUSABLE[key].response.versions, REFUSABLE[key].response
            refused.add(key)
        first, _, last = schema["validVersions"].partition("-")
        assert declared.first <= int(first), schema["name"]
        assert declared.last == int(last or first), schema["name"]
        flexible = schema.get("flexibleVersions", "none")
        assert (str(kind.flexible) or "none") == flexible, schema["name"]
    assert refused == set(REFUSABLE)


@pytest.mark.parametrize(("operation", "version"), OLD)
def test_version_that_is_not_served_is_cut_off(operation: Any, version: int) -> None:
    """C042: what Kafka 4 has given up, and what is newer than our handlers, is refused in words."""
    source = random.Random(f"{operation.key.name} {version}")
    refused = 0
    for _ in range(8):
        asked = random_message(generic_of(operation.request), version, source)
        if hasattr(asked, "isolation_level"):
            asked.isolation_level = 0
        if hasattr(asked, "acks"):
            asked.acks = 1
        flexible = version in operation.request.flexible
        data = codec.encode_bytes(asked, version)
        answer = refuse(int(operation.key), version, data, flexible_request=flexible)
        kind = generic_of(operation.response)
        body = body_of(answer, flexible=version in kind.flexible)
        message, position = codec.decode(kind, version, memoryview(body))
        assert position == len(body)
        found = codes(message, version)
        assert set(found) <= {NOT_OFFERED}
        refused += len(found)
        check_with_aiokafka(answer.operation, version, data, body)
    assert refused > 0


def check_with_aiokafka(name: str, version: int, request: bytes, response: bytes) -> None:
    """The old layouts as others have written them down."""
    place = NAMES_OF_AIOKAFKA.get(name)
    if place is None:
        return
    module, _, prefix = place.partition(".")
    namespace = vars(importlib.import_module(f"aiokafka.protocol.{module}"))
    for suffix, data in (("Request", request), ("Response", response)):
        kind = namespace.get(f"{prefix}{suffix}_v{version}")
        if kind is not None:
            stream = io.BytesIO(data)
            assert kind.decode(stream).encode() == data, kind
            assert stream.tell() == len(data)


@pytest.mark.parametrize(("key", "version"), CASES)
def test_other_clients_read_a_refusal_differently(key: int, version: int) -> None:
    """The layouts of aiokafka, for operations that it has."""
    source = random.Random(f"aiokafka {key} {version}")
    refusable = REFUSABLE[key]
    body, flexible, _ = requested(key, version, source)
    answer = refuse(key, version, body, flexible_request=flexible)
    data = body_of(answer, flexible=version in refusable.response.flexible)
    asked = body if refusable.request is not None else b""
    if refusable.request is not None:
        check_with_aiokafka(refusable.name, version, asked, data)


@pytest.mark.parametrize("key", [30, 31, 34, 43, 49, 51, 69, 77, 83, 89, 90])
@pytest.mark.parametrize("body", [b"", b"\xff\xff\xff\xff\x07", b"\x7f\xff\xff\xff", b"\x05abc"])
def test_malformed_request_is_refused_in_part(key: int, body: bytes) -> None:
    """Where the parts of a request are repeated, it has to be one."""
    version = REFUSABLE[key].response.versions.last
    with pytest.raises(ProtocolError, match="Request"):
        refuse(key, version, body, flexible_request=True)


@pytest.mark.parametrize("body", [b"", b"\xff" * 100])
def test_body_of_a_request_that_is_refused_as_a_whole_is_read(body: bytes) -> None:
    """It costs nothing and can break nothing."""
    assert refuse(68, 1, body, flexible_request=True).operation == "ConsumerGroupHeartbeat"


@pytest.mark.parametrize(("key", "version"), [(17, 2), (4, 0), (5, 1), (95, 0), (68, 2), (-1, 0)])
def test_layout_is_guessed(key: int, version: int) -> None:
    """Another version may put something else where we have the error code."""
    with pytest.raises(UnsupportedApiError) as caught:
        refuse(key, version, b"\0" * 40, flexible_request=True)
    assert caught.value.reason == "unknown-operation"
