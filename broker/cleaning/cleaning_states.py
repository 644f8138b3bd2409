"""The states of each log in the cleaner, as a transition table (CLN-6, CLN-9).

A log without an entry is idle. A pass is asked to end with ABORT; when it has ended, the log is
paused until the caller that needed it to stand still resumes it. Pauses are counted.
"""

from enum import Enum
from typing import Final

from seglog.protocol.types import TopicPartition


class CleaningState(Enum):
    """The state of a log."""

    IDLE = "idle"
    IN_PROGRESS = "in progress"
    ABORTED = "aborted"
    PAUSED = "paused"


class CleaningEvent(Enum):
    """An event that changes the state."""

    START = "start"
    END = "end"
    ABORT = "abort"
    PAUSE = "pause"
    RESUME = "resume"


_IDLE, _BUSY = CleaningState.IDLE, CleaningState.IN_PROGRESS
_ABORTED, _PAUSED = CleaningState.ABORTED, CleaningState.PAUSED

TRANSITIONS: Final = {
    (_IDLE, CleaningEvent.START): _BUSY,
    (_BUSY, CleaningEvent.END): _IDLE,
    (_BUSY, CleaningEvent.ABORT): _ABORTED,
    (_ABORTED, CleaningEvent.ABORT): _ABORTED,
    (_ABORTED, CleaningEvent.END): _PAUSED,
    (_IDLE, CleaningEvent.PAUSE): _PAUSED,
    (_PAUSED, CleaningEvent.PAUSE): _PAUSED,
    (_PAUSED, CleaningEvent.RESUME): _PAUSED,  # or idle, with the last one
}


class CleaningStates:
    """The state of every log that is not idle."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, CleaningState] = {}
        self._pauses: dict[TopicPartition, int] = {}

    def of(self, topic_partition: TopicPartition) -> CleaningState:
        """The state of a log."""
        return self._states.get(topic_partition, CleaningState.IDLE)

    def count(self, state: CleaningState) -> int:
        """How many logs are in a state other than idle."""
        return sum(each is state for each in self._states.values())

    def apply(self, topic_partition: TopicPartition, event: CleaningEvent) -> CleaningState:
        """Move a log on; an event that the table does not list is a bug of the caller."""
        before = self.of(topic_partition)
        after = TRANSITIONS.get((before, event))
        assert after is not None, f"{event.value} of {topic_partition}, which is {before.value}"
        if after is CleaningState.PAUSED:
            pauses = self._pauses.get(topic_partition, 0)
            pauses += -1 if event is CleaningEvent.RESUME else 1
            self._pauses[topic_partition] = pauses
            if pauses == 0:
                after = CleaningState.IDLE
        if after is CleaningState.IDLE:
            self.forget(topic_partition)
        else:
            self._states[topic_partition] = after
        return after

    def forget(self, topic_partition: TopicPartition) -> None:
        """The log is gone."""
        self._states.pop(topic_partition, None)
        self._pauses.pop(topic_partition, None)
