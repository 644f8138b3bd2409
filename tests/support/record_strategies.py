"""Hypothesis strategies for records and for records areas, sound and damaged."""

from hypothesis import strategies as st

from seglog.protocol.records import _pure
from seglog.protocol.records.record import RecordFields

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
timestamps = st.one_of(
    st.integers(1_699_999_999_000, 1_700_000_001_000), st.sampled_from([-1, 0, 2**63 - 1]), int64
)
optional_bytes = st.none() | st.binary(max_size=20) | st.binary(min_size=120, max_size=140)
headers = st.lists(st.tuples(st.text(max_size=8), optional_bytes), max_size=3).map(tuple)
record_fields: st.SearchStrategy[RecordFields] = st.tuples(
    timestamps, optional_bytes, optional_bytes, headers
)
record_lists = st.lists(record_fields, max_size=6)


@st.composite
def areas(draw: st.DrawFn) -> tuple[bytes, int, int]:
    """Draw a sound records area, its record count and its base timestamp."""
    records = draw(record_lists)
    deltas = draw(st.none() | st.lists(int32, min_size=len(records), max_size=len(records)))
    area, base_timestamp, _ = _pure.encode_records(records, 0, deltas)
    return bytes(area), len(records), base_timestamp


@st.composite
def damaged_areas(draw: st.DrawFn) -> tuple[bytes, int, int]:
    """Draw an area that was cut, lengthened, changed in some bytes, or is noise altogether."""
    area, count, base_timestamp = draw(areas())
    kind = draw(st.sampled_from(["sound", "cut", "longer", "changed", "noise", "miscounted"]))
    if kind == "cut" and area:
        area = area[: draw(st.integers(0, len(area) - 1))]
    elif kind == "longer":
        area += draw(st.binary(min_size=1, max_size=12))
    elif kind == "changed" and area:
        changed = bytearray(area)
        for _ in range(draw(st.integers(1, 3))):
            changed[draw(st.integers(0, len(area) - 1))] = draw(
                st.sampled_from([0, 1, 2, 3, 127, 128, 254, 255]) | st.integers(0, 255)
            )
        area = bytes(changed)
    elif kind == "noise":
        area = draw(st.binary(max_size=60))
    elif kind == "miscounted":
        count = draw(st.integers(-1, count + 2))
    return area, count, base_timestamp
