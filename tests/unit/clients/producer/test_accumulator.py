"""The producer's buffer."""

import pytest

from seglog.clients import ClientClosedError, ConfigurationError, RecordTooLargeError
from seglog.clients.config import ProducerConfig
from seglog.clients.producer.accumulator import Progress, RecordAccumulator, Target
from seglog.clients.producer.batch import Outcome
from seglog.clients.producer.futures import BulkDelivery
from seglog.clients.producer.records import size_of

RECORD = (1, None, b"x" * 86, ())  # 100 bytes as counted
TARGET = Target("t", 1, None)


class Harness:
    """An accumulator with a clock that stands still, and a count of its wake-up calls."""

    def __init__(self, **options):
        self.now = 100.0
        self.wakes = 0
        self.accumulator = RecordAccumulator(
            ProducerConfig(**options), lambda: self.now, lambda: 0, self.wake
        )

    def wake(self):
        self.wakes += 1

    def append(self, record=RECORD, target=TARGET):
        return self.accumulator.append(target, record, size_of(record))

    def ready(self):
        queues, self.look_again = self.accumulator.ready(self.now)
        return queues

    def take(self):
        (queue,) = self.ready()
        return queue, self.accumulator.take(queue)


def test_records_share_a_batch_until_it_is_full():
    harness = Harness(batch_bytes=61 + 300)
    places = [harness.append() for _ in range(7)]
    assert [index for _, index in places] == [0, 1, 2, 0, 1, 2, 0]
    assert len({batch for batch, _ in places}) == 3


def test_a_batch_leaves_when_it_has_lingered_or_is_full():
    harness = Harness(linger_ms=50, batch_bytes=61 + 200)
    harness.append()
    assert harness.ready() == []
    assert harness.look_again == pytest.approx(100.05)
    harness.now += 0.05
    assert len(harness.ready()) == 1
    harness.now -= 0.05
    harness.append()
    harness.append()
    queue, batch = harness.take()
    assert batch.record_count == 2
    assert harness.ready() == []
    harness.accumulator.finish(batch, Outcome(0))
    harness.accumulator.release(queue, batch)
    assert harness.ready() == []


def test_only_the_head_of_a_partition_is_under_way():
    """Without idempotence two requests at a time could be carried out in the wrong order."""
    harness = Harness(batch_bytes=61 + 100, enable_idempotence=False)
    for _ in range(3):
        harness.append()
    queue, first = harness.take()
    assert harness.ready() == []
    harness.accumulator.release(queue, first, retry_at_s=100.5)
    assert harness.ready() == []
    assert harness.look_again == 100.5
    harness.now = 100.5
    assert harness.take() == (queue, first)
    harness.accumulator.finish(first, Outcome(0))
    assert harness.ready() == []
    harness.accumulator.release(queue, first)
    _, second = harness.take()
    assert second is not first


def test_full_batches_of_an_idempotent_producer_follow_each_other():
    """Five at a time, and what is not full waits for those under way: it grows meanwhile."""
    harness = Harness(batch_bytes=61 + 100)
    for _ in range(3):
        harness.append()
    queue, first = harness.take()
    assert harness.ready() == []  # Alone, until the broker has confirmed it.
    harness.accumulator.finish(first, Outcome(0))
    harness.accumulator.release(queue, first)
    _, second = harness.take()
    assert harness.ready() == []  # The third may still grow.
    for _ in range(6):
        harness.append()
    taken = [second, *(harness.take()[1] for _ in range(4))]
    assert queue.in_flight == 5
    assert harness.ready() == []
    for batch in taken:
        harness.accumulator.finish(batch, Outcome(0))
        harness.accumulator.release(queue, batch)
    assert len(harness.ready()) == 1
    harness.take()
    harness.now += 1.1
    assert harness.ready() == []


def confirmed(harness):
    """The queue of a partition of which a batch has just been acknowledged."""
    harness.append()
    queue, batch = harness.take()
    harness.accumulator.finish(batch, Outcome(0))
    harness.accumulator.release(queue, batch)
    return queue


