"""Metadata: the broker as the listener that was asked shows it, and its topics.

On brokers that allow it, asking for a topic by name with the create flag creates it. Nothing else
ever does: not listing all topics, not asking without the flag, not fetching, no lookup of offsets.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from seglog.broker.api.topic_changes import TopicChanges
from seglog.broker.errors import describe_error
from seglog.broker.requests.context import Pending, RequestContext
from seglog.broker.requests.permissions import ALL_CLUSTER_OPERATIONS, ALL_TOPIC_OPERATIONS
from seglog.broker.requests.services import Services
from seglog.broker.storage.directories.topic_catalog import CatalogTopic
from seglog.broker.storage.errors import InvalidTopicNameError
from seglog.broker.storage.files.layout import INTERNAL_TOPICS, check_topic_name
from seglog.protocol.api import (
    ZERO_TOPIC_ID,
    BrokerMetadata,
    MetadataRequest,
    MetadataResponse,
    NewTopic,
    PartitionMetadata,
    TopicMetadata,
)
from seglog.protocol.errors import ErrorCode, SeglogError

_Failures = Mapping[str, tuple[ErrorCode, str | None]]
_NOTHING: Final[_Failures] = MappingProxyType({})


def this_broker(services: Services, context: RequestContext) -> BrokerMetadata:
    """This broker as the listener that was asked shows it."""
    return BrokerMetadata(services.node_id, context.host, context.port, services.config.broker_rack)


class MetadataOperation:
    """Answers metadata requests."""

    __slots__ = ("_services", "_topic_changes")

    def __init__(self, services: Services, topic_changes: TopicChanges) -> None:
        self._services = services
        self._topic_changes = topic_changes

    def handle(
        self, request: MetadataRequest, context: RequestContext
    ) -> MetadataResponse | Pending[MetadataResponse]:
        """Describe the topics that were asked for; create them first if that is wanted."""
        if request.allow_auto_topic_creation and self._services.config.auto_create_topics_enable:
            missing = [name for name in dict.fromkeys(request.topics or ()) if self._is_free(name)]
            if missing:
                creation = self._create_and_describe(missing, request, context)
                return self._services.begin(creation, holds_input=True)
        return self._describe(request, context, _NOTHING)

    def _is_free(self, name: str) -> bool:
        """Whether a topic of this name could be created because a client asked for it."""
        if name in INTERNAL_TOPICS or self._services.catalog.get(name) is not None:
            return False
        try:
            check_topic_name(name)
        except InvalidTopicNameError:
            return False
        return True

    async def _create_and_describe(
        self, names: list[str], request: MetadataRequest, context: RequestContext
    ) -> MetadataResponse:
        failures: dict[str, tuple[ErrorCode, str | None]] = {}
        results = await self._topic_changes.create([NewTopic(name) for name in names])
        for result in results:
            # Another request may have been faster, which is as good.
            if result.error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                failures[result.name] = (result.error, result.error_message)
        return self._describe(request, context, failures)

    def _describe(
        self,
        request: MetadataRequest,
        context: RequestContext,
        failures: _Failures,
    ) -> MetadataResponse:
        services = self._services
        node_id = services.node_id
        if request.topics is None and not request.topic_ids:
            topics = [self._topic(topic) for topic in services.catalog.topics()]
        else:
            # A topic that is named again and again is described once, as by Kafka: a small request
            # may not ask for a response that keeps the broker busy for minutes.
            names, ids = dict.fromkeys(request.topics or ()), dict.fromkeys(request.topic_ids)
            topics = [self.describe_topic(name, failures) for name in names]
            topics += [self._topic_by_id(topic_id) for topic_id in ids]
        response = MetadataResponse(
            [this_broker(services, context)],
            services.cluster_id,
            node_id,
            topics,
        )
        if request.include_cluster_authorized_operations:
            response.authorized_operations = ALL_CLUSTER_OPERATIONS
        if request.include_topic_authorized_operations:
            for topic in topics:
                if not topic.error:
                    topic.authorized_operations = ALL_TOPIC_OPERATIONS
        return response

    def describe_topic(self, name: str, failures: _Failures = _NOTHING) -> TopicMetadata:
        """One topic; ``failures`` says of names why they could not be created."""
        topic = self._services.catalog.get(name)
        if topic is not None:
            return self._topic(topic)
        error, message = failures.get(name, (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None))
        try:
            check_topic_name(name)
        except InvalidTopicNameError as invalid:
            error, message = describe_error(invalid)
        return TopicMetadata(name, ZERO_TOPIC_ID, [], error, error_message=message)

    def _topic_by_id(self, topic_id: bytes) -> TopicMetadata:
        try:
            name = self._services.partitions.topic_name(topic_id)
        except SeglogError as error:
            code, message = describe_error(error)
            return TopicMetadata(None, topic_id, [], code, error_message=message)
        return self.describe_topic(name)

    def _topic(self, topic: CatalogTopic) -> TopicMetadata:
        return TopicMetadata(
            topic.name,
            topic.topic_id,
            [self._partition(topic.name, number) for number in range(topic.partition_count)],
            is_internal=topic.name in INTERNAL_TOPICS,
        )

    def _partition(self, topic: str, number: int) -> PartitionMetadata:
        partition = self._services.partitions.find(topic, number)
        node_id = self._services.node_id
        if partition is None:
            return PartitionMetadata(
                number,
                -1,
                -1,
                [node_id],
                [node_id],
                ErrorCode.LEADER_NOT_AVAILABLE,
                [node_id],
            )
        return PartitionMetadata(
            number,
            node_id,
            partition.leader_epoch,
            partition.replicas.replica_ids,
            partition.replicas.in_sync_ids,
        )
