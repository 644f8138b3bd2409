"""Produce and fetch by hand: the same bytes as the generic codecs give, several times faster.

Each unpacking function returns None for a shape that it does not know by heart (fields more or
fewer, something unusual, something wrong); the generic codec then decides. Tests hold the two
against each other.
"""

from typing import Any, Final

from seglog.protocol.api import (
    ZERO_TOPIC_ID,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
)
from seglog.protocol.native.frames import RecordSink
from seglog.protocol.types import INT32_MAX, INT64_MAX, IsolationLevel

_ISOLATION_LEVELS: Final = {int(level): level for level in IsolationLevel}
_INT32_MIN: Final = -INT32_MAX - 1


def unpack_produce(
    header: list[Any], view: memoryview, position: int, end: int
) -> ProduceRequest | None:
    """Decode a produce request whose record bytes are ``view[position:end]``."""
    try:
        # The first three are key, version and correlation id, which the caller has checked.
        _, _, _, acks, timeout_ms, partitions, transactional_id = header
        if (
            acks not in (-1, 0, 1)
            or type(acks) is not int  # True and 1.0 equal 1, and the generic codec refuses them
            or type(timeout_ms) is not int
            or not -1 <= timeout_ms <= INT32_MAX
            or transactional_id is not None
            or type(partitions) is not list
        ):
            return None
        decoded = []
        for topic, partition, length, topic_id in partitions:
            if (
                type(topic) is not str
                or type(partition) is not int
                or type(length) is not int
                or not 0 <= partition <= INT32_MAX
                # Before the slice below: a slice beyond the end is silently shorter, and the next
                # partition's records would begin at a wrong position.
                or not 0 <= length <= end - position
                or topic_id is not None
            ):
                return None
            records_end = position + length
            decoded.append(ProducePartition(topic, partition, view[position:records_end]))
            position = records_end
    except (TypeError, ValueError):
        return None
    # Bytes behind the last partition belong to no field: the generic codec refuses the frame.
    return ProduceRequest(acks, timeout_ms, decoded) if position == end else None


def pack_produce_response(response: ProduceResponse, correlation_id: int) -> list[Any]:
    """Return the header of the answer to a produce request."""
    partitions = [
        [
            result.topic,
            result.partition,
            int(result.error),
            result.base_offset,
            result.log_append_time_ms,
            result.log_start_offset,
            result.record_errors,
            result.error_message,
            None if result.topic_id == ZERO_TOPIC_ID else result.topic_id,
        ]
        for result in response.partitions
    ]
    return [correlation_id, 0, partitions, response.throttle_time_ms]


def unpack_fetch(header: list[Any]) -> FetchRequest | None:
    """Decode a fetch request; it has no record bytes."""
    try:
        _, _, _, max_wait_ms, min_bytes, max_bytes, partitions, isolation = header
        isolation_level = _ISOLATION_LEVELS[isolation]
        # ``type`` and not ``isinstance``: a bool is an int too, and no legal number on the wire.
        if type(partitions) is not list or not (
            type(isolation) is type(max_wait_ms) is type(min_bytes) is type(max_bytes) is int
            and _INT32_MIN <= max_wait_ms <= INT32_MAX
            and _INT32_MIN <= min_bytes <= INT32_MAX
            and _INT32_MIN <= max_bytes <= INT32_MAX
        ):
            return None
        decoded = []
        for topic, partition, offset, partition_bytes, leader_epoch, topic_id in partitions:
            if not (
                type(topic) is str
                and type(partition) is type(offset) is int
                and type(partition_bytes) is type(leader_epoch) is int
                and 0 <= partition <= INT32_MAX
                and -1 <= offset <= INT64_MAX
                and 0 <= partition_bytes <= INT32_MAX
                and -1 <= leader_epoch <= INT32_MAX
                and topic_id is None
            ):
                return None
            decoded.append(FetchPartition(topic, partition, offset, partition_bytes, leader_epoch))
    except (TypeError, ValueError, KeyError):
        return None
    return FetchRequest(max_wait_ms, min_bytes, max_bytes, decoded, isolation_level)


def pack_fetch_response(
    response: FetchResponse, correlation_id: int, sink: RecordSink
) -> list[Any]:
    """Return the header of the answer to a fetch request; the record bytes go to ``sink``."""
    partitions = [
        [
            result.topic,
            result.partition,
            int(result.error),
            result.high_watermark,
            result.last_stable_offset,
            result.log_start_offset,
            None if result.records is None else sink.add(result.records),
            result.aborted_transactions,
            result.error_message,
            None if result.topic_id == ZERO_TOPIC_ID else result.topic_id,
        ]
        for result in response.partitions
    ]
    return [correlation_id, 0, partitions, int(response.error), response.throttle_time_ms]
