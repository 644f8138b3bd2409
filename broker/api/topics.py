"""CreateTopics, DeleteTopics and CreatePartitions.

A change is checked, made durable in the catalog, and carried out on the logs, one after the other
for all requests of the broker (``Services.changing``), so that a check stays true until its change
is done. What blocks runs in a worker.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeVar

from seglog.broker.api.context import Pending, RequestContext
from seglog.broker.api.describe_configs import config_entry
from seglog.broker.api.services import Services
from seglog.broker.errors import RequestError, describe_error
from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.identifiers import random_id
from seglog.broker.storage.layout import INTERNAL_TOPICS, check_topic_name, colliding_topic
from seglog.config import ConfigError, LogConfig
from seglog.config.describe import describe_topic
from seglog.protocol.api import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsResult,
    CreateTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    NewPartitions,
    NewTopic,
)
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
            repeated = _repeated(topic.name for topic in topics)
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


class CreateTopicsOperation:
    """Answers create-topics requests."""

    __slots__ = ("_services", "_topic_changes")

    def __init__(self, services: Services, topic_changes: TopicChanges) -> None:
        self._services = services
        self._topic_changes = topic_changes

    def handle(
        self, request: CreateTopicsRequest, _context: RequestContext
    ) -> Pending[CreateTopicsResponse]:
        """Create every topic that is legal; each has its own result."""
        return self._services.begin(self._run(request), holds_input=True)

    async def _run(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        return CreateTopicsResponse(
            await self._topic_changes.create(request.topics, validate_only=request.validate_only)
        )


class CreatePartitionsOperation:
    """Answers create-partitions requests."""

    __slots__ = ("_services", "_topic_changes")

    def __init__(self, services: Services, topic_changes: TopicChanges) -> None:
        self._services = services
        self._topic_changes = topic_changes

    def handle(
        self, request: CreatePartitionsRequest, _context: RequestContext
    ) -> Pending[CreatePartitionsResponse]:
        """Grow every topic that may grow; each has its own result."""
        return self._services.begin(self._run(request), holds_input=True)

    async def _run(self, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
        repeated = _repeated(topic.name for topic in request.topics)
        results = []
        async with self._services.changing:
            for topic in request.topics:
                result = CreatePartitionsResult(topic.name)
                results.append(result)
                try:
                    if topic.name in repeated:
                        raise RequestError(
                            ErrorCode.INVALID_REQUEST, f"topic {topic.name!r} is named twice"
                        )
                    await self._topic_changes.grow(topic, validate_only=request.validate_only)
                except SeglogError as error:
                    result.error, result.error_message = describe_error(error)
        return CreatePartitionsResponse(results)


class DeleteTopicsOperation:
    """Answers delete-topics requests."""

    __slots__ = ("_services", "_topic_changes")

    def __init__(self, services: Services, topic_changes: TopicChanges) -> None:
        self._services = services
        self._topic_changes = topic_changes

    def handle(
        self, request: DeleteTopicsRequest, _context: RequestContext
    ) -> Pending[DeleteTopicsResponse]:
        """Delete every topic that exists, named or by id; each has its own result."""
        return self._services.begin(self._run(request), holds_input=True)

    async def _run(self, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        results = [DeleteTopicResult(name) for name in request.names]
        results += [DeleteTopicResult(None, topic_id=topic_id) for topic_id in request.topic_ids]
        async with self._services.changing:
            for result in results:
                self._resolve(result)
            # By name and by id counts as twice.
            repeated = _repeated(result.name for result in results if result.name is not None)
            repeated_ids = _repeated(request.topic_ids)
            for result in results:
                await self._delete(result, repeated, repeated_ids)
        results += [
            DeleteTopicResult(
                name,
                ErrorCode.INVALID_REQUEST,
                f"topic {_shown(name, topic_id)} is named by an id as well; give one of them",
                topic_id,
            )
            for name, topic_id in request.named_twofold
        ]
        return DeleteTopicsResponse(results)

    def _resolve(self, result: DeleteTopicResult) -> None:
        """Find the name to an id, or say that there is none."""
        if result.name is None:
            try:
                result.name = self._services.partitions.topic_name(result.topic_id)
            except SeglogError as error:
                result.error, result.error_message = describe_error(error)

    async def _delete(
        self, result: DeleteTopicResult, repeated: set[str], repeated_ids: set[bytes]
    ) -> None:
        name = result.name
        try:
            if name in repeated or (name is None and result.topic_id in repeated_ids):
                raise RequestError(
                    ErrorCode.INVALID_REQUEST,
                    f"topic {_shown(name, result.topic_id)} is named twice and therefore kept",
                )
            if name is None:
                return
            topic = self._services.catalog.get(name)
            await self._topic_changes.delete(name)
            if topic is not None:
                result.topic_id = topic.topic_id
        except SeglogError as error:
            result.error, result.error_message = describe_error(error)


def _shown(name: str | None, topic_id: bytes) -> str:
    return topic_id.hex() if name is None else repr(name[:260])


def _repeated(names: Iterable[_KeyT]) -> set[_KeyT]:
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
