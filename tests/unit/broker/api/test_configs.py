"""DescribeConfigs and AlterConfigs: checked, durable, and in force without a restart."""

from seglog.protocol.api import (
    AlterConfigResource,
    AlterConfigsRequest,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    DescribeConfigsRequest,
)
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import AlterConfigOperation, ConfigResourceType, ConfigSource
from support.broker_parts import BrokerParts, batch_of

SET, DELETE = AlterConfigOperation.SET, AlterConfigOperation.DELETE
APPEND, SUBTRACT = AlterConfigOperation.APPEND, AlterConfigOperation.SUBTRACT
TOPIC, BROKER = ConfigResourceType.TOPIC, ConfigResourceType.BROKER


async def alter(
    broker: BrokerParts,
    kind: ConfigResourceType | int,
    name: str,
    *changes: ConfigChange,
    replace_all: bool = False,
    validate_only: bool = False,
) -> ErrorCode:
    resource = AlterConfigResource(kind, name, list(changes), replace_all)
    response = await broker.ask(AlterConfigsRequest([resource], validate_only))
    (result,) = response.resources
    assert (result.error == ErrorCode.NONE) == (result.error_message is None)
    error: ErrorCode = result.error
    return error


async def describe(
    broker: BrokerParts, kind: ConfigResourceType, name: str
) -> dict[str, ConfigEntry]:
    request = DescribeConfigsRequest([ConfigResource(kind, name)], include_synonyms=True)
    (result,) = (await broker.ask(request)).resources
    assert result.error == ErrorCode.NONE
    return {entry.name: entry for entry in result.entries}


async def test_topic_setting_is_in_force_at_once_and_after_a_restart(broker: BrokerParts) -> None:
    """MGR-5"""
    await broker.create_topic("t", 2)
    assert await alter(broker, TOPIC, "t", ConfigChange("max.message.bytes", SET, "200")) == 0
    results = await broker.produce([("t", number, batch_of(bytes(300))) for number in range(2)])
    assert [result.error for result in results] == [ErrorCode.MESSAGE_TOO_LARGE] * 2
    entry = (await describe(broker, TOPIC, "t"))["max.message.bytes"]
    assert (entry.value, entry.source) == ("200", ConfigSource.TOPIC)
    assert [synonym.source for synonym in entry.synonyms] == [1, 5]
    again = await broker.restart()
    assert again.log("t", 1).config.max_message_bytes == 200
    assert await alter(again, TOPIC, "t", ConfigChange("max.message.bytes", DELETE)) == 0
    (result,) = await again.produce([("t", 0, batch_of(bytes(300)))])
    assert result.error == ErrorCode.NONE


async def test_broker_default_reaches_topics_that_do_not_say_otherwise(
    broker: BrokerParts,
) -> None:
    """MGR-5"""
    await broker.create_topic("own", 1, {"retention.ms": "1000"})
    await broker.create_topic("plain")
    node = str(broker.services.config.node_id)
    assert await alter(broker, BROKER, "", ConfigChange("log.retention.ms", SET, "5000")) == 0
    assert broker.log("plain", 0).config.retention_ms == 5000
    assert broker.log("own", 0).config.retention_ms == 1000
    assert await alter(broker, BROKER, node, ConfigChange("log.retention.ms", SET, "7000")) == 0
    assert broker.log("plain", 0).config.retention_ms == 7000
    again = await broker.restart()
    assert again.log("plain", 0).config.retention_ms == 7000
    entry = (await describe(again, TOPIC, "plain"))["retention.ms"]
    assert [synonym.source for synonym in entry.synonyms][:2] == [2, 3]
    assert await alter(again, BROKER, node, ConfigChange("log.retention.ms", DELETE)) == 0
    assert again.log("plain", 0).config.retention_ms == 5000
    assert set(await describe(again, BROKER, "")) == {"log.retention.ms"}


async def test_lists_are_added_to_and_taken_from(broker: BrokerParts) -> None:
    await broker.create_topic("t")
    add = ConfigChange("cleanup.policy", APPEND, "compact")
    assert await alter(broker, TOPIC, "t", add) == 0
    assert broker.log("t", 0).config.cleanup_policy == {"delete", "compact"}
    assert await alter(broker, TOPIC, "t", add) == 0
    assert await alter(broker, TOPIC, "t", ConfigChange("cleanup.policy", SUBTRACT, "delete")) == 0
    assert broker.log("t", 0).config.cleanup_policy == {"compact"}
    number = ConfigChange("retention.ms", APPEND, "1")
    assert await alter(broker, TOPIC, "t", number) == ErrorCode.INVALID_CONFIG


async def test_replacing_all_takes_back_what_is_not_named(broker: BrokerParts) -> None:
    await broker.create_topic("t", 1, {"retention.ms": "1", "segment.ms": "5"})
    changes = [ConfigChange("retention.bytes", SET, "9")]
    assert await alter(broker, TOPIC, "t", *changes, replace_all=True) == 0
    topic = broker.services.catalog.get("t")
    assert topic is not None
    assert dict(topic.configs) == {"retention.bytes": "9"}


