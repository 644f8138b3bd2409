"""All operations that this broker offers, over one set of services."""

from seglog.broker.api.cleaning import CleanLogsOperation
from seglog.broker.api.cluster import (
    DescribeClusterOperation,
    DescribeTopicPartitionsOperation,
    OffsetForLeaderEpochOperation,
)
from seglog.broker.api.configs import AlterConfigsOperation
from seglog.broker.api.delete_records import DeleteRecordsOperation
from seglog.broker.api.describe_configs import DescribeConfigsOperation
from seglog.broker.api.fetch import FetchOperation
from seglog.broker.api.housekeeping import (
    DescribePartitionsOperation,
    RollSegmentsOperation,
    RunRetentionOperation,
)
from seglog.broker.api.list_offsets import ListOffsetsOperation
from seglog.broker.api.log_dirs import DescribeLogDirsOperation
from seglog.broker.api.metadata import MetadataOperation
from seglog.broker.api.produce import ProduceOperation
from seglog.broker.api.topic_changes import TopicChanges
from seglog.broker.api.topics import (
    CreatePartitionsOperation,
    CreateTopicsOperation,
    DeleteTopicsOperation,
)
from seglog.broker.requests.handlers import Handlers
from seglog.broker.requests.services import Services
from seglog.protocol import api


def build_handlers(services: Services) -> Handlers:
    """The table of operations; coordinators register theirs."""
    handlers = Handlers()
    topic_changes = TopicChanges(services)
    metadata = MetadataOperation(services, topic_changes)
    for request_type, operation in (
        (api.ProduceRequest, ProduceOperation(services).handle),
        (api.FetchRequest, FetchOperation(services).handle),
        (api.ListOffsetsRequest, ListOffsetsOperation(services).handle),
        (api.DeleteRecordsRequest, DeleteRecordsOperation(services).handle),
        (api.MetadataRequest, metadata.handle),
        (api.CreateTopicsRequest, CreateTopicsOperation(services, topic_changes).handle),
        (api.CreatePartitionsRequest, CreatePartitionsOperation(services, topic_changes).handle),
        (api.DeleteTopicsRequest, DeleteTopicsOperation(services, topic_changes).handle),
        (api.DescribeConfigsRequest, DescribeConfigsOperation(services).handle),
        (api.AlterConfigsRequest, AlterConfigsOperation(services).handle),
        (api.DescribeLogDirsRequest, DescribeLogDirsOperation(services).handle),
        (api.DescribePartitionsRequest, DescribePartitionsOperation(services).handle),
        (api.RunRetentionRequest, RunRetentionOperation(services).handle),
        (api.RollSegmentsRequest, RollSegmentsOperation(services).handle),
        (api.CleanLogsRequest, CleanLogsOperation(services).handle),
        (api.DescribeClusterRequest, DescribeClusterOperation(services).handle),
        (
            api.DescribeTopicPartitionsRequest,
            DescribeTopicPartitionsOperation(services, metadata).handle,
        ),
        (api.OffsetForLeaderEpochRequest, OffsetForLeaderEpochOperation(services).handle),
    ):
        handlers.register(request_type, operation)
    return handlers
