"""Field cases about requests that are within the protocol and beyond what anybody expects."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import pytest

from seglog.clients.testing import RunningBroker, running_broker
from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka.operations import OPERATION_OF_KEY
from support.kafka_messages import filled, generic_of
from support.real_broker import log_lines
from support.wires import KafkaWire

NAMES = ("x" * 32_767, "\0" * 32_767, "\u00e9" * 16_383)
TOPIC, BROKER, LOGGER = 2, 4, 8
Outcome: TypeAlias = tuple[int, str | None]
"""The code of one result, and its words."""


def outcomes(results: Iterable[Any]) -> list[Outcome]:
    return [(each.error, each.error_message) for each in results]


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with running_broker() as running:
        yield running


@pytest.fixture
def wire(broker: RunningBroker) -> Iterator[KafkaWire]:
    with KafkaWire(broker.port) as wire:
        yield wire


def ask_in_kafkas_words(wire: KafkaWire, key: ApiKey, **values: Any) -> Any:
    """The answer to a request that our own classes cannot be told to send, or not as this one."""
    operation = OPERATION_OF_KEY[key]
    request = filled(generic_of(operation.request), **values)
    return wire.ask(request, 0, generic_of(operation.response))


def create(wire: KafkaWire, name: str) -> list[Outcome]:
    topic = api.NewTopic(name, 1, 1)
    answer = wire.ask(api.CreateTopicsRequest([topic, topic], 1000), 2, api.CreateTopicsResponse)
    return outcomes(answer.topics)


def create_with_setting(wire: KafkaWire, name: str) -> list[Outcome]:
    request = api.CreateTopicsRequest([api.NewTopic("t", 1, 1, {name: name})], 1000)
    return outcomes(wire.ask(request, 2, api.CreateTopicsResponse).topics)


def grow(wire: KafkaWire, name: str) -> list[Outcome]:
    request = api.CreatePartitionsRequest([api.NewPartitions(name, 3, [])], 1000)
    return outcomes(wire.ask(request, 0, api.CreatePartitionsResponse).topics)


def delete(wire: KafkaWire, name: str) -> list[Outcome]:
    request = api.DeleteTopicsRequest([name, name, name[1:]], timeout_ms=1)
    return outcomes(wire.ask(request, 5, api.DeleteTopicsResponse).topics)


def describe(wire: KafkaWire, name: str) -> list[Outcome]:
    resources = [api.ConfigResource(kind, name) for kind in (TOPIC, BROKER, LOGGER)]
    answer = wire.ask(api.DescribeConfigsRequest(resources), 1, api.DescribeConfigsResponse)
    return outcomes(answer.resources)


def alter(wire: KafkaWire, name: str) -> list[Outcome]:
    resources = [
        {"resource_type": kind, "resource_name": name, "configs": []}
        for kind in (TOPIC, TOPIC, BROKER, LOGGER)
    ]
    answer = ask_in_kafkas_words(wire, ApiKey.ALTER_CONFIGS, resources=resources)
    return [(each.error_code, each.error_message) for each in answer.responses]


def alter_incrementally(wire: KafkaWire, name: str) -> list[Outcome]:
    found: list[Outcome] = []
    for operation in (0, 2, 9):
        change = {"name": name, "config_operation": operation, "value": name}
        resource = {"resource_type": BROKER, "resource_name": "", "configs": [change]}
        answer = ask_in_kafkas_words(wire, ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=[resource])
        found += [(each.error_code, each.error_message) for each in answer.responses]
    return found


def delete_group(wire: KafkaWire, name: str) -> list[Outcome]:
    request = api.DeleteGroupsRequest([name])
    answer = wire.ask(request, 1, api.DeleteGroupsResponse)
    return [(each.error, None) for each in answer.groups]


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
    broker: RunningBroker, wire: KafkaWire, ask: Callable[[KafkaWire, str], list[Outcome]]
) -> None:
    """C043: refused in words that fit, not as a defect; the connection goes on."""
    for name in NAMES:
        for code, message in ask(wire, name):
            assert code > ErrorCode.NONE, (code, message)
            assert len(message or "") < 1100
    assert not log_lines(broker, "event=request-failed")
