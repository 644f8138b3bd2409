"""Records are checked before they get into a batch: one bad record must not spoil others."""

import pytest

from seglog.clients import ConfigurationError
from seglog.clients.producer.records import measured_item, measured_record, size_of
from seglog.protocol.records.builder import build_batch


def now():
    return 1_700_000_000_123_999_999


def test_a_pair_is_stamped_now():
    record, _ = measured_item((b"key", b"value"), now)
    assert record == (1_700_000_000_123, b"key", b"value", ())


def test_longer_items_bring_their_timestamp_and_headers():
    assert measured_item((None, None, 5), now)[0] == (5, None, None, ())
    item = (b"k", b"v", None, [("h", b"1"), ("h", None)])
    assert measured_item(item, now)[0][3] == (("h", b"1"), ("h", None))


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_other_buffers_are_copied(kind):
    """The caller may go on to change its buffer."""
    content = kind(bytearray(b"abc"))
    record, _ = measured_item((content, content), now)
    assert record[1:3] == (b"abc", b"abc")
    assert type(record[1]) is type(record[2]) is bytes


@pytest.mark.parametrize(
    "item",
    [
        (b"k", "text"),
        ("text", b"v"),
        (b"k", 5),
        (b"k",),
        (b"k", b"v", 1, (), ()),
        (b"k", b"v", -1),
        (b"k", b"v", 1.5),
        (b"k", b"v", 2**63),
        (b"k", b"v", 1, [(b"name", b"")]),
        (b"k", b"v", 1, [("name", "text")]),
    ],
)
def test_what_no_batch_can_hold_is_refused(item):
    with pytest.raises(ConfigurationError, match="expected"):
        measured_item(item, now)


@pytest.mark.parametrize("headers", [(), (("name", b"x" * 100), ("ñ", None))])
@pytest.mark.parametrize("key", [None, b"", b"k" * 1000])
@pytest.mark.parametrize("value", [None, b"", b"v" * 10_000])
def test_a_batch_is_never_larger_than_it_was_counted(key, value, headers):
    """A batch that is just full by our count must not be over a limit by the broker's."""
    record, size = measured_record(key, value, 1_700_000_000_000, headers, now)
    assert size == size_of(record)
    batch = build_batch([record] * 20)
    assert len(batch) <= 61 + 20 * size