def test_after_a_failure_nothing_leaves_until_all_under_way_has_ended():
    """Else a later batch would be sent before the one that failed, again and again."""
    harness = Harness(batch_bytes=61 + 100)
    confirmed(harness)
    for _ in range(6):
        harness.append()
    queue, first = harness.take()
    second, third = harness.take()[1], harness.take()[1]
    harness.accumulator.release(queue, first, 100.5)
    harness.now = 101.0
    assert harness.ready() == []
    harness.accumulator.release(queue, second)
    assert harness.ready() == []
    harness.accumulator.release(queue, third)
    assert harness.take()[1] is first
    assert harness.ready() == []


def test_a_batch_that_expires_under_way_does_not_let_the_next_overtake_it():
    harness = Harness(batch_bytes=61 + 100, delivery_timeout_ms=1000, enable_idempotence=False)
    harness.append()
    queue, first = harness.take()
    harness.now += 0.9
    harness.append()
    harness.now += 0.1
    assert harness.accumulator.expired(harness.now) == [first]
    harness.accumulator.finish(first, Outcome())
    assert harness.ready() == []
    harness.accumulator.release(queue, first)
    assert len(harness.ready()) == 1


def test_the_buffer_is_bounded_and_tells_when_there_is_room_again():
    harness = Harness(buffer_bytes=250, batch_bytes=61 + 100)
    batches = [harness.append()[0] for _ in range(3)]
    assert harness.append() is None
    told = []
    harness.accumulator.wait_for_room(lambda: told.append("one"))
    assert told == []
    assert harness.accumulator.buffered_bytes == 300
    harness.accumulator.finish(batches[0], Outcome(0))
    assert told == ["one"]
    harness.accumulator.wait_for_room(lambda: told.append("at once"))
    assert told == ["one", "at once"]
    for batch in batches[1:]:
        harness.accumulator.finish(batch, Outcome(0))
    assert harness.accumulator.buffered_bytes == 0
    assert harness.accumulator.is_empty


def test_nothing_lingers_while_somebody_waits_for_room():
    """A buffer smaller than a batch would otherwise never be emptied."""
    harness = Harness(buffer_bytes=100, linger_ms=60_000)
    harness.append()
    harness.wakes = 0
    harness.accumulator.wait_for_room(lambda: None)
    assert harness.wakes == 1
    assert len(harness.ready()) == 1


def test_the_sender_is_woken_once_a_batch_not_once_a_record():
    harness = Harness(batch_bytes=61 + 1000)
    for _ in range(10):
        harness.append()
    assert harness.wakes == 1
    queue, batch = harness.take()
    harness.append()
    assert harness.wakes == 1  # It looks again when the request ends.
    harness.accumulator.finish(batch, Outcome(0))
    harness.accumulator.release(queue, batch)


def test_flushing_and_closing_end_the_lingering():
    harness = Harness(linger_ms=60_000)
    batch, _ = harness.append()
    assert harness.accumulator.pending() == [batch]
    assert len(harness.ready()) == 1
    closing = Harness(linger_ms=60_000)
    closing.append()
    closing.accumulator.close()
    assert len(closing.ready()) == 1
    with pytest.raises(ClientClosedError):
        closing.append()


def test_closing_wakes_those_who_wait_for_room():
    harness = Harness(buffer_bytes=100)
    harness.append()
    told = []
    harness.accumulator.wait_for_room(lambda: told.append(True))
    harness.accumulator.close()
    assert told == [True]


def test_a_record_that_fits_no_request_is_refused():
    harness = Harness(max_request_bytes=160)
    with pytest.raises(RecordTooLargeError, match="max_request_bytes"):
        harness.append()
    assert harness.accumulator.is_empty


def test_a_partition_that_does_not_exist_is_refused():
    harness = Harness()
    for partition in (-1, 3):
        with pytest.raises(ConfigurationError, match="has 3 partitions"):
            harness.append(target=Target("t", 3, partition))


def test_many_records_stop_where_the_buffer_is_full_and_none_is_lost():
    harness = Harness(buffer_bytes=300, batch_bytes=61 + 100)
    items = iter([(None, b"%02d" % index + bytes(84)) for index in range(7)])
    delivery = BulkDelivery()
    sent = []
    while True:
        progress = harness.accumulator.append_many(TARGET, items, delivery, 100)
        for batch in harness.accumulator.pending():
            sent += [value[:2] for _, _, value, _ in batch.records]
            harness.accumulator.finish(batch, Outcome(0))
        if progress is Progress.DONE:
            break
        assert progress is Progress.NO_ROOM
    delivery.complete()
    assert sent == [b"%02d" % index for index in range(7)]
    assert delivery.is_done
    assert delivery.delivered_count == 7


