"""Fetch without a message between bytes and typed request or response; see ``fast_produce``."""

import struct
from typing import Any, Final

from seglog.protocol.api import (
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
)
from seglog.protocol.dialect import Part
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka.codec import join
from seglog.protocol.kafka.fast_topics import (
    ENTRIES_MAX,
    by_topic,
    count_bytes,
    read_classic_topic,
    read_flexible_topic,
    topic_bytes,
)
from seglog.protocol.kafka.writing import records_length, unsigned_varint
from seglog.protocol.types import IsolationLevel

_FIRST_FLEXIBLE: Final = 12
FIRST_WITH_TOPIC_IDS: Final = 13
_FIRST_WITH_REPLICA_STATE: Final = 15
_OLDEST_FAST: Final = 11
"""kafkajs and aiokafka send it; older ones are not worth their own code."""

_VERSIONED_ERRORS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE,
    }
)
"""Errors that some of the versions here do not know; ``translate.fetch`` maps them."""

_LEVELS: Final = (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED)

_read_int16 = struct.Struct(">h").unpack_from
_read_int32 = struct.Struct(">i").unpack_from
# wait, least and most bytes, isolation, session id and epoch
_HEAD: Final = struct.Struct(">iiibii")
_CLASSIC_HEAD: Final = struct.Struct(">iiiibiii")
# partition, leader epoch, offset, last fetched epoch, log start offset, most bytes
_PARTITION: Final = struct.Struct(">iiqiqi")
_CLASSIC_PARTITION: Final = struct.Struct(">iiqqi")

_pack_int32 = struct.Struct(">i").pack
_pack_pair = struct.Struct(">qq").pack
_pack_response_head = struct.Struct(">ihi").pack
_pack_offsets = struct.Struct(">ihqqq").pack
_pack_small_result = struct.Struct(">ihqqqBiB").pack


def decode_request(view: memoryview, position: int, version: int) -> FetchRequest | None:
    """Read the body at ``position`` of ``view``, which ends with it.

    Returns None where the compiled codec must have a look.
    """
    try:
        if version >= _FIRST_FLEXIBLE:
            return _decode_flexible(view, position, version)
        if version == _OLDEST_FAST:
            return _decode_classic(view, position)
    except (IndexError, struct.error, ValueError):
        return None
    return None


def _decode_flexible(view: memoryview, p: int, version: int) -> FetchRequest | None:
    replica_id = -1
    if version < _FIRST_WITH_REPLICA_STATE:
        (replica_id,) = _read_int32(view, p)
        p += 4
    wait_ms, min_bytes, max_bytes, level, session_id, session_epoch = _HEAD.unpack_from(view, p)
    p += _HEAD.size
    topics = view[p] - 1
    p += 1
    if not 0 <= topics < ENTRIES_MAX or not 0 <= level <= 1:
        return None
    has_topic_ids = version >= FIRST_WITH_TOPIC_IDS
    read_partition, partition_size = _PARTITION.unpack_from, _PARTITION.size
    entries: list[FetchPartition] = []
    for _ in range(topics):
        topic, topic_id, partitions, p = read_flexible_topic(view, p, has_topic_ids)
        for _ in range(partitions):
            index, epoch, offset, last_epoch, log_start, limit = read_partition(view, p)
            p += partition_size
            if view[p]:
                return None
            p += 1
            entries.append(
                FetchPartition(topic, index, offset, limit, epoch, last_epoch, log_start, topic_id)
            )
        if view[p]:
            return None
        p += 1
    # Forgotten topics belong to sessions that change; a rack is one short string.
    size = view[p + 1] - 1
    if view[p] != 1 or not 0 <= size < ENTRIES_MAX:
        return None
    p += 2
    rack_id = str(view[p : p + size], "utf-8") if size else ""
    if view[p + size]:
        return None
    return FetchRequest(
        wait_ms, min_bytes, max_bytes, entries, _LEVELS[level], session_id, session_epoch, [],
        replica_id, rack_id, has_topic_ids,
    )  # fmt: skip


