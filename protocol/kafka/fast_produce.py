"""Produce without a message between bytes and typed request or response.

Written by hand because every record passes through here. Everything unusual (transactions, long
names, unknown tags, malformed input, old versions, errors in the response) is left to the compiled
codec and ``translate.produce``: the functions return None, and the compiled codec finds the right
words for the fault. Tests compare both ways byte by byte.
"""

import struct
from typing import Final

from seglog.protocol.api import (
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
    ProduceResponse,
)
from seglog.protocol.dialect import Part
from seglog.protocol.kafka.fast_topics import (
    ENTRIES_MAX,
    by_topic,
    count_bytes,
    read_classic_topic,
    read_flexible_topic,
    topic_bytes,
)
from seglog.protocol.kafka.reading import long_varint

_FIRST_FLEXIBLE: Final = 9
_FIRST_WITH_TOPIC_IDS: Final = 13
_OLDEST_FAST_REQUEST: Final = 3
_OLDEST_FAST_RESPONSE: Final = 5
_FIRST_WITH_RECORD_ERRORS: Final = 8

_read_int16 = struct.Struct(">h").unpack_from
_read_int32 = struct.Struct(">i").unpack_from
_read_acks_timeout = struct.Struct(">hi").unpack_from
_read_acks_timeout_count = struct.Struct(">hii").unpack_from
_read_index_length = struct.Struct(">ii").unpack_from

_pack_int32 = struct.Struct(">i").pack
# index, error, base offset, append time, log start offset, and nothing of what follows
_pack_result = struct.Struct(">ihqqq").pack
_pack_result_without_errors = struct.Struct(">ihqqqih").pack
_pack_flexible_result = struct.Struct(">ihqqqBBB").pack


def decode_request(view: memoryview, position: int, version: int) -> ProduceRequest | None:
    """Read the body at ``position``; the views of record batches are of ``view``, which ends there.

    Returns None where the compiled codec must have a look.
    """
    try:
        if version >= _FIRST_FLEXIBLE:
            return _decode_flexible(view, position, version >= _FIRST_WITH_TOPIC_IDS)
        if version >= _OLDEST_FAST_REQUEST:
            return _decode_classic(view, position)
    except (IndexError, struct.error, ValueError):
        return None
    return None


def _decode_flexible(view: memoryview, p: int, has_topic_ids: bool) -> ProduceRequest | None:
    end = len(view)
    if view[p]:
        return None
    p += 1
    acks, timeout_ms = _read_acks_timeout(view, p)
    topics = view[p + 6] - 1
    p += 7
    if not 0 <= topics < ENTRIES_MAX:
        return None
    entries: list[ProducePartition] = []
    for _ in range(topics):
        topic, topic_id, partitions, p = read_flexible_topic(view, p, has_topic_ids)
        for _ in range(partitions):
            (index,) = _read_int32(view, p)
            p += 4
            size = view[p]
            p += 1
            if size > 0x7F:
                size, p = long_varint(view, p, size)
            after = p + size - 1
            # A tagged block always follows, so a batch never reaches the end of the input.
            if size == 0 or after >= end or view[after]:
                return None
            entries.append(ProducePartition(topic, index, view[p:after], topic_id))
            p = after + 1
        if view[p]:
            return None
        p += 1
    if view[p]:
        return None
    return ProduceRequest(acks, timeout_ms, entries)


def _decode_classic(view: memoryview, p: int) -> ProduceRequest | None:
    end = len(view)
    if _read_int16(view, p)[0] != -1:
        return None
    p += 2
    acks, timeout_ms, topics = _read_acks_timeout_count(view, p)
    p += 10
    if not 0 <= topics < ENTRIES_MAX:
        return None
    entries: list[ProducePartition] = []
    for _ in range(topics):
        topic, partitions, p = read_classic_topic(view, p)
        for _ in range(partitions):
            index, size = _read_index_length(view, p)
            p += 8
            after = p + size
            if size < 0 or after > end:
                return None
            entries.append(ProducePartition(topic, index, view[p:after]))
            p = after
    return ProduceRequest(acks, timeout_ms, entries)


def encode_response(response: ProduceResponse, version: int) -> list[Part] | None:
    """Write a body; None where the compiled codec must do it."""
    if version < _OLDEST_FAST_RESPONSE:
        return None
    by_id = version >= _FIRST_WITH_TOPIC_IDS
    flexible = version >= _FIRST_FLEXIBLE
    for result in response.partitions:
        if result.error or result.record_errors or result.error_message is not None:
            return None
    topics = by_topic(response.partitions, by_id)
    chunks = [count_bytes(len(topics), flexible)]
    for results in topics:
        chunks.append(topic_bytes(results, by_id, flexible))
        if flexible:
            _add_flexible_results(chunks, results)
        else:
            _add_classic_results(chunks, results, version)
    chunks.append(_pack_int32(response.throttle_time_ms))
    if flexible:
        chunks.append(b"\0")
    return [b"".join(chunks)]


def _add_flexible_results(chunks: list[bytes], results: list[ProducePartitionResult]) -> None:
    # Behind the offsets: an empty list of record errors, no message, no tags.
    chunks += [
        _pack_flexible_result(
            result.partition,
            0,
            result.base_offset,
            result.log_append_time_ms,
            result.log_start_offset,
            1,
            0,
            0,
        )
        for result in results
    ]
    chunks.append(b"\0")


def _add_classic_results(
    chunks: list[bytes], results: list[ProducePartitionResult], version: int
) -> None:
    for result in results:
        values = (
            result.partition,
            0,
            result.base_offset,
            result.log_append_time_ms,
            result.log_start_offset,
        )
        if version >= _FIRST_WITH_RECORD_ERRORS:
            chunks.append(_pack_result_without_errors(*values, 0, -1))
        else:
            chunks.append(_pack_result(*values))
