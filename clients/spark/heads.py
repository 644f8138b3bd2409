"""What the driver's reader knows of the cluster, and how it waits for news of it."""

import time
from typing import Any, Final, NamedTuple

from seglog.clients.errors import ClientError
from seglog.clients.spark.cluster import Topic
from seglog.clients.spark.offset_maps import Offsets
from seglog.clients.spark.planning import Planner

_IN_VAIN_MIN: Final = 10
_POLLING_S: Final = 0.05
_WAIT_MS: Final = 100


class Heads:
    """What the cluster said about the subscribed topics at one moment."""

    def __init__(self, planner: Planner) -> None:
        self.topics: dict[str, Topic] = planner.topics()
        self.ends: Offsets = planner.latest(planner.partitions(self.topics))

    @property
    def ids(self) -> dict[str, str]:
        """The ids of the topics, in order."""
        return {name: self.topics[name].topic_id.hex() for name in sorted(self.topics)}


class Planned(NamedTuple):
    """What was known when the end of a batch was decided, until its splits are asked for."""

    start: dict[str, Any]
    end: dict[str, Any]
    topics: dict[str, Topic]
    earliest: Offsets


class IdleWait:
    """Lets an idle query wait for records instead of asking for the latest offsets all the time.

    Without a trigger interval Spark asks again 10 ms after each answer that had nothing new. Once
    that has happened some times in a row, the broker is asked to tell when something is written,
    which takes less time than the pause between two questions; without news it answers soon enough
    that Spark, which holds a lock meanwhile, can be told to stop or to process all that there is.

    Args:
        planner: asks the cluster.
    """

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._in_vain = 0
        self._answered_at_s = float("-inf")

    def wait(self, heads: Heads | None) -> None:
        """Before the latest offsets are asked for; ``heads`` is what was heard last."""
        if time.monotonic() - self._answered_at_s > _POLLING_S:
            self._in_vain = 0
        if heads is None or self._in_vain < _IN_VAIN_MIN:
            return
        try:
            self._planner.wait_for_records(heads.ends, _WAIT_MS)
        except ClientError:
            # Whoever asks for the offsets next hears the same, and knows what it means.
            self._in_vain = 0

    def answered(self, *, has_news: bool) -> None:
        """Spark has been told about something new, or that there is nothing."""
        self._in_vain = 0 if has_news else self._in_vain + 1
        self._answered_at_s = time.monotonic()