def _decode_classic(view: memoryview, p: int) -> FetchRequest | None:
    head = _CLASSIC_HEAD.unpack_from(view, p)
    replica_id, wait_ms, min_bytes, max_bytes, level, session_id, session_epoch, topics = head
    p += _CLASSIC_HEAD.size
    if not 0 <= topics < ENTRIES_MAX or not 0 <= level <= 1:
        return None
    entries: list[FetchPartition] = []
    for _ in range(topics):
        topic, partitions, p = read_classic_topic(view, p)
        for _ in range(partitions):
            index, epoch, offset, log_start, limit = _CLASSIC_PARTITION.unpack_from(view, p)
            p += _CLASSIC_PARTITION.size
            entries.append(FetchPartition(topic, index, offset, limit, epoch, -1, log_start))
    (forgotten,) = _read_int32(view, p)
    (size,) = _read_int16(view, p + 4)
    p += 6
    if forgotten != 0 or size < 0 or p + size > len(view):
        return None
    rack_id = str(view[p : p + size], "utf-8")
    return FetchRequest(
        wait_ms, min_bytes, max_bytes, entries, _LEVELS[level], session_id, session_epoch, [],
        replica_id, rack_id,
    )  # fmt: skip


def encode_response(response: FetchResponse, version: int) -> list[Part] | None:
    """Write a body, with record sources as parts of their own; None for the compiled codec."""
    if version < _OLDEST_FAST:
        return None
    by_id = version >= FIRST_WITH_TOPIC_IDS
    flexible = version >= _FIRST_FLEXIBLE
    for result in response.partitions:
        if (
            result.diverging_epoch is not None
            or result.current_leader is not None
            or result.error in _VERSIONED_ERRORS
        ):
            return None
    topics = by_topic(response.partitions, by_id)
    chunks: list[Any] = [
        _pack_response_head(response.throttle_time_ms, response.error, response.session_id)
    ]
    chunks.append(count_bytes(len(topics), flexible))
    add_results = _add_flexible_results if flexible else _add_classic_results
    for results in topics:
        chunks.append(topic_bytes(results, by_id, flexible))
        add_results(chunks, results)
    if flexible:
        chunks.append(b"\0")
    return join(chunks)


def _add_flexible_results(chunks: list[Any], results: list[FetchPartitionResult]) -> None:
    for result in results:
        records, aborted = result.records, result.aborted_transactions
        size = 0 if records is None else records_length(records)
        offsets = (
            result.partition,
            result.error,
            result.high_watermark,
            result.last_stable_offset,
            result.log_start_offset,
        )
        if not aborted and size < ENTRIES_MAX:
            # No transactions (null or none), no preferred replica, and the length of the records.
            chunks.append(_pack_small_result(*offsets, 0 if aborted is None else 1, -1, size + 1))
        else:
            chunks.append(_pack_offsets(*offsets))
            chunks.append(b"\0" if aborted is None else unsigned_varint(len(aborted) + 1))
            chunks += [_pack_pair(*pair) + b"\0" for pair in aborted or ()]
            chunks.append(b"\xff\xff\xff\xff" + unsigned_varint(size + 1))
        if size:
            chunks.append(records)
        chunks.append(b"\0")
    chunks.append(b"\0")


def _add_classic_results(chunks: list[Any], results: list[FetchPartitionResult]) -> None:
    for result in results:
        records, aborted = result.records, result.aborted_transactions
        size = 0 if records is None else records_length(records)
        chunks.append(
            _pack_offsets(
                result.partition,
                result.error,
                result.high_watermark,
                result.last_stable_offset,
                result.log_start_offset,
            )
        )
        chunks.append(_pack_int32(-1 if aborted is None else len(aborted)))
        chunks += [_pack_pair(*pair) for pair in aborted or ()]
        chunks.append(b"\xff\xff\xff\xff" + _pack_int32(size))
        if size:
            chunks.append(records)
