"""Committed offsets over the Kafka dialect, without a member."""

from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka.messages import offset_commit, offset_fetch
from support.eventually import eventually
from support.wires import KafkaWire

COMMIT_VERSION, FETCH_VERSION = 7, 7
PASSING = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
"""What is answered while the coordinator reads its log."""


def commit_offset(
    wire: KafkaWire, group: str, topic: str, offset: int, *, partition: int = 0
) -> ErrorCode:
    """Commit one offset of a group without members; waits until the coordinator is ready."""

    def ask() -> ErrorCode:
        return commit_once(wire, group, topic, offset, partition=partition)

    return eventually(ask, until=lambda error: error not in PASSING)


def commit_once(
    wire: KafkaWire, group: str, topic: str, offset: int, *, partition: int = 0
) -> ErrorCode:
    """The same without waiting: what the coordinator answers now."""
    entry = offset_commit.OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=offset, committed_metadata=""
    )
    request = offset_commit.OffsetCommitRequest(
        group_id=group,
        member_id="",
        topics=[offset_commit.OffsetCommitRequestTopic(name=topic, partitions=[entry])],
    )
    answer = wire.ask(request, COMMIT_VERSION, offset_commit.OffsetCommitResponse)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def committed_offset(wire: KafkaWire, group: str, topic: str, *, partition: int = 0) -> int:
    """The committed offset of a group, -1 if there is none."""
    request = offset_fetch.OffsetFetchRequest(
        group_id=group,
        topics=[offset_fetch.OffsetFetchRequestTopic(name=topic, partition_indexes=[partition])],
    )

    def ask() -> tuple[ErrorCode, int]:
        answer = wire.ask(request, FETCH_VERSION, offset_fetch.OffsetFetchResponse)
        (entry,) = answer.topics[0].partitions
        return ErrorCode(answer.error_code or entry.error_code), entry.committed_offset

    error, offset = eventually(ask, until=lambda answer: answer[0] not in PASSING)
    assert error == ErrorCode.NONE, error
    return offset
