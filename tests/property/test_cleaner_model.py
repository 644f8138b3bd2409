"""The cleaner against a small model: what consumers see of a log is the same before and after.

A life is a list of steps: plain records and tombstones, transactions of two producers, commits,
aborts, new epochs, rolls, cleanings with small and large maps, restarts, delete-records, and time
that passes. After each step both kinds of consumers read the log. A failing life is printed and
shrunk; ``--hypothesis-seed`` plays a run again.
"""

from dataclasses import dataclass, field, replace
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from seglog.broker.storage.log.log import Log
from seglog.protocol.compression import Codec
from seglog.protocol.records.record import Record
from support.examples import examples
from support.log_builder import KEEP, NOW_MS, append, at_once, end_transaction, read_all
from support.log_cleaning import CompactedLog, read_committed, stored_batches
from support.memory_folder import memory_folder

DELETE_RETENTION_MS: Final = 1000
CONFIG: Final = replace(
    KEEP,
    cleanup_policy=frozenset({"compact"}),
    delete_retention_ms=DELETE_RETENTION_MS,
    segment_bytes=700,
    segment_index_bytes=1 << 10,
    index_interval_bytes=150,
)
KEYS: Final = 3
PRODUCERS: Final = 2


@dataclass
class Transaction:
    """All records of it become visible, or none."""

    is_open: bool = True
    is_committed: bool = False


@dataclass
class Written:
    """A record as it was appended; without a transaction it is committed at once."""

    offset: int
    key: bytes
    value: bytes | None
    transaction: Transaction | None
    first_kept_ms: int | None = None
    """When a pass first went over it; a tombstone stays for a while after that."""

    @property
    def is_committed(self) -> bool:
        return self.transaction is None or self.transaction.is_committed

    @property
    def content(self) -> tuple[int, bytes, bytes | None]:
        return self.offset, self.key, self.value


@dataclass
class Producer:
    """Its identity, and its open transaction if it has one."""

    producer_id: int
    epoch: int = 0
    sequence: int = 0
    transaction: Transaction | None = None


