"""Field cases about requests that are within the protocol and beyond what anybody expects."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from seglog.clients.testing import RunningBroker, running_broker
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka.messages import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
    group_admin,
    incremental_alter_configs,
)
from support.real_broker import log_lines
from support.wires import KafkaWire

NAMES = ("x" * 32_767, "\0" * 32_767, "\u00e9" * 16_383)
TOPIC, BROKER, LOGGER = 2, 4, 8


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with running_broker() as running:
        yield running


@pytest.fixture
def wire(broker: RunningBroker) -> Iterator[KafkaWire]:
    with KafkaWire(broker.port) as wire:
        yield wire


def create(wire: KafkaWire, name: str) -> list[Any]:
    topic = create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    request = create_topics.CreateTopicsRequest(topics=[topic, topic], timeout_ms=1000)
    return wire.ask(request, 2, create_topics.CreateTopicsResponse).topics


def create_with_setting(wire: KafkaWire, name: str) -> list[Any]:
    topic = create_topics.CreatableTopic(
        name="t",
        num_partitions=1,
        replication_factor=1,
        configs=[create_topics.CreatableTopicConfig(name=name, value=name)],
    )
    request = create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=1000)
    return wire.ask(request, 2, create_topics.CreateTopicsResponse).topics


def grow(wire: KafkaWire, name: str) -> list[Any]:
    topic = create_partitions.CreatePartitionsTopic(name=name, count=3)
    request = create_partitions.CreatePartitionsRequest(topics=[topic], timeout_ms=1000)
    return wire.ask(request, 0, create_partitions.CreatePartitionsResponse).results


def delete(wire: KafkaWire, name: str) -> list[Any]:
    request = delete_topics.DeleteTopicsRequest(topic_names=[name, name, name[1:]], timeout_ms=1)
    return wire.ask(request, 5, delete_topics.DeleteTopicsResponse).responses


def describe(wire: KafkaWire, name: str) -> list[Any]:
    resources = [
        describe_configs.DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=None
        )
        for kind in (TOPIC, BROKER, LOGGER)
    ]
    request = describe_configs.DescribeConfigsRequest(resources=resources)
    return wire.ask(request, 1, describe_configs.DescribeConfigsResponse).results


def alter(wire: KafkaWire, name: str) -> list[Any]:
    resources = [
        alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])
        for kind in (TOPIC, TOPIC, BROKER, LOGGER)
    ]
    request = alter_configs.AlterConfigsRequest(resources=resources)
    return wire.ask(request, 0, alter_configs.AlterConfigsResponse).responses


def alter_incrementally(wire: KafkaWire, name: str) -> list[Any]:
    results = []
    for operation in (0, 2, 9):
        change = incremental_alter_configs.AlterableConfig(
            name=name, config_operation=operation, value=name
        )
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=BROKER, resource_name="", configs=[change]
        )
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
        answer = wire.ask(request, 0, incremental_alter_configs.IncrementalAlterConfigsResponse)
        results += answer.responses
    return results


def delete_group(wire: KafkaWire, name: str) -> list[Any]:
    request = group_admin.DeleteGroupsRequest(groups_names=[name])
    return wire.ask(request, 1, group_admin.DeleteGroupsResponse).results


@pytest.mark.parametrize(
    "ask",
    [
        create,
        create_with_setting,
        grow,
        delete,
        describe,
        alter,
        alter_incrementally,
        delete_group,
    ],
)
def test_a_long_name_is_refused_in_words_that_fit(
    broker: RunningBroker, wire: KafkaWire, ask: Callable[[KafkaWire, str], list[Any]]
) -> None:
    """C043: refused in words that fit, not as a defect; the connection goes on."""
    for name in NAMES:
        for result in ask(wire, name):
            assert result.error_code > ErrorCode.NONE, result
            assert len(getattr(result, "error_message", None) or "") < 1100
    assert not log_lines(broker, "event=request-failed")
