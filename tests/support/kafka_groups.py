"""Committed offsets over the Kafka dialect, without a member."""

from seglog.protocol import api
from seglog.protocol.errors import ErrorCode
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
    entry = api.OffsetCommitPartition(topic, partition, offset, metadata="")
    request = api.OffsetCommitRequest(group, [entry])
    return wire.ask(request, COMMIT_VERSION, api.OffsetCommitResponse).partitions[0].error


def committed_offset(wire: KafkaWire, group: str, topic: str, *, partition: int = 0) -> int:
    """The committed offset of a group, -1 if there is none."""
    wanted = api.OffsetFetchGroup(group, [api.OffsetFetchPartition(topic, partition)])
    request = api.OffsetFetchRequest([wanted])

    def ask() -> tuple[ErrorCode, int]:
        (found,) = wire.ask(request, FETCH_VERSION, api.OffsetFetchResponse).groups
        (entry,) = found.partitions
        return found.error or entry.error, entry.offset

    error, offset = eventually(ask, until=lambda answer: answer[0] not in PASSING)
    assert error == ErrorCode.NONE, error
    return offset