def test_many_records_pause_for_others():
    harness = Harness()
    items = iter([(None, b"")] * 5)
    delivery = BulkDelivery()
    append_many = harness.accumulator.append_many
    assert append_many(TARGET, items, delivery, 3) is Progress.PAUSE
    assert append_many(TARGET, items, delivery, 3) is Progress.DONE


def test_parts_take_the_place_of_a_batch_that_was_too_large():
    harness = Harness(batch_bytes=61 + 200)
    batch, _ = harness.append()
    harness.append()
    behind, _ = harness.append()
    queue, head = harness.take()
    assert head is batch
    parts = []
    for _ in range(2):
        twin = Harness()
        parts.append(twin.append()[0])
    harness.accumulator.replace(batch, parts)
    harness.accumulator.release(queue, batch)
    assert harness.accumulator.pending() == [*parts, behind]
    assert harness.accumulator.buffered_bytes == 300


class Interrupted:
    """A clock that, when it is read inside of the accumulator, sends as a signal handler would."""

    def __init__(self, harness):
        self.harness = harness
        self.left = 1
        self.placed = []

    def __call__(self):
        if self.left:
            self.left -= 1
            record = (1, None, b"from the handler", ())
            self.placed.append(self.harness.accumulator.append(TARGET, record, size_of(record)))
        return self.harness.now


def interrupted(**options):
    harness = Harness(**options)
    clock = Interrupted(harness)
    harness.accumulator = RecordAccumulator(
        ProducerConfig(**options), clock, lambda: 0, harness.wake
    )
    return harness, clock


def test_sending_in_the_middle_of_sending_hangs_nothing_and_keeps_the_order():
    """A6: a signal handler, a handler of the log or ``__del__`` sends; it hung for ever."""
    harness, clock = interrupted(linger_ms=0)
    batch, index = harness.append()
    ((late, late_index),) = clock.placed
    assert (index, late_index) == (0, 0)
    assert late is not batch
    assert harness.wakes
    queue, first = harness.take()
    assert first is batch
    assert list(queue.batches) == [batch, late]
    assert late.partition == batch.partition
    assert harness.accumulator.buffered_bytes == sum(each.size_bytes - 61 for each in (batch, late))
    after, index = harness.append()
    assert (after is late, index) == (False, 0), "nothing is put behind the late record's batch"


def test_sending_in_the_middle_of_sending_many_is_counted_where_it_belongs():
    harness, clock = interrupted(linger_ms=0)
    delivery = BulkDelivery()
    items = iter([(None, b"%d" % number) for number in range(5)])
    assert harness.accumulator.append_many(TARGET, items, delivery, 100) is Progress.DONE
    delivery.complete()
    ((late, _),) = clock.placed
    queues = harness.ready()
    batches = list(queues[0].batches)
    assert sum(batch.record_count for batch in batches) == 6
    for batch in batches:
        harness.accumulator.finish(batch, Outcome(base_offset=0))
    assert delivery.is_done
    assert late.is_done
    assert harness.accumulator.buffered_bytes == 0


def test_what_can_never_be_sent_is_refused_in_the_middle_of_sending_too():
    harness, clock = interrupted(max_request_bytes=1000)
    errors = []

    def send_too_much():
        if not errors:
            errors.append(None)
            for target, size in ((TARGET, 5000), (Target("t", 1, 7), 100)):
                with pytest.raises((RecordTooLargeError, ConfigurationError)):
                    harness.accumulator.append(target, RECORD, size)
        return harness.now

    harness.accumulator._clock = send_too_much
    harness.append()
    assert errors
    assert clock.placed == []
    assert harness.accumulator.buffered_bytes == 100


def test_a_full_buffer_stops_no_record_that_is_sent_in_the_middle_of_another():
    """Waiting for room there is waiting for oneself."""
    harness, clock = interrupted(buffer_bytes=100)
    harness.append()
    assert clock.placed[0] is not None
    assert harness.append() is None
