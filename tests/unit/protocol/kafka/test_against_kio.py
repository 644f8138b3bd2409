"""Our bytes are those of kio, an implementation of the protocol by other people."""

import dataclasses
import datetime as dt
import importlib
import random
import uuid
from pathlib import Path
from typing import Any

import pytest

from seglog.protocol.kafka import codec
from seglog.protocol.kafka.schema import Field, Message, Struct
from support.kafka_messages import all_messages, random_message
from support.kafka_schemas import snake_case

kio_serial = pytest.importorskip("kio.serial", reason="kio is not installed")

KIO_FOLDER = Path(kio_serial.__path__[0]).parents[1]
MESSAGES_PER_VERSION = 6
UNKNOWN_TO_KIO = {
    # Records of internal topics are no requests, kio has none of them.
    "GroupMetadataKey", "GroupMetadataValue", "LegacyOffsetCommitKey", "LegacyOffsetCommitValue",
    "OffsetCommitKey", "OffsetCommitValue", "TransactionLogKey", "TransactionLogValue",
}  # fmt: skip
NEWER_THAN_KIO = {
    "DeleteGroupsRequest": {3},
    "DeleteGroupsResponse": {3},
    "TxnOffsetCommitRequest": {6},
    "TxnOffsetCommitResponse": {6},
}


def kio_module(message: type[Message], version: int) -> str:
    name = message.__name__
    for suffix in ("Request", "Response"):
        if name.endswith(suffix):
            package, module = snake_case(name.removesuffix(suffix)), suffix.lower()
            break
    else:
        package, module = snake_case(name), "data"
    return f"kio.schema.{package}.v{version}.{module}"


def is_known_to_kio(message: type[Message], version: int) -> bool:
    """Versions that Kafka 4 refuses are missing there, and those that are newer than kio."""
    if version in NEWER_THAN_KIO.get(message.__name__, ()):
        return False
    # Looked for as a file: to find them as modules imports six hundred, in each process.
    return (KIO_FOLDER / (kio_module(message, version).replace(".", "/") + ".py")).is_file()


CASES = [
    pytest.param(message, version, id=f"{message.__name__}-{version}")
    for message in all_messages()
    if message.__name__ not in UNKNOWN_TO_KIO
    for version in message.versions.versions()
    if is_known_to_kio(message, version)
]


def kio_class(message: type[Message], version: int) -> Any:
    return getattr(importlib.import_module(kio_module(message, version)), message.__name__)


def flat_ours(value: Any, version: int) -> list[Any]:
    """The carried values of a struct, in order, down to the leaves."""
    leaves: list[Any] = []
    for each in value.__fields__:
        if each.is_plain_in(version) or each.is_tagged_in(version):
            leaves.extend(_flat_our_field(each, getattr(value, each.name), version))
    return leaves


def _flat_our_field(each: Field, value: Any, version: int) -> list[Any]:
    if isinstance(value, Struct):
        return flat_ours(value, version)
    if each.kind == "struct" and version not in each.nullable:
        assert isinstance(each.element, type)
        return flat_ours(each.element(), version)
    if isinstance(value, list):
        leaves: list[Any] = [len(value)]
        for item in value:
            leaves.extend(flat_ours(item, version) if isinstance(item, Struct) else [item])
        return leaves
    return [bytes(value) if isinstance(value, memoryview) else value]


def flat_kio(value: Any) -> list[Any]:
    if dataclasses.is_dataclass(value):
        leaves: list[Any] = []
        for each in dataclasses.fields(value):
            field_value = getattr(value, each.name)
            if field_value is None and each.metadata.get("kafka_type") == "uuid":
                leaves.append(bytes(16))
            elif field_value is None and "datetime" in each.metadata.get("kafka_type", ""):
                leaves.append(-1)
            else:
                leaves.extend(flat_kio(field_value))
        return leaves
    if isinstance(value, tuple):
        return [len(value), *(leaf for item in value for leaf in flat_kio(item))]
    if isinstance(value, dt.timedelta):
        return [value // dt.timedelta(milliseconds=1)]
    if isinstance(value, dt.datetime):
        epoch = dt.datetime.fromtimestamp(0, dt.UTC)
        return [(value - epoch) // dt.timedelta(milliseconds=1)]
    return [value.bytes if isinstance(value, uuid.UUID) else value]


@pytest.mark.parametrize(("message", "version"), CASES)
def test_other_implementation_reads_something_else(message: type[Message], version: int) -> None:
    """Random messages: kio reads our values, writes our bytes, and we read them back."""
    source = random.Random(f"{message.__name__} {version}")
    theirs = kio_class(message, version)
    read, write = kio_serial.entity_reader(theirs), kio_serial.entity_writer(theirs)
    for _ in range(MESSAGES_PER_VERSION):
        ours = random_message(message, version, source)
        data = codec.encode_bytes(ours, version)
        decoded, size = read(data, 0)
        assert size == len(data)
        assert flat_kio(decoded) == flat_ours(ours, version)
        written = bytearray()
        write(_Sink(written), decoded)
        assert bytes(written) == data
        again, position = codec.decode(message, version, memoryview(data))
        assert position == len(data)
        assert flat_ours(again, version) == flat_ours(ours, version)


class _Sink:
    """What kio writes to."""

    def __init__(self, data: bytearray) -> None:
        self._data = data

    def write(self, data: bytes) -> None:
        self._data += data
