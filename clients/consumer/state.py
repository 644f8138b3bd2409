"""What a consumer knows of each partition it reads, and the pieces that fetching hands on."""

from collections.abc import Sequence
from typing import Final

from seglog.clients.consumer.starts import Offset, Place
from seglog.clients.errors import ClientError
from seglog.protocol.types import NO_OFFSET, TopicPartition

UNKNOWN: Final = NO_OFFSET


class PartitionState:
    """One partition that is read.

    ``fetch_offset`` is what will be asked for next, ``position`` what the application gets next;
    what lies between is buffered. Everything before ``settled`` the application has done with, as
    far as can be known. A change of ``generation`` (seek, reset) makes everything that
    was asked for before void, and so does ``broken_generation`` for that one. The loop's thread
    owns all but ``position``, ``settled`` and ``broken_generation``, which belong to the reader.
    """

    __slots__ = (
        "broken_generation",
        "buffered_bytes",
        "doubted_at",
        "failures",
        "fetch_offset",
        "generation",
        "halted_by",
        "high_watermark",
        "is_beyond_end",
        "is_halted",
        "is_in_flight",
        "is_of_old_topic",
        "is_paused",
        "missed_at",
        "partition",
        "place",
        "position",
        "retry_at_s",
        "settled",
        "stop_offset",
    )

    def __init__(self, partition: TopicPartition, place: Place) -> None:
        self.partition = partition
        self.place: Place | None = place
        """Where to begin, until that is resolved to an offset."""
        self.generation = 0
        self.broken_generation = UNKNOWN
        self.fetch_offset = UNKNOWN
        self.position = UNKNOWN
        self.settled = UNKNOWN
        self.high_watermark = UNKNOWN
        self.stop_offset: int | None = None
        self.is_beyond_end = False
        """Whether the position may lie behind all there is: then it is asked for all the same."""
        self.buffered_bytes = 0
        self.is_in_flight = False
        self.is_halted = False
        self.halted_by: ClientError | None = None
        """What the reader will meet, while halted."""
        self.is_paused = False
        self.doubted_at = UNKNOWN
        """State of the metadata when the offset was first called out of range."""
        self.missed_at = UNKNOWN
        """State of the metadata when the partition was first missing from it."""
        self.is_of_old_topic = False
        """Whether the topic was deleted and made anew: offsets mean nothing there any more."""
        self.retry_at_s = 0.0
        self.failures = 0

    def move_to(self, place: Place) -> None:
        """Forget fetched records; begin anew at ``place`` once it is resolved."""
        self.generation += 1
        self.place = place
        self.fetch_offset = UNKNOWN
        self.position = UNKNOWN
        self.settled = UNKNOWN
        self.is_beyond_end = False
        self.is_halted = False
        self.is_in_flight = False
        self.is_of_old_topic = False
        self.doubted_at = UNKNOWN
        self.retry_at_s = 0.0

    def rewind(self, offset: int) -> None:
        """Forget fetched records; begin anew at ``offset``."""
        self.move_to(Offset(offset))
        self.begin_at(offset)

    def begin_at(self, offset: int) -> None:
        """The place is resolved."""
        self.place = None
        self.fetch_offset = offset
        self.position = offset
        self.settled = offset

    @property
    def is_at_stop(self) -> bool:
        """Whether the application has everything up to where it wanted to stop."""
        if self.stop_offset is None or self.is_beyond_end:
            return False
        return self.position >= self.stop_offset

    @property
    def is_caught_up(self) -> bool:
        """Whether the application has everything that the broker is known to have."""
        return UNKNOWN != self.high_watermark <= self.position


class Chunk:
    """What one answer held of one partition; ``error`` stands in the place of records."""

    __slots__ = ("aborted", "error", "from_offset", "generation", "records", "state")

    def __init__(
        self,
        state: PartitionState,
        records: memoryview,
        aborted: Sequence[tuple[int, int]] | None,
        error: ClientError | None = None,
    ) -> None:
        self.state = state
        self.generation = state.generation
        self.from_offset = state.fetch_offset
        self.records = records
        self.aborted = aborted
        self.error = error

    @property
    def is_void(self) -> bool:
        """Whether the application has moved elsewhere since this was asked for."""
        state = self.state
        return self.generation != state.generation or self.generation == state.broken_generation
