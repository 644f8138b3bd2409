"""Our declarations say what Kafka's schemas say, field by field and version by version."""

from typing import Any

import pytest

from seglog.protocol.declaration.versions import VersionRange, version_range
from seglog.protocol.kafka.operations import ALL_OPERATIONS
from seglog.protocol.kafka.schema import Field, Message, Struct, Undeclared
from support.kafka_messages import all_messages, is_generic
from support.kafka_schemas import load_schema, needs_schemas, snake_case

GONE_FROM_THE_SCHEMAS = {
    "GenericListOffsetsPartition.max_num_offsets",
    "GenericListOffsetsResult.old_style_offsets",
    "GenericOffsetCommitPartition.commit_timestamp",
    "GenericConfigEntry.is_default",
}
"""Fields of versions that Kafka 4 has forgotten; we declare these to refuse them."""

RENAMED = {
    "AlteredEntry": "EntryData",
    "AlteredResult": "EntryData",
    "DescribedStreamsGroup": "DescribedGroup",
    "InitializeTopic": "InitializeStateData",
    "InitializeTopicResult": "InitializeStateResult",
    "ReadTopic": "ReadStateData",
    "ReadTopicResult": "ReadStateResult",
    "WriteTopic": "WriteStateData",
    "WriteTopicResult": "WriteStateResult",
    "DeleteTopic": "DeleteStateData",
    "DeleteTopicResult": "DeleteStateResult",
    "ReadSummaryTopic": "ReadStateSummaryData",
    "ReadSummaryTopicResult": "ReadStateSummaryResult",
    **{f"{kind}Partition": "PartitionData" for kind in ("Initialize", "Read", "Write", "Delete")},
    **{f"{kind}PartitionResult": "PartitionResult" for kind in ("Read", "ReadSummary")},
}
"""Structs that have the same name as others in the schemas, and that name."""

KINDS = {"bool": "boolean", "bytes": "binary"}


def kafka_range(text: str | None) -> VersionRange:
    return version_range("" if text in (None, "none") else text)


def expected_default(schema: dict[str, Any], kind: str) -> Any:
    """The value of an absent field, in our form."""
    default = schema.get("default", "")
    if kind in ("struct", "records") or default is None or default == "null":
        return None
    if kind == "array":
        return ()
    if kind == "boolean":
        return str(default).lower() == "true"
    if kind == "string":
        return default
    if kind == "binary":
        return b""
    if kind == "uuid":
        return bytes(16)
    return int(str(default), 0) if default != "" else 0


def carried(struct: type[Struct], version: int) -> list[Field]:
    return [
        each
        for each in struct.__fields__
        if (each.is_plain_in(version) or each.is_tagged_in(version))
        and f"{struct.__name__}.{each.name}" not in GONE_FROM_THE_SCHEMAS
    ]


def carried_by_schema(fields: list[dict[str, Any]], version: int) -> list[dict[str, Any]]:
    return [
        each
        for each in fields
        if version in kafka_range(each.get("versions"))
        or version in kafka_range(each.get("taggedVersions"))
    ]


def is_always_there(field: Field, message: type[Message]) -> bool:
    """Whether its default never stands for it on the wire: then ours may be another."""
    return all(field.is_plain_in(version) for version in message.versions.versions())


