"""From fetched chunks to records."""

import pytest

from seglog.clients import ClientError, CorruptRecordError
from seglog.clients.consumer.starts import End
from seglog.clients.consumer.state import Chunk, PartitionState
from seglog.clients.consumer.stream import RecordStream
from seglog.clients.errors import BrokerError
from seglog.protocol.compression import Codec
from seglog.protocol.records.batch import RecordBatch
from seglog.protocol.records.builder import build_batch
from seglog.protocol.records.control import ControlType, build_marker
from seglog.protocol.types import TopicPartition


def batch(first, count, **options):
    records = [(index, None, b"%d" % index, ()) for index in range(first, first + count)]
    return bytes(build_batch(records, base_offset=first, **options))


class Harness:
    """A stream, one partition, and what was told to the fetcher."""

    def __init__(self, position=0, **options):
        self.consumed, self.broken = [], []
        self.stream = RecordStream(
            check_crcs=True,
            on_consumed=self.consumed.append,
            on_broken=self.broken.append,
            **options,
        )
        self.state = PartitionState(TopicPartition("t", 3), End.EARLIEST)
        self.state.begin_at(position)

    def put(self, *batches, aborted=None, error=None):
        chunk = Chunk(self.state, memoryview(b"".join(batches)), aborted, error)
        self.stream.put(chunk)
        return chunk

    def take(self, count=1000):
        records = []
        self.stream.take(records, count)
        return [record.offset for record in records]

    @property
    def position(self):
        return self.stream.position(self.state)


def test_records_know_where_they_lie():
    harness = Harness()
    harness.put(batch(0, 1))
    assert harness.stream.load()
    (record,) = harness.stream.current
    assert record == ("t", 3, 0, 0, None, b"0", ())


def test_records_below_the_position_are_skipped():
    """READ-3: an answer begins with the batch that contains the offset."""
    harness = Harness(position=3)
    harness.put(batch(0, 2), batch(2, 3), batch(5, 1))
    assert harness.take() == [3, 4, 5]
    assert harness.position == 6


def test_the_position_follows_every_record():
    harness = Harness()
    harness.put(batch(0, 2), batch(2, 2))
    assert harness.position == 0
    assert harness.take(1) == [0]
    assert harness.position == 1
    assert harness.take(2) == [1, 2]
    assert harness.position == 3
    assert harness.take() == [3]
    assert harness.position == 4


def test_the_position_passes_over_holes():
    """Compaction leaves batches with records missing in the middle and at the end."""
    harness = Harness()
    records = [(1, b"k", b"v", ()), (1, b"l", b"v", ())]
    sparse = build_batch(records, base_offset=10, offset_deltas=[2, 5], last_offset_delta=9)
    emptied = build_batch([], base_offset=20, last_offset_delta=4)
    harness.put(sparse, emptied)
    assert harness.take(1) == [12]
    assert harness.position == 13
    assert harness.take() == [15]
    assert harness.position == 25


def test_a_chunk_is_given_back_when_it_is_used_up():
    harness = Harness()
    first, second = harness.put(batch(0, 2)), harness.put(batch(2, 2))
    harness.take(2)
    assert harness.consumed == []
    harness.take(1)
    assert harness.consumed == [first]
    harness.take()
    assert harness.consumed == [first, second]


def test_moving_away_makes_void_what_was_fetched_even_in_the_middle_of_a_batch():
    harness = Harness()
    chunk = harness.put(batch(0, 5))
    later = harness.put(batch(5, 5))
    assert harness.take(2) == [0, 1]
    loop = iter(harness.stream.current)
    harness.state.rewind(100)
    harness.stream.discard(harness.state)
    assert next(loop, None) is None
    assert harness.position == 100
    harness.put(batch(100, 1))
    assert harness.take() == [100]
    assert harness.consumed[:2] == [chunk, later]


def test_reading_ends_at_the_end_that_was_set():
    harness = Harness()
    harness.state.stop_offset = 3
    harness.put(batch(0, 2), batch(2, 3), batch(5, 2))
    assert harness.take() == [0, 1, 2]
    assert harness.position == 3
    assert harness.state.is_at_stop
    assert not harness.stream.load()


def test_control_batches_are_passed_over():
    harness = Harness()
    marker = build_marker(
        ControlType.COMMIT,
        producer_id=1,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=1,
        base_offset=2,
    )
    harness.put(batch(0, 2), bytes(marker), batch(3, 1))
    assert harness.take() == [0, 1, 3]


