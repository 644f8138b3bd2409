"""The fast paths for produce and fetch against the generic codecs."""

from typing import Any

import pytest

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.errors import ErrorCode
from seglog.protocol.native import hot_path
from seglog.protocol.native.frames import RecordCursor, RecordSink
from seglog.protocol.native.operations import OPERATION_OF_KEY
from support.native_samples import TOPIC_ID, samples

PRODUCING, FETCHING = OPERATION_OF_KEY[ApiKey.PRODUCE], OPERATION_OF_KEY[ApiKey.FETCH]
RECORDS = memoryview(bytearray(b"0123456789"))
PRODUCE = [0, 0, 7, -1, 30000, [["a", 0, 4, None], ["a", 1, 6, None]], None]
FETCH = [1, 0, 7, 500, 1, 1024, [["a", 0, 5, 100, -1, None]], 1]


def test_plain_produce_request_is_decoded_differently() -> None:
    """Both ways give equal objects, and views of the same memory."""
    fast = hot_path.unpack_produce(PRODUCE, RECORDS, 0, 10)
    generic = PRODUCING.request.unpack(PRODUCE[3:], RecordCursor(RECORDS, 0, 10))
    assert fast == generic
    assert fast is not None
    view = fast.partitions[1].records
    assert view is not None
    assert view.obj is RECORDS.obj
    assert not view.readonly


def test_plain_fetch_request_is_decoded_differently() -> None:
    """Both ways give equal objects."""
    generic = FETCHING.request.unpack(FETCH[3:], RecordCursor(RECORDS, 0, 0))
    assert hot_path.unpack_fetch(FETCH) == generic


def changed(header: list[Any], path: tuple[int, ...], value: Any) -> list[Any]:
    copy = [*header]
    if len(path) == 1:
        copy[path[0]] = value
    else:
        copy[path[0]] = changed(copy[path[0]], path[1:], value)
    return copy


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((3,), 2),
        ((3,), True),
        ((4,), "1"),
        ((4,), 2**31),
        ((5,), 5),
        ((5,), "ab"),
        ((5, 0), None),
        ((5, 0, 0), b"a"),
        ((5, 0, 1), -1),
        ((5, 0, 1), True),
        ((5, 0, 2), None),
        ((5, 0, 2), 11),
        ((5, 0, 2), -1),
        ((5, 1, 2), 5),
        ((5, 0, 3), TOPIC_ID),
        ((6,), "tx"),
    ],
)
def test_unusual_produce_request_is_taken_for_a_plain_one(
    path: tuple[int, ...], value: Any
) -> None:
    """What the fast path does not know by heart is left to the codec that checks everything."""
    assert hot_path.unpack_produce(changed(PRODUCE, path, value), RECORDS, 0, 10) is None


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((3,), None),
        ((4,), 2**31),
        ((5,), True),
        ((6,), None),
        ((6, 0), 1),
        ((6, 0, 0), None),
        ((6, 0, 1), 2**31),
        ((6, 0, 2), 2**63),
        ((6, 0, 3), -5),
        ((6, 0, 4), 1.0),
        ((6, 0, 5), TOPIC_ID),
        ((7,), 2),
        ((7,), True),
        ((7,), []),
    ],
)
def test_unusual_fetch_request_is_taken_for_a_plain_one(path: tuple[int, ...], value: Any) -> None:
    """What the fast path does not know by heart is left to the codec that checks everything."""
    assert hot_path.unpack_fetch(changed(FETCH, path, value)) is None


@pytest.mark.parametrize("header", [PRODUCE[:6], [*PRODUCE, 1]])
def test_longer_or_shorter_produce_request_is_refused(header: list[Any]) -> None:
    """Fields may be added at the end; the generic codec takes them."""
    assert hot_path.unpack_produce(header, RECORDS, 0, 10) is None
    generic = PRODUCING.request.unpack(header[3:], RecordCursor(RECORDS, 0, 10))
    assert generic == hot_path.unpack_produce(PRODUCE, RECORDS, 0, 10)


def test_responses_are_packed_differently() -> None:
    """Both ways give the same array and the same record bytes behind it."""
    _, produced = samples()[api.ApiKey.PRODUCE]
    expected = [9, 0, *PRODUCING.response.pack(produced, RecordSink())]
    packed = hot_path.pack_produce_response(produced, 9)
    expected[2][0][6] = [tuple(entry) for entry in expected[2][0][6]]
    assert packed == expected

    _, fetched = samples()[api.ApiKey.FETCH]
    fast_sink, generic_sink = RecordSink(), RecordSink()
    fast = hot_path.pack_fetch_response(fetched, 9, fast_sink)
    generic = [9, 0, *FETCHING.response.pack(fetched, generic_sink)]
    generic[2][0][7] = [tuple(entry) for entry in generic[2][0][7]]
    assert fast == generic
    assert fast_sink.parts == generic_sink.parts
    assert fast_sink.length == generic_sink.length == len(b"batches of zero")
    assert isinstance(fetched.error, ErrorCode)