def check_struct(
    struct: type[Struct],
    fields: list[dict[str, Any]],
    common: dict[str, list[dict[str, Any]]],
    version: int,
    message: type[Message],
) -> None:
    ours, theirs = carried(struct, version), carried_by_schema(fields, version)
    where = f"{struct.__name__} version {version}"
    assert [each.name for each in ours] == [snake_case(each["name"]) for each in theirs], where
    for our, their in zip(ours, theirs, strict=True):
        where = f"{struct.__name__}.{our.name} version {version}"
        is_array = their["type"].startswith("[]")
        base = their["type"].removeprefix("[]")
        is_struct = base[0].isupper()
        kind = "array" if is_array else "struct" if is_struct else KINDS.get(base, base)
        assert our.kind == kind, where
        tagged = kafka_range(their.get("taggedVersions"))
        assert our.is_tagged_in(version) == (version in tagged), where
        if version in tagged:
            assert our.tag == their["tag"], where
        assert (version in our.nullable) == (
            version in kafka_range(their.get("nullableVersions"))
        ), where
        # A version of ours may drop more: what only its later forms of an answer can say.
        expected = bool(their.get("ignorable", False))
        assert our.ignorable == expected or (is_generic(struct) and our.ignorable), where
        if not is_generic(struct) or not is_always_there(our, message):
            assert our.default == expected_default(their, kind), where
        if is_struct:
            assert isinstance(our.element, type), where
            if our.element is Undeclared:
                continue
            if not is_generic(our.element):
                assert RENAMED.get(our.element.__name__, our.element.__name__) == base, where
            check_struct(our.element, their.get("fields") or common[base], common, version, message)
        elif is_array:
            assert our.element == KINDS.get(base, base), where


@needs_schemas
@pytest.mark.parametrize("message", all_messages(), ids=lambda message: message.__name__)
def test_declaration_drifts_from_the_schema(message: type[Message]) -> None:
    """A wrong order, type, version, tag, default or null rule breaks clients silently."""
    schema = load_schema(message.__name__)
    valid = kafka_range(schema["validVersions"])
    # Versions that Kafka 4 has given up are declared to be refused; the schemas have their fields.
    assert message.versions.first <= valid.first
    assert message.versions.last <= valid.last
    assert message.api_key == schema.get("apiKey", -1)
    common = {each["name"]: each["fields"] for each in schema.get("commonStructs", [])}
    for version in message.versions.versions():
        assert (version in message.flexible) == (version in kafka_range(schema["flexibleVersions"]))
        check_struct(message, schema["fields"], common, version, message)


@needs_schemas
def test_version_is_served_that_kafka_does_not_serve() -> None:
    """What is declared beyond Kafka's versions is there to be refused."""
    for operation in ALL_OPERATIONS:
        valid = kafka_range(load_schema(operation.request.name)["validVersions"])
        assert valid.first <= operation.served.first <= operation.served.last <= valid.last


@needs_schemas
@pytest.mark.parametrize("message", all_messages(), ids=lambda message: message.__name__)
def test_field_is_declared_that_no_version_carries(message: type[Message]) -> None:
    """Such a field would be accepted from a handler and never be sent."""
    for each in message.__fields__:
        assert any(
            each.is_plain_in(version) or each.is_tagged_in(version)
            for version in message.versions.versions()
        ), each.name


def test_absent_list_is_shared_between_messages() -> None:
    """A mutable default that is shared leaks the topics of one request into the next."""
    metadata = next(each for each in all_messages() if each.__name__ == "MetadataResponse")
    first, second = metadata(), metadata()
    first.brokers.append(1)
    assert second.brokers == []


def test_message_takes_a_field_that_does_not_exist() -> None:
    """Slots: a typing error must not vanish in a new attribute."""
    metadata = next(each for each in all_messages() if each.__name__ == "MetadataResponse")()
    with pytest.raises(AttributeError):
        metadata.brokrs = []
    with pytest.raises(TypeError):
        type(metadata)(brokrs=[])


def test_equal_messages_compare_unequal() -> None:
    """Values decide; a tagged struct that equals its default is left out by that comparison."""
    produce = next(each for each in all_messages() if each.__name__ == "ProduceResponse")
    assert produce(throttle_time_ms=1) == produce(throttle_time_ms=1)
    assert produce(throttle_time_ms=1) != produce(throttle_time_ms=2)
    assert produce() != "produce"
    assert repr(produce(throttle_time_ms=7)).startswith("ProduceResponse(responses=[]")