def test_aborted_transactions_are_left_out_and_others_are_not():
    """read_committed: the same producer may abort one transaction and commit the next."""
    harness = Harness()
    written = {"producer_epoch": 0, "base_sequence": 0, "is_transactional": True}

    def marker(kind, producer_id, offset):
        return bytes(
            build_marker(
                kind,
                producer_id=producer_id,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp_ms=1,
                base_offset=offset,
            )
        )

    harness.put(
        batch(0, 2, producer_id=7, **written),
        batch(2, 2, producer_id=8, **written),
        batch(4, 1),
        marker(ControlType.ABORT, 7, 5),
        batch(6, 2, producer_id=7, **written),
        marker(ControlType.COMMIT, 8, 8),
        marker(ControlType.COMMIT, 7, 9),
        aborted=[(7, 0)],
    )
    assert harness.take() == [2, 3, 4, 6, 7]
    assert harness.position == 10


@pytest.mark.parametrize("codec_fault", [False, True])
def test_a_damaged_batch_stops_the_reader_there(codec_fault):
    """What was fetched behind the fault must not be delivered as if nothing were missing."""
    harness = Harness()
    damaged = bytearray(batch(2, 2))
    if codec_fault:
        damaged[22] |= 0x07
    damaged[-1] ^= 0xFF
    chunk = harness.put(batch(0, 2), bytes(damaged), batch(4, 2))
    behind = harness.put(batch(6, 1))
    assert harness.take() == [0, 1]
    with pytest.raises(CorruptRecordError, match="t-3 at offset 2") as caught:
        harness.take()
    assert caught.value.offset == 2
    assert harness.position == 2
    assert harness.broken == [chunk]
    assert harness.take() == []
    assert harness.consumed == [chunk, behind]


def damage(kind, data):
    """One batch as a disk might give it back."""
    damaged = bytearray(data)
    if kind == "a zeroed page":
        damaged[:] = bytes(len(damaged))
    elif kind == "a length that is 7 too long":
        damaged[11] += 7
    elif kind == "a wrong format":
        damaged[16] = 9
    else:
        damaged[-1] ^= 1
    return bytes(damaged)


DAMAGES = ["a zeroed page", "a length that is 7 too long", "a wrong format", "a flipped bit"]


@pytest.mark.parametrize("kind", DAMAGES)
def test_records_before_damage_are_given_out_and_the_next_sound_one_is_named(kind):
    """U3: whoever sought beyond the offset that used to be named lost good records."""
    harness = Harness()
    batches = [batch(first, 10) for first in range(0, 100, 10)]
    batches[4] = damage(kind, batches[4])
    harness.put(*batches)
    assert harness.take() == list(range(40))
    with pytest.raises(CorruptRecordError, match="seek to offset 50") as caught:
        harness.take()
    assert (caught.value.offset, caught.value.next_offset) == (40, 50)


def test_damage_behind_which_nothing_sound_was_fetched_names_no_next_record():
    harness = Harness()
    harness.put(batch(0, 2), damage("a zeroed page", batch(2, 2)))
    assert harness.take() == [0, 1]
    with pytest.raises(CorruptRecordError) as caught:
        harness.take()
    assert (caught.value.offset, caught.value.next_offset) == (2, None)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_batch_that_inflates_to_too_much_is_named_with_the_way_behind_it(codec):
    harness = Harness(max_decompressed_bytes=100_000)
    large = build_batch([(1, None, bytes(200_000), ())], base_offset=2, codec=codec)
    harness.put(batch(0, 2, codec=codec), bytes(large), batch(3, 2))
    assert harness.take() == [0, 1]
    expected = (
        f"t-3 at offset 2: {len(large)} bytes of a batch inflate to more than "
        "max_decompressed_bytes=100000: raise it; seek to offset 3 to go on behind it"
    )
    with pytest.raises(CorruptRecordError) as caught:
        harness.take()
    assert str(caught.value) == expected
    assert (caught.value.offset, caught.value.next_offset) == (2, 3)


@pytest.mark.parametrize("fault", [ZeroDivisionError, KeyboardInterrupt])
def test_a_batch_is_passed_over_when_the_application_outlives_a_defect(monkeypatch, fault):
    """The error comes again, behind the records before it, until the application seeks."""
    harness = Harness()
    decode = RecordBatch.records

    def fail_at_2(self, *arguments, **options):
        if self.header.base_offset == 2:
            raise fault
        return decode(self, *arguments, **options)

    monkeypatch.setattr(RecordBatch, "records", fail_at_2)
    for _ in range(3):
        chunk = harness.put(*(batch(first, 2) for first in range(harness.position, 6, 2)))
        if harness.position == 0 and fault is ZeroDivisionError:
            assert harness.take() == [0, 1]
        elif harness.position == 0:
            assert harness.take(2) == [0, 1]
        with pytest.raises(fault):
            harness.take()
        assert harness.position == 2
        assert not harness.stream.has_chunks
        assert harness.broken.pop() is harness.consumed.pop() is chunk
        harness.state.rewind(2)  # what the fetcher does
    harness.state.rewind(4)
    harness.put(batch(4, 2))
    assert harness.take() == [4, 5]


