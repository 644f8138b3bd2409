"""The loop's part of a swap: finished segments take the place of their sources, or are dropped."""

from seglog.broker.cleaning.jobs import CleaningAbortedError, CleaningJob, ExchangeSteps
from seglog.broker.runtime.clock import Clock
from seglog.broker.storage.cleaner.plan import CleaningPlan, SegmentSwap
from seglog.broker.storage.directories.log_manager import LogManager
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.files.layout import CLEANED_SUFFIX
from seglog.broker.storage.log.exchange import Exchange, remove_segment_files
from seglog.broker.storage.log.log import Log
from seglog.broker.storage.segment.segment import LogSegment
from seglog.protocol.errors import SeglogError


class SourcesChangedError(CleaningAbortedError):
    """Retention or a truncation has changed the sources of a pass; the next one begins anew."""


class Exchanger:
    """Swaps segments of all logs; see ``ExchangeSteps`` for the steps."""

    def __init__(self, logs: LogManager, file_system: FileSystem, clock: Clock) -> None:
        self._logs = logs
        self._file_system = file_system
        self._clock = clock
        self.steps = ExchangeSteps(self._begin, self._give_up, self._end)

    def _begin(self, job: CleaningJob, swap: SegmentSwap) -> Exchange | None:
        """Begin to put finished segments in the place of their sources.

        Raises:
            CleaningAbortedError: the pass is to end, or its sources have changed; the new segments
                are gone.
            StorageError: as ``Log.begin_exchange``; the new segments are gone.
        """
        log = job.log
        new: list[LogSegment] = []
        try:
            for base_offset in swap.new_base_offsets:
                new.append(self._open_cleaned(log, base_offset))  # noqa: PERF401 - kept on errors
            self._check_wanted(job)
            return log.begin_exchange(new, sources_in_place(log, job.plan, swap))
        except SeglogError:
            # Nothing refers to the files from here on: only the next start would remove them.
            for segment in new:
                segment.delete_files()
            for base_offset in swap.new_base_offsets[len(new) :]:
                remove_segment_files(self._file_system, log.directory, base_offset, CLEANED_SUFFIX)
            raise

    def _open_cleaned(self, log: Log, base_offset: int) -> LogSegment:
        return LogSegment.open(
            self._file_system,
            log.directory,
            base_offset,
            log.config,
            self._clock.time_ms(),
            suffix=CLEANED_SUFFIX,
        )

    def _check_wanted(self, job: CleaningJob) -> None:
        topic_partition = job.plan.topic_partition
        if job.is_over or self._logs.get(topic_partition) is not job.log:
            raise CleaningAbortedError(f"{topic_partition} is not cleaned any more")

    def _give_up(self, job: CleaningJob, exchange: Exchange) -> None:
        job.log.end_exchange(exchange)

    def _end(self, job: CleaningJob, exchange: Exchange) -> None:
        job.log.end_exchange(exchange)
        self._logs.housekeeping.schedule_deletion(job.log, exchange.old, self._clock.time_ms())


def sources_in_place(log: Log, plan: CleaningPlan, swap: SegmentSwap) -> list[LogSegment]:
    """The segments that a group was made from; none if all of them have left the log (SEG-7).

    Raises:
        SourcesChangedError: some have left it, or its end was cut. The new segments hold the
            records of all: deleted ones would be back, below the log start until a start opens the
                log before its checkpoint is written, and readable from then on (S14, T10).
    """
    if log.truncations != plan.truncations:
        raise SourcesChangedError(f"{swap.topic_partition} was truncated during its cleaning")
    planned = {each.base_offset: each.log for each in plan.segments}
    found = [log.segments.get(base_offset) for base_offset in swap.old_base_offsets]
    old = [each for each in found if each is not None and each.log is planned[each.base_offset]]
    if old and len(old) < len(swap.old_base_offsets):
        raise SourcesChangedError(
            f"retention has deleted segments of {swap.topic_partition} during its cleaning"
        )
    return old
