"""Produce without a message between bytes and typed request or response.

Written by hand because every record passes through here. Whatever is unusual (transactions, long
names, unknown tags, malformed input, old versions, errors in the response) is left to the compiled
codec and ``translate.produce``: the functions return None, and the compiled codec finds the right
words for what is wrong. Tests compare both ways byte by byte.
"""

import struct
from typing import Final

from seglog.protocol.api import (
    ZERO_TOPIC_ID,
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
    ProduceResponse,
)
from seglog.protocol.dialect import Part
from seglog.protocol.kafka.decoder import long_varint
from seglog.protocol.kafka.encoder import SMALL_VARINTS

_FIRST_FLEXIBLE: Final = 9
_FIRST_WITH_TOPIC_IDS: Final = 13
_OLDEST_FAST_REQUEST: Final = 3
_OLDEST_FAST_RESPONSE: Final = 5
_FIRST_WITH_RECORD_ERRORS: Final = 8
_ENTRIES_MAX: Final = 127
"""Topics, and partitions of one topic, up to which a request is usual."""

_read_int16 = struct.Struct(">h").unpack_from
_read_int32 = struct.Struct(">i").unpack_from
_read_acks_timeout = struct.Struct(">hi").unpack_from
_read_acks_timeout_count = struct.Struct(">hii").unpack_from
_read_index_length = struct.Struct(">ii").unpack_from

_pack_int32 = struct.Struct(">i").pack
_pack_name_length = struct.Struct(">h").pack
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
    if not 0 <= topics < _ENTRIES_MAX:
        return None
    entries: list[ProducePartition] = []
    topic, topic_id = "", ZERO_TOPIC_ID
    for _ in range(topics):
        if has_topic_ids:
            topic_id = bytes(view[p : p + 16])
            p += 16
        else:
            size = view[p] - 1
            p += 1
            if not 0 <= size < _ENTRIES_MAX:
                return None
            topic = str(view[p : p + size], "utf-8")
            p += size
        partitions = view[p] - 1
        p += 1
        if not 0 <= partitions < _ENTRIES_MAX:
            return None
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
    if not 0 <= topics < _ENTRIES_MAX:
        return None
    entries: list[ProducePartition] = []
    for _ in range(topics):
        (size,) = _read_int16(view, p)
        p += 2
        if size < 0:
            return None
        topic = str(view[p : p + size], "utf-8")
        p += size
        (partitions,) = _read_int32(view, p)
        p += 4
        if not 0 <= partitions < _ENTRIES_MAX:
            return None
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
    topics: list[list[ProducePartitionResult]] = []
    last: object = None
    for result in response.partitions:
        if result.error or result.record_errors or result.error_message is not None:
            return None
        topic = result.topic_id if by_id else result.topic
        if topic != last or not topics:
            topics.append([])
            last = topic
        topics[-1].append(result)
    if len(topics) >= _ENTRIES_MAX:
        return None
    chunks = [SMALL_VARINTS[len(topics) + 1] if flexible else _pack_int32(len(topics))]
    for results in topics:
        if flexible:
            if not _add_flexible_topic(chunks, results, by_id):
                return None
        else:
            _add_classic_topic(chunks, results, version)
    chunks.append(_pack_int32(response.throttle_time_ms))
    if flexible:
        chunks.append(b"\0")
    return [b"".join(chunks)]


def _add_flexible_topic(
    chunks: list[bytes], results: list[ProducePartitionResult], by_id: bool
) -> bool:
    if len(results) >= _ENTRIES_MAX:
        return False
    if by_id:
        chunks.append(results[0].topic_id)
    else:
        name = results[0].topic.encode()
        if len(name) >= _ENTRIES_MAX:
            return False
        chunks.append(SMALL_VARINTS[len(name) + 1])
        chunks.append(name)
    chunks.append(SMALL_VARINTS[len(results) + 1])
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
    return True


def _add_classic_topic(
    chunks: list[bytes], results: list[ProducePartitionResult], version: int
) -> None:
    name = results[0].topic.encode()
    chunks.append(_pack_name_length(len(name)))
    chunks.append(name)
    chunks.append(_pack_int32(len(results)))
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