def test_an_error_of_the_broker_comes_behind_the_records_before_it():
    harness = Harness()
    harness.put(batch(0, 2))
    harness.put(error=BrokerError("no"))
    harness.put(batch(2, 1))
    assert harness.take() == [0, 1]
    with pytest.raises(BrokerError):
        harness.take()
    assert harness.take() == [2]


def test_checksums_can_be_left_unchecked():
    harness = Harness()
    stream = RecordStream(check_crcs=False, on_consumed=lambda _: None, on_broken=lambda _: None)
    damaged = bytearray(batch(0, 1))
    damaged[17] ^= 0xFF
    stream.put(Chunk(harness.state, memoryview(bytes(damaged)), None))
    assert stream.load()


def test_what_the_application_has_done_with_lags_behind_what_it_was_given():
    harness = Harness()
    harness.put(batch(0, 3), batch(3, 3))
    assert harness.take(2) == [0, 1]
    assert harness.state.settled == 0
    harness.stream.settle()
    assert harness.state.settled == 2
    assert harness.take(2) == [2, 3]
    assert harness.state.settled == 2
    harness.stream.settle()
    harness.stream.settle()
    assert harness.state.settled == 4
    assert harness.take() == [4, 5]
    harness.stream.settle()
    assert (harness.state.settled, harness.position) == (6, 6)


def test_records_that_are_left_out_are_done_with_too():
    """Else a committed offset would stay before a marker for ever."""
    harness = Harness()
    marker = build_marker(
        ControlType.COMMIT,
        producer_id=1,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=0,
        base_offset=2,
    )
    harness.put(batch(0, 2), bytes(marker))
    assert harness.take() == [0, 1]
    harness.stream.settle()
    assert harness.state.settled == 3


def test_of_records_that_came_singly_only_the_last_is_in_doubt():
    harness = Harness()
    harness.put(batch(0, 3))
    harness.stream.is_iterated = True
    assert harness.stream.load()
    next(harness.stream.current)
    harness.stream.settle_all_but_last()
    assert harness.state.settled == 0
    next(harness.stream.current)
    harness.stream.settle_all_but_last()
    assert harness.state.settled == 1
    list(harness.stream.current)
    harness.stream.settle_all_but_last()
    assert harness.state.settled == 2
    many = Harness()
    many.put(batch(0, 3))
    assert many.take(2) == [0, 1]
    many.stream.settle_all_but_last()
    assert many.state.settled == 0


def test_a_batch_that_is_not_finished_is_seen_as_such_and_progress_with_it():
    harness = Harness()
    assert not harness.stream.is_in_batch
    harness.put(batch(0, 2))
    before = harness.stream.progress
    assert harness.stream.load()
    assert harness.stream.is_in_batch
    marks = {before, harness.stream.progress}
    for _ in range(2):
        next(harness.stream.current)
        marks.add(harness.stream.progress)
    assert len(marks) == 4
    assert not harness.stream.is_in_batch
    harness.put(batch(2, 2))
    assert harness.stream.load()
    harness.stream.discard(harness.state)
    assert not harness.stream.is_in_batch


def test_what_reached_nobody_is_named_by_where_it_began():
    harness = Harness()
    harness.put(batch(0, 2), batch(2, 2))
    harness.stream.begin_turn()
    assert harness.take(1) == [0]
    harness.stream.begin_turn()
    assert harness.take(2) == [1, 2]
    assert harness.stream.take_back() == [(harness.state, 1)]
    assert harness.stream.take_back() == []
    assert harness.take(1) == [3]
    harness.state.rewind(0)
    assert harness.stream.take_back() == [], "the application has moved meanwhile"


def test_two_threads_that_load_at_once_pass_over_a_batch():
    harness = Harness()
    harness.put(batch(0, 1))
    met = []

    def intrude(_):
        with pytest.raises(ClientError, match="one at a time") as caught:
            harness.stream.load()
        met.append(caught)

    stream = RecordStream(check_crcs=True, on_consumed=intrude, on_broken=intrude)
    harness.stream = stream
    stream.put(Chunk(harness.state, memoryview(b""), None))
    assert not stream.load()
    assert met
    harness.put(batch(0, 2))
    assert stream.load()
    assert stream.load(), "what the other has just loaded is not passed over"
    assert harness.take() == [0, 1]
