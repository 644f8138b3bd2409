"""A segment against a list of records: any order of appends, cuts, restarts and kills."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.config.log_config import LogConfig
from seglog.protocol.records.batch import iter_batches
from support.examples import examples
from support.index_checks import check_indexes
from support.segment_builder import NOW_MS, append, batch, headers_in, new_segment, reopened

CONFIG = LogConfig(index_interval_bytes=150, segment_index_bytes=4000)
BASE = 50

# Relative timestamps of a batch's records, and the gap in front of it.
BATCH = st.tuples(st.lists(st.integers(0, 30), min_size=1, max_size=4), st.integers(0, 3))


class SegmentMachine(RuleBasedStateMachine):
    """``batches`` is the model: (base offset, timestamps, bytes) of each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.file_system = OsFileSystem(max_open_files=2)
        self.segment = new_segment(self.file_system, self.directory, BASE, CONFIG)
        self.batches: list[tuple[int, list[int], bytes]] = []

    def teardown(self) -> None:
        self.segment.close()
        shutil.rmtree(self.directory)

    @property
    def next_offset(self) -> int:
        if not self.batches:
            return BASE
        base_offset, stamps, _ = self.batches[-1]
        return base_offset + len(stamps)

    @rule(batches=st.lists(BATCH, min_size=1, max_size=8), at_once=st.booleans())
    def append(self, batches: list[tuple[list[int], int]], at_once: bool) -> None:
        made = []
        for stamps, gap in batches:
            offset = self.next_offset + gap
            stamps = [NOW_MS + stamp for stamp in stamps]
            content = batch(offset, stamps)
            self.batches.append((offset, stamps, content))
            made.append(content)
        if at_once:
            joined = b"".join(made)
            self.segment.append(joined, headers_in(joined))
        else:
            append(self.segment, *made)

    @rule(offset=st.integers(BASE, BASE + 200))
    def truncate(self, offset: int) -> None:
        self.segment.truncate_to(offset, NOW_MS)
        kept = [one for one in self.batches if one[0] + len(one[1]) <= offset]
        self.batches = kept

    @rule()
    def restart(self) -> None:
        self.segment.close()
        self.segment = reopened(self.file_system, self.directory, BASE, CONFIG)
        check_indexes(self.segment, every_entry=True)
        self.segment.prepare_for_appends()

    @rule(torn=st.binary(max_size=80))
    def kill(self, torn: bytes) -> None:
        with open(self.segment.log.path, "ab") as file:
            file.write(torn)
        self.segment.files.close()
        self.segment = reopened(self.file_system, self.directory, BASE, CONFIG)
        assert self.segment.recover() == len(torn)
        self.segment.prepare_for_appends()

    @precondition(lambda self: self.batches)
    @rule(offset=st.integers(BASE, BASE + 200), max_bytes=st.integers(0, 2000))
    def read(self, offset: int, max_bytes: int) -> None:
        expected = [one for one in self.batches if one[0] + len(one[1]) > offset]
        part = self.segment.read(offset, max_bytes)
        if not expected:
            assert part is None
            return
        assert part is not None
        content = part.read()
        part.release()
        count = len(list(iter_batches(content)))
        assert content == b"".join(one[2] for one in expected[:count])
        assert count == 1 or len(content) <= max_bytes
        if count < len(expected):
            assert len(content) + len(expected[count][2]) > max_bytes

    @rule(stamp=st.integers(0, 31), start=st.integers(BASE, BASE + 200))
    def look_up_time(self, stamp: int, start: int) -> None:
        found = self.segment.find_offset_by_timestamp(NOW_MS + stamp, start)
        expected = next(
            (
                (time, offset)
                for base_offset, stamps, _ in self.batches
                for offset, time in enumerate(stamps, base_offset)
                if offset >= start and time >= NOW_MS + stamp
            ),
            None,
        )
        assert (None if found is None else found[:2]) == expected

    @invariant()
    def knows_its_content(self) -> None:
        assert self.segment.next_offset() == self.next_offset
        stamps = [stamp for one in self.batches for stamp in one[1]]
        assert self.segment.max_timestamp_ms == max(stamps, default=-1)
        assert self.segment.size_bytes == sum(len(one[2]) for one in self.batches)
        assert self.file_system.open_files <= 3


SegmentMachine.TestCase.settings = settings(
    max_examples=examples(40),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
test_segment_disagrees_with_a_list = SegmentMachine.TestCase
