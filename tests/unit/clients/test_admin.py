"""AsyncAdmin: what the real broker's tests cannot provoke."""

import pytest

from seglog.clients import AsyncAdmin, NewTopic, TopicAlreadyExistsError
from seglog.clients.admin import config_text
from seglog.clients.errors import BrokerError, InvalidConfigError, UnknownTopicOrPartitionError
from seglog.protocol import api
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import AlterConfigOperation, ConfigResourceType
from support.fake_broker import HANG_UP
from support.fake_logs import fill, numbered


@pytest.fixture
async def admin(broker):
    async with AsyncAdmin(broker.address, retry_backoff_ms=1) as client:
        yield client


def test_values_are_spelled_as_kafka_does():
    values = [True, False, 5, -1, 0.5, "compact,delete"]
    assert [config_text(value) for value in values] == [
        "true",
        "false",
        "5",
        "-1",
        "0.5",
        "compact,delete",
    ]


async def test_what_can_be_done_is_done_before_the_first_error_is_raised(broker, admin):
    broker.create("old")
    with pytest.raises(TopicAlreadyExistsError, match="topic old"):
        await admin.create_topics([NewTopic("old"), NewTopic("new", 2)])
    assert await admin.list_topics() == ["new", "old"]
    with pytest.raises(UnknownTopicOrPartitionError, match="topic ghost"):
        await admin.delete_topics(["ghost", "old", "new"])
    assert await admin.list_topics() == []


async def test_internal_topics_are_listed_on_demand(broker, admin):
    def answer(_):
        topics = [
            api.TopicMetadata("__consumer_offsets", api.ZERO_TOPIC_ID, [], is_internal=True),
            api.TopicMetadata("mine", api.ZERO_TOPIC_ID, []),
        ]
        return api.MetadataResponse([], "c", 0, topics)

    broker.script = answer
    assert await admin.list_topics() == ["mine"]
    assert await admin.list_topics(include_internal=True) == ["__consumer_offsets", "mine"]


async def test_a_change_of_configuration_says_what_is_set_and_what_is_reset(broker, admin):
    broker.script = lambda request: (
        api.AlterConfigsResponse([api.AlterConfigsResult(ConfigResourceType.TOPIC, "t")])
        if isinstance(request, api.AlterConfigsRequest)
        else None
    )
    await admin.alter_configs("topic", "t", {"retention.ms": 5, "preallocate": None})
    ((resource,),) = [request.resources for request in broker.requests_of(api.AlterConfigsRequest)]
    assert resource.changes == [
        api.ConfigChange("retention.ms", AlterConfigOperation.SET, "5"),
        api.ConfigChange("preallocate", AlterConfigOperation.DELETE),
    ]
    refusal = api.AlterConfigsResult(
        ConfigResourceType.TOPIC, "t", ErrorCode.INVALID_CONFIG, "retention.ms: too small"
    )
    broker.script = lambda _: api.AlterConfigsResponse([refusal])
    with pytest.raises(InvalidConfigError, match=r"topic t: retention\.ms: too small"):
        await admin.alter_configs("topic", "t", {"retention.ms": -7})


async def test_an_error_about_all_brokers_names_them(broker, admin):
    """U52: the settings for all brokers have no name, and "broker : ..." says nothing."""
    refusal = api.AlterConfigsResult(
        ConfigResourceType.BROKER, "", ErrorCode.INVALID_CONFIG, "log.dirs: not while it runs"
    )
    broker.script = lambda request: (
        api.AlterConfigsResponse([refusal])
        if isinstance(request, api.AlterConfigsRequest)
        else None
    )
    with pytest.raises(InvalidConfigError, match=r"all brokers: log\.dirs: not while it runs"):
        await admin.alter_configs("broker", "", {"log.dirs": "x"})


async def test_what_must_not_happen_twice_is_not_tried_again(broker, admin):
    broker.script = lambda request: (
        HANG_UP if isinstance(request, api.CreateTopicsRequest) else None
    )
    with pytest.raises(ConnectionError):
        await admin.create_topic("topic")
    assert len(broker.requests_of(api.CreateTopicsRequest)) == 1


async def test_what_may_happen_twice_is_tried_again(broker, admin):
    (log,) = broker.create("topic")
    fill(log, numbered(10))
    faults = [1]
    broker.script = lambda request: (
        HANG_UP
        if isinstance(request, api.DeleteRecordsRequest) and faults and faults.pop()
        else None
    )
    assert await admin.delete_records({("topic", 0): 4}) == {("topic", 0): 4}


async def test_offsets_of_some_partitions_are_asked_for_again(broker, admin):
    """Only for those that failed; a partition that does not exist is not waited for."""
    for log in broker.create("topic", 2):
        fill(log, numbered(10))
    faults = [1]

    def half(request):
        if not isinstance(request, api.ListOffsetsRequest) or not (faults and faults.pop()):
            return None
        results = [
            api.ListOffsetsResult("topic", 0, offset=7),
            api.ListOffsetsResult("topic", 1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ]
        return api.ListOffsetsResponse(results)

    broker.script = half
    questions = {("topic", 0): "latest", ("topic", 1): "latest"}
    answers = await admin.list_offsets(questions)
    assert [answer.offset for answer in answers.values()] == [7, 10]
    second = broker.requests_of(api.ListOffsetsRequest)[1]
    assert [item.partition for item in second.partitions] == [1]
    with pytest.raises(UnknownTopicOrPartitionError, match="has 2 partitions, no 2"):
        await admin.list_offsets({("topic", 2): "latest"})
    broker.script = lambda request: (
        api.ListOffsetsResponse([]) if isinstance(request, api.ListOffsetsRequest) else None
    )
    with pytest.raises(BrokerError, match="no answer about them"):
        await admin.list_offsets({("topic", 0): "latest"})