async def test_one_bad_change_spoils_all_of_its_resource_and_no_other(broker: BrokerParts) -> None:
    for name in "tuv":
        await broker.create_topic(name)
    good = ConfigChange("retention.ms", SET, "77")
    resources = [
        AlterConfigResource(TOPIC, "t", [good, ConfigChange("no.such.key", SET, "1")]),
        AlterConfigResource(TOPIC, "u", [good]),
        AlterConfigResource(TOPIC, "ghost", [good]),
        AlterConfigResource(TOPIC, "a/b", [good]),
        AlterConfigResource(BROKER, "99", [good]),
        AlterConfigResource(ConfigResourceType.GROUP, "g", [good]),
        AlterConfigResource(BROKER, "", [ConfigChange("log.dirs", SET, "/elsewhere")]),
        AlterConfigResource(TOPIC, "v", [good, good]),
    ]
    response = await broker.ask(AlterConfigsRequest(resources))
    codes = [result.error for result in response.resources]
    assert codes == [40, 0, 3, 17, 42, 42, 40, 42]
    assert broker.log("t", 0).config.retention_ms != 77
    assert broker.log("u", 0).config.retention_ms == 77


async def test_first_of_two_changes_of_a_resource_is_made(broker: BrokerParts) -> None:
    """As Kafka: none of them, since nobody knows which one is meant; other resources change."""
    await broker.create_topic("t")
    await broker.create_topic("u")
    before = broker.log("t", 0).config.retention_ms
    resources = [
        AlterConfigResource(TOPIC, name, [ConfigChange("retention.ms", SET, value)])
        for name, value in (("t", "77"), ("u", "77"), ("t", "78"))
    ]
    response = await broker.ask(AlterConfigsRequest(resources))
    assert [result.error for result in response.resources] == [42, 0, 42]
    assert broker.log("t", 0).config.retention_ms == before


async def test_value_is_needed_and_must_be_legal(broker: BrokerParts) -> None:
    await broker.create_topic("t")
    missing = ConfigChange("retention.ms", SET, None)
    assert await alter(broker, TOPIC, "t", missing) == ErrorCode.INVALID_REQUEST
    illegal = ConfigChange("cleanup.policy", SET, "shred")
    assert await alter(broker, TOPIC, "t", illegal) == ErrorCode.INVALID_CONFIG


async def test_validate_only_changes_nothing(broker: BrokerParts) -> None:
    await broker.create_topic("t")
    change = ConfigChange("retention.ms", SET, "77")
    assert await alter(broker, TOPIC, "t", change, validate_only=True) == 0
    assert broker.log("t", 0).config.retention_ms != 77
    change = ConfigChange("log.retention.ms", SET, "77")
    assert await alter(broker, BROKER, "", change, validate_only=True) == 0
    assert broker.services.config.log_retention_ms != 77


async def test_only_the_named_keys_are_described(broker: BrokerParts) -> None:
    await broker.create_topic("t")
    request = DescribeConfigsRequest(
        [
            ConfigResource(TOPIC, "t", ["retention.ms"]),
            ConfigResource(TOPIC, "ghost"),
            ConfigResource(BROKER, "99"),
            ConfigResource(ConfigResourceType.CLIENT_METRICS, ""),
        ],
        include_documentation=True,
    )
    results = (await broker.ask(request)).resources
    assert [result.error for result in results] == [0, 3, 42, 42]
    (entry,) = results[0].entries
    assert (entry.value, entry.source, entry.value_type) == ("604800000", 5, "long")
    assert entry.documentation
    assert entry.synonyms == []


async def test_committed_offsets_go_by_age_where_their_topic_is_not_compacted(
    broker: BrokerParts,
) -> None:
    """C043: not by setting, adding, taking back or leaving out; other settings may change."""
    name = "__consumer_offsets"
    await broker.create_internal_topic(name)
    policy = "cleanup.policy"
    for change in (
        ConfigChange(policy, SET, "delete"),
        ConfigChange(policy, SET, "compact,delete"),
        ConfigChange(policy, APPEND, "delete"),
        ConfigChange(policy, DELETE),
    ):
        assert await alter(broker, TOPIC, name, change) == ErrorCode.INVALID_CONFIG
    other = ConfigChange("segment.bytes", SET, "1048576")
    assert await alter(broker, TOPIC, name, other, replace_all=True) == ErrorCode.INVALID_CONFIG
    assert await alter(broker, TOPIC, name, other) == ErrorCode.NONE
    assert broker.log(name, 0).config.cleanup_policy == {"compact"}
    assert broker.log(name, 0).config.segment_bytes == 1_048_576


async def test_a_resource_named_again_and_again_is_described_as_often(broker: BrokerParts) -> None:
    """C034: all keys that were asked for are told, once each."""
    await broker.create_topic("t")
    resources = [
        ConfigResource(TOPIC, "t", ["retention.ms"]),
        ConfigResource(BROKER, "0", ["log.dirs"]),
        ConfigResource(TOPIC, "t", ["segment.ms", "retention.ms"]),
        ConfigResource(BROKER, "0", None),
    ]
    topic, this_broker = (await broker.ask(DescribeConfigsRequest(resources * 100))).resources
    assert sorted(entry.name for entry in topic.entries) == ["retention.ms", "segment.ms"]
    assert len(this_broker.entries) > 100


async def test_many_topics_with_their_own_settings_look_alike(broker: BrokerParts) -> None:
    """Those with the same settings are described once, with others as what they are."""
    names = [f"t{number}" for number in range(120)]
    for number, name in enumerate(names):
        own = {"retention.ms": str(1000 * (number % 3))} if number % 3 else {}
        await broker.create_topic(name, configs=own)
    request = DescribeConfigsRequest([ConfigResource(TOPIC, name) for name in [*names, "ghost"]])
    *found, ghost = (await broker.ask(request)).resources
    assert ghost.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    values = []
    for result in found:
        (value,) = [entry.value for entry in result.entries if entry.name == "retention.ms"]
        values.append(value)
    assert [result.name for result in found] == names
    assert values == ["604800000", "1000", "2000"] * 40
