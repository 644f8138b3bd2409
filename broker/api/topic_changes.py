"""Changes of topics: what may be created, grown or deleted, and doing so.

A change is checked, made durable in the catalog, and carried out on the logs, one after the other
for all requests of the broker (``Services.changing``), so that a check stays true until its change
is done. What blocks runs in a worker.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeVar

from seglog.broker.api.describe_configs import config_entry
from seglog.broker.errors import RequestError, describe_error
from seglog.broker.requests.services import Services
from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.files.layout import INTERNAL_TOPICS, check_topic_name, colliding_topic
from seglog.broker.storage.identifiers import random_id
from seglog.config import ConfigError, LogConfig
from seglog.config.describe import describe_topic
from seglog.protocol.api import CreateTopicResult, NewPartitions, NewTopic
from seglog.protocol.errors import ErrorCode, SeglogError
from seglog.protocol.types import TopicPartition
from seglog.protocol.wording import count_text

PARTITIONS_PER_REQUEST_MAX: Final = 10_000
"""How many partitions one request may create; Kafka's limit."""

_DEFAULT: Final = -1
_KeyT = TypeVar("_KeyT")


class _TopicPlan(NamedTuple):
    """A topic that may be created."""

    name: str
    partition_count: int
    configs: dict[str, str]
    log_config: LogConfig


