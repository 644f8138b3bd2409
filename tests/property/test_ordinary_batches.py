"""The fast path of produce accepts exactly what the full inspection accepts as it is."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seglog.protocol.compression import Codec
from seglog.protocol.errors import RecordError
from seglog.protocol.records import _pure_batches as pure
from seglog.protocol.records.batch import BatchHeader, read_header, write_checksum
from seglog.protocol.records.builder import build_batch
from seglog.protocol.records.validation import inspect_batch
from seglog.protocol.types import TimestampType
from support.examples import examples

kernel = pytest.importorskip("seglog.protocol._kernel", reason="the kernels are not compiled")

NOW_MS = 1_700_000_000_000
BOUNDS = (NOW_MS - 1000, NOW_MS + 1000)

records = st.lists(
    st.tuples(
        st.one_of(st.just(-1), st.integers(NOW_MS - 1100, NOW_MS + 1100)),
        st.one_of(st.none(), st.binary(max_size=10)),
        st.one_of(st.none(), st.binary(max_size=200)),
        st.sampled_from([(), (("h", None), ("h", b"x"))]),
    ),
    min_size=1,
    max_size=8,
)


@st.composite
def batches(draw: st.DrawFn) -> bytearray:
    has_producer = draw(st.booleans())
    return build_batch(
        draw(records),
        base_offset=draw(st.sampled_from([0, 0, 0, 7])),
        codec=draw(st.sampled_from([Codec.NONE, Codec.NONE, Codec.NONE, Codec.ZSTD])),
        producer_id=draw(st.integers(0, 9) if has_producer else st.sampled_from([-1, -1, -7])),
        producer_epoch=0 if has_producer else -1,
        base_sequence=draw(st.sampled_from([-1, 0, 5] if has_producer else [-1, -1, 5])),
        is_transactional=draw(st.sampled_from([False, False, True])),
        is_control=draw(st.sampled_from([False, False, False, True])),
        timestamp_type=draw(st.sampled_from([TimestampType.CREATE_TIME] * 4 + list(TimestampType))),
        log_append_time_ms=NOW_MS,
    )


def inspected(batch: bytearray, require_keys: bool) -> BatchHeader | None:
    """What the full inspection says: the header if the batch can be stored as it is."""
    try:
        result = inspect_batch(
            memoryview(batch),
            require_keys=require_keys,
            timestamp_bounds_ms=BOUNDS,
            require_zero_base_offset=True,
        )
    except RecordError:
        return None
    if result.codec is not Codec.NONE or result.has_wrong_max_timestamp:
        return None
    return result.header


def both(batch: bytearray, require_keys: bool) -> BatchHeader | None:
    found = [
        module.header_if_ordinary(batch, BatchHeader, require_keys, *BOUNDS)
        for module in (kernel, pure)
    ]
    assert found[0] == found[1]
    assert found[0] is None or isinstance(found[0], BatchHeader)
    return found[0]


@settings(max_examples=examples(300))
@given(batches(), st.booleans())
def test_the_fast_path_takes_another_decision(batch: bytearray, require_keys: bool) -> None:
    assert both(batch, require_keys) == inspected(batch, require_keys)


@given(batches(), st.booleans(), st.data())
def test_damage_passes_the_fast_path(
    batch: bytearray, require_keys: bool, data: st.DataObject
) -> None:
    """With a checksum that fits, so that every other check has to hold by itself."""
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        with memoryview(batch) as view:
            write_checksum(view)
    header = both(batch, require_keys)
    # The other way it may be stricter: a bit that nobody uses goes the long way.
    assert header is None or header == inspected(batch, require_keys)


@given(batches(), st.integers(-80, 80))
def test_a_length_that_does_not_fit_passes(batch: bytearray, difference: int) -> None:
    if difference < 0:
        del batch[difference:]
    else:
        batch += bytes(difference)
    found = both(batch, require_keys=False)
    assert found is None or (difference == 0 and found == read_header(batch))


def test_the_header_is_built_wrongly() -> None:
    batch = build_batch(
        [(NOW_MS, b"k", b"v", ())], producer_id=5, producer_epoch=3, base_sequence=9
    )
    assert both(batch, require_keys=True) == read_header(batch)
