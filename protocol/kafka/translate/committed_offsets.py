"""What OffsetCommit and TxnOffsetCommit have in common: offsets by topic, and their results."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias, TypeVar

from seglog.protocol import api
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka.messages import offset_commit, txn_offset_commit
from seglog.protocol.kafka.schema import Struct
from seglog.protocol.kafka.translate.operation import older_error, runs_of_topic

AskedTopic: TypeAlias = (
    offset_commit.OffsetCommitRequestTopic | txn_offset_commit.TxnOffsetCommitRequestTopic
)
TopicT = TypeVar("TopicT", bound=Struct)
PartitionT = TypeVar("PartitionT", bound=Struct)


def read_offsets(topics: Iterable[AskedTopic]) -> list[api.OffsetCommitPartition]:
    """Flatten topics and partitions."""
    return [
        api.OffsetCommitPartition(
            topic.name,
            entry.partition_index,
            entry.committed_offset,
            entry.committed_leader_epoch,
            entry.committed_metadata,
            topic.topic_id,
        )
        for topic in topics
        for entry in topic.partitions
    ]


def write_results(
    results: Iterable[api.OffsetCommitResult],
    version: int,
    ladder: Mapping[ErrorCode, tuple[int, ErrorCode]],
    topic_type: type[TopicT],
    partition_type: type[PartitionT],
) -> list[TopicT]:
    """Nest results by topic, with errors that the version knows."""
    return [
        topic_type(
            name=topic,
            topic_id=topic_id,
            partitions=[
                partition_type(
                    partition_index=result.partition,
                    error_code=older_error(result.error, version, ladder),
                )
                for result in entries
            ],
        )
        for (topic, topic_id), entries in runs_of_topic(results)
    ]


def refused(
    partitions: Iterable[api.OffsetCommitPartition], error: ErrorCode
) -> list[api.OffsetCommitResult]:
    """The same error for every partition."""
    return [
        api.OffsetCommitResult(entry.topic, entry.partition, error, entry.topic_id)
        for entry in partitions
    ]