@dataclass
class Life:
    """The log and the model beside it."""

    compacted: CompactedLog
    now_ms: int = NOW_MS
    written: list[Written] = field(default_factory=list)
    producers: list[Producer] = field(
        default_factory=lambda: [Producer(100 + number) for number in range(PRODUCERS)]
    )

    @property
    def log(self) -> Log:
        return self.compacted.log

    # ---- steps

    def put(self, key: int, value: bytes | None, producer: int | None, codec: Codec) -> None:
        """Append a record, by a producer in its transaction or by nobody."""
        sender = None if producer is None else self.producers[producer]
        if sender is not None and sender.transaction is None:
            sender.transaction = Transaction()
        offset, name = self.log.offsets.log_end, b"key-%d" % key
        append(
            self.log,
            [value],
            keys=[name],
            codec=codec,
            producer_id=-1 if sender is None else sender.producer_id,
            producer_epoch=0 if sender is None else sender.epoch,
            sequence=-1 if sender is None else sender.sequence,
            transactional=sender is not None,
            now_ms=self.now_ms,
        )
        if sender is not None:
            sender.sequence += 1
        transaction = None if sender is None else sender.transaction
        self.written.append(Written(offset, name, value, transaction))

    def end(self, producer: int, *, commit: bool, bumps_epoch: bool) -> None:
        """End a transaction; a marker may come alone, and a coordinator may fence with it."""
        sender = self.producers[producer]
        if bumps_epoch:
            sender.epoch, sender.sequence = sender.epoch + 1, 0
        end_transaction(
            self.log,
            sender.producer_id,
            commit=commit,
            producer_epoch=sender.epoch,
            now_ms=self.now_ms,
        )
        if sender.transaction is not None:
            sender.transaction.is_open = False
            sender.transaction.is_committed = commit
            sender.transaction = None

    def clean(self, *, roll: bool, map_keys: int) -> None:
        """One pass; a small map does not hold all keys."""
        self.compacted.map_bytes = 24 * map_keys
        self.compacted.clean(self.now_ms, roll=roll)
        end = self.compacted.first_dirty
        for each in self.written:
            if each.first_kept_ms is None and end is not None and each.offset < end:
                each.first_kept_ms = self.now_ms

    def delete_records(self, share: int) -> None:
        """Raise the log start by some eighths of what readers may see."""
        offsets = self.log.offsets
        visible = offsets.last_stable - offsets.log_start
        self.log.delete_records_before(offsets.log_start + visible * share // 8)
        doomed = [segment for segment, _ in self.log.deletable_segments(self.now_ms)]
        for segment in at_once(lambda: self.log.delete_segments(doomed, self.now_ms)):
            segment.delete_files()

    # ---- what has to hold

    def check(self) -> None:
        """Compare with the model what consumers of both kinds get."""
        log_start, stable = self.log.offsets.log_start, self.log.offsets.last_stable
        there = [each for each in self.written if each.offset >= log_start]
        committed = [each for each in there if each.is_committed and each.offset < stable]
        self._check_reader(read_committed(self.log, max_bytes=400), committed, committed)
        self._check_reader(read_all(self.log, max_bytes=400), there, committed)
        for batch in stored_batches(self.log):
            assert not batch.header.is_control or batch.header.record_count == 1

    def _check_reader(
        self, records: list[Record], may: list[Written], committed: list[Written]
    ) -> None:
        seen = [(record.offset, record.key, record.value) for record in records]
        dirty = self.compacted.first_dirty or 0
        assert set(seen) <= {each.content for each in may}
        assert sorted(seen) == seen
        # What no pass has gone over is there, whatever became of its transaction.
        assert [each.content for each in may if each.offset >= dirty] == [
            each for each in seen if each[0] >= dirty
        ]
        last = {each.key: each for each in committed}
        for each in last.values():
            assert each.value is None or each.content in seen
            if each.value is None and not self._may_be_gone(each):
                assert each.content in seen, "a tombstone went before its time"
        if may is committed:
            table = {key: value for _, key, value in seen}
            for key in {each.key for each in self.written}:
                newest = last.get(key)
                assert table.get(key) == (None if newest is None else newest.value)

    def _may_be_gone(self, tombstone: Written) -> bool:
        kept_ms = tombstone.first_kept_ms
        return kept_ms is not None and self.now_ms >= kept_ms + DELETE_RETENTION_MS

    def settle(self) -> None:
        """End everything and clean until there is nothing to do: the last of each key is left."""
        for number in range(PRODUCERS):
            self.end(number, commit=number % 2 == 0, bumps_epoch=False)
        for _ in range(4):
            self.now_ms += 2 * DELETE_RETENTION_MS
            self.clean(roll=True, map_keys=100)
        assert self.compacted.first_dirty == self.log.offsets.log_end
        self.check()
        log_start = self.log.offsets.log_start
        last = {
            each.key: each
            for each in self.written
            if each.is_committed and each.offset >= log_start
        }
        expected = sorted(each.content for each in last.values() if each.value is not None)
        assert [(each.offset, each.key, each.value) for each in read_all(self.log)] == expected


STEPS = (
    *("put", "put", "send", "send", "end", "transaction", "transaction", "transaction"),
    *("clean", "clean", "clean", "wait", "roll", "restart", "delete"),
)


keys = st.integers(0, KEYS - 1)
values = st.one_of(st.none(), st.binary(min_size=1, max_size=8))
producers = st.integers(0, PRODUCERS - 1)


@st.composite
def step_names(draw: st.DrawFn) -> tuple[str, tuple]:
    """A step as it is printed: what is done, and with what."""
    name = draw(st.sampled_from(STEPS))
    arguments = {
        "put": st.tuples(keys, values, st.none(), st.sampled_from([Codec.NONE, Codec.LZ4])),
        "send": st.tuples(keys, values, producers, st.sampled_from([Codec.NONE, Codec.ZSTD])),
        "transaction": st.tuples(keys, values, producers, st.booleans()),
        "end": st.tuples(producers, st.booleans(), st.sampled_from([False, False, True])),
        "clean": st.tuples(st.sampled_from([True, True, False]), st.sampled_from([100, 100, 3])),
        "wait": st.tuples(st.sampled_from([1, DELETE_RETENTION_MS])),
        "roll": st.tuples(),
        "restart": st.tuples(st.booleans()),
        "delete": st.tuples(st.integers(0, 6)),
    }
    return name, draw(arguments[name])


def take(life: Life, name: str, arguments: tuple) -> None:
    """Do one step."""
    match name:
        case "put" | "send":
            life.put(*arguments)
        case "transaction":
            key, value, producer, commit = arguments
            life.put(key, value, producer, Codec.NONE)
            life.end(producer, commit=commit, bumps_epoch=False)
        case "end":
            producer, commit, bumps_epoch = arguments
            life.end(producer, commit=commit, bumps_epoch=bumps_epoch)
        case "clean":
            roll, map_keys = arguments
            life.clean(roll=roll, map_keys=map_keys)
        case "wait":
            life.now_ms += arguments[0]
        case "roll":
            life.log.roll(life.now_ms)
        case "restart":
            life.compacted.restart(clean=arguments[0], now_ms=life.now_ms)
        case "delete":
            life.delete_records(*arguments)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(step_names(), min_size=10, max_size=30))
def test_cleaning_changes_nothing_that_consumers_rely_on(steps: list[tuple[str, tuple]]) -> None:
    """KEEP-3 to KEEP-20, CMAP-6, CMAP-7, CLN-2, CLN-10 to CLN-12."""
    with memory_folder() as folder:
        life = Life(CompactedLog(folder / "log", CONFIG))
        for name, arguments in steps:
            take(life, name, arguments)
            if name in ("clean", "restart", "delete"):
                life.check()
        life.settle()
        life.log.abandon()