class TopicChanges:
    """Creates, grows and deletes topics; the part that other operations use as well."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def create(
        self, topics: list[NewTopic], *, validate_only: bool = False
    ) -> list[CreateTopicResult]:
        """Create topics, or only say what would become of it; one result for each, in order."""
        async with self._services.changing:
            repeated = repeated_keys(topic.name for topic in topics)
            results = []
            budget = PARTITIONS_PER_REQUEST_MAX
            for topic in topics:
                result = CreateTopicResult(topic.name)
                results.append(result)
                try:
                    if topic.name in repeated:
                        raise RequestError(
                            ErrorCode.INVALID_REQUEST, f"topic {topic.name!r} is named twice"
                        )
                    plan = self._check(topic, budget)
                    budget -= plan.partition_count
                    await self._carry_out(plan, result, validate_only=validate_only)
                except (SeglogError, ConfigError) as error:
                    result.error, result.error_message = describe_error(error)
            return results

    async def grow(self, wanted: NewPartitions, *, validate_only: bool) -> None:
        """Add partitions to a topic; the caller holds ``Services.changing``.

        Raises:
            RequestError: the topic is unknown or internal, or the count is not greater than what it
                has.
            StorageError: the files could not be made.
        """
        services = self._services
        topic = services.catalog.get(wanted.name)
        if topic is None:
            raise RequestError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {wanted.name!r}"
            )
        if wanted.name in INTERNAL_TOPICS:
            raise RequestError(
                ErrorCode.POLICY_VIOLATION,
                f"topic {wanted.name!r} cannot grow: the number of its partitions decides where "
                "its keys are found",
            )
        added = wanted.count - topic.partition_count
        if added <= 0:
            raise RequestError(
                ErrorCode.INVALID_PARTITIONS,
                f"topic {wanted.name!r} has {count_text(topic.partition_count, 'partition')} and "
                f"can only grow, not change to {wanted.count}",
            )
        _check_partition_budget(wanted.name, added, PARTITIONS_PER_REQUEST_MAX)
        if wanted.assignments is not None:
            _check_assignments(wanted.assignments, added, services.node_id)
        if not validate_only:
            log_config = services.config.log_config(topic.configs)
            await services.topics.grow(topic.name, wanted.count, log_config)

    async def delete(self, name: str) -> None:
        """Delete a topic; the caller holds ``Services.changing``.

        Raises:
            RequestError: deletion is switched off, or the topic is unknown or internal.
            StorageError: the deletion could not be made durable.
        """
        services = self._services
        if not services.config.delete_topic_enable:
            raise RequestError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
        topic = services.catalog.get(name)
        if topic is None:
            raise RequestError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name[:260]!r}"
            )
        if name in INTERNAL_TOPICS:
            # Commits that were acknowledged would go with it. Not TOPIC_DELETION_DISABLED, which
            # sends people to a setting that does not help.
            raise RequestError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"topic {name!r} is internal and cannot be deleted: it holds what clients were "
                "told is stored; delete groups or their offsets instead",
            )
        cleaner = services.cleaner
        if cleaner is None:
            await services.topics.delete(name)
            return
        partitions = [TopicPartition(name, number) for number in range(topic.partition_count)]
        for partition in partitions:
            await cleaner.abort_and_pause(partition)
        try:
            await services.topics.delete(name)
        except StorageError:
            for partition in partitions:
                cleaner.resume(partition)
            raise
        for partition in partitions:
            cleaner.forget(partition)

    def _check(self, topic: NewTopic, budget: int) -> _TopicPlan:
        """Check a topic against the rules, the catalog and what else the request creates."""
        services = self._services
        check_topic_name(topic.name)
        if services.catalog.get(topic.name) is not None:
            raise RequestError(
                ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {topic.name!r} exists already"
            )
        if topic.name in INTERNAL_TOPICS:
            raise RequestError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"topic {topic.name!r} is internal: the broker makes it itself when it is needed, "
                "with the settings that it relies on",
            )
        names = [existing.name for existing in services.catalog.topics()]
        collision = colliding_topic(topic.name, names)
        if collision is not None:
            raise RequestError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"topic {topic.name!r} collides with {collision!r}: "
                "'.' and '_' are the same in the names of metrics",
            )
        partition_count = _partition_count(topic, services.config.num_partitions, services.node_id)
        _check_partition_budget(topic.name, partition_count, budget)
        configs = _overrides(topic)
        return _TopicPlan(topic.name, partition_count, configs, services.config.log_config(configs))

    async def _carry_out(
        self, plan: _TopicPlan, result: CreateTopicResult, *, validate_only: bool
    ) -> None:
        services = self._services
        result.partitions = plan.partition_count
        result.replication_factor = 1
        result.configs = [
            config_entry(setting) for setting in describe_topic(services.config, plan.configs)
        ]
        if not validate_only:
            result.topic_id = random_id()
            await services.topics.create(
                plan.name, result.topic_id, plan.partition_count, plan.configs, plan.log_config
            )


def repeated_keys(names: Iterable[_KeyT]) -> set[_KeyT]:
    """What stands there more than once."""
    seen: set[_KeyT] = set()
    repeated: set[_KeyT] = set()
    for name in names:
        (repeated if name in seen else seen).add(name)
    return repeated


def _partition_count(topic: NewTopic, default_count: int, node_id: int) -> int:
    """How many partitions the topic gets; checks the replication factor on the way."""
    if topic.assignments:
        if topic.partitions != _DEFAULT or topic.replication_factor != _DEFAULT:
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                f"topic {topic.name!r}: with an assignment of replicas, partitions and "
                "replication factor must be -1",
            )
        numbers = sorted(topic.assignments)
        if numbers != list(range(len(numbers))):
            raise RequestError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"topic {topic.name!r}: partitions must be numbered from 0 without a gap, "
                f"not {numbers[:20]}",
            )
        _check_assignments(list(topic.assignments.values()), len(numbers), node_id)
        return len(numbers)
    if topic.replication_factor not in (_DEFAULT, 1):
        raise RequestError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"topic {topic.name!r}: replication factor {topic.replication_factor} is not possible "
            "with 1 broker; allowed are 1 and -1",
        )
    if topic.partitions != _DEFAULT and topic.partitions < 1:
        raise RequestError(
            ErrorCode.INVALID_PARTITIONS,
            f"topic {topic.name!r}: {topic.partitions} partitions; allowed are -1 or at least 1",
        )
    return default_count if topic.partitions == _DEFAULT else topic.partitions


def _check_partition_budget(topic: str, count: int, budget: int) -> None:
    if count > budget:
        raise RequestError(
            ErrorCode.POLICY_VIOLATION,
            f"topic {topic!r}: {count} partitions are too many for one request, "
            f"which may create {PARTITIONS_PER_REQUEST_MAX} in all",
        )


def _check_assignments(assignments: list[list[int]], count: int, node_id: int) -> None:
    if len(assignments) != count:
        raise RequestError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{count_text(len(assignments), 'assignment')} given for "
            f"{count_text(count, 'partition')}",
        )
    for replica_ids in assignments:
        if replica_ids != [node_id]:
            raise RequestError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"replicas {replica_ids[:20]} are not possible; the only broker is {node_id}",
            )


def _overrides(topic: NewTopic) -> dict[str, str]:
    """The configurations of a new topic, none of them null."""
    configs = {}
    for name, value in topic.configs.items():
        if value is None:
            raise RequestError(
                ErrorCode.INVALID_CONFIG, f"topic {topic.name!r}: {name} needs a value"
            )
        configs[name] = value
    return configs
