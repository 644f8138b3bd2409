"""What the driver's reader knows of the cluster, and how it waits for news of it."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from seglog.clients.errors import ClientError, UnknownTopicOrPartitionError
from seglog.clients.session.metadata import KnownTopic
from seglog.clients.sockets.waiting import Waiter
from seglog.clients.spark.offset_maps import Offsets, describe
from seglog.clients.spark.planning import LOG, Planner
from seglog.protocol.types import TopicPartition

_IN_VAIN_MIN: Final = 10
_POLLING_S: Final = 0.05
_WAIT_MS: Final = 100


@dataclass(frozen=True)
class Heads:
    """What the cluster said about the subscribed topics at one moment.

    Attributes:
        topics: by name.
        ends: of the partitions that are read.
    """

    topics: Mapping[str, KnownTopic]
    ends: Offsets

    @property
    def ids(self) -> dict[str, str]:
        """The ids of the topics, in order."""
        return {name: self.topics[name].topic_id.hex() for name in sorted(self.topics)}

    def doubt(self, planner: Planner, written: Offsets, ids: Mapping[str, str]) -> str:
        """Why this looks as if something were lost of what a query has read; "" if it does not.

        A broker that has just started, or one wrong answer, looks the same.

        Args:
            planner: knows the subscription.
            written: how far the query has read.
            ids: of the topics that it has read, as far as known.
        """
        gone = {each for each in set(written) - set(self.ends) if planner.is_subscribed(each)}
        if gone:
            return f"{describe(gone)} does not exist any more"
        other = {name for name, known in self.ids.items() if ids.get(name, known) != known}
        if other:
            return f"topic {describe(other)} has another id than before"
        back = [each for each, end in self.ends.items() if end < written.get(each, 0)]
        if back:
            first = min(back)
            return (
                f"{describe(back)} ends before the records read ({first} at {self.ends[first]}, "
                f"{written[first]} was read)"
            )
        return ""


def settled_heads(planner: Planner, written: Offsets, ids: Mapping[str, str]) -> Heads:
    """Heads that do not look like loss, or still do so after the time for retries.

    Asked before Spark writes down where a micro-batch ends: an end that is too low, once it is in
    the checkpoint, makes every later run begin there.

    Args:
        planner: asks the cluster.
        written: how far the query has read; nothing looks like loss where that is empty.
        ids: of the topics that it has read, as far as known.

    Raises:
        UnknownTopicOrPartitionError: something that is named does not exist and was not read.
        ClientError: no broker answers in that time.
    """
    waiter = Waiter(planner.options.connection)
    has_told = False
    while True:
        heads: Heads | None = None
        topics, partitions = _subscribed(planner, written)
        try:
            heads = Heads(topics, planner.latest(partitions))
            doubt = heads.doubt(planner, written, ids)
            if not doubt:
                return heads
        except UnknownTopicOrPartitionError as error:
            # Deleted between two questions: the first of the next two tells.
            doubt = str(error)
        if not has_told:
            LOG.warning("%s; asking again, since that may pass", doubt)
            has_told = True
        if not waiter.pause():
            if heads is None:
                raise UnknownTopicOrPartitionError(doubt)
            return heads


def _subscribed(
    planner: Planner, written: Offsets
) -> tuple[dict[str, KnownTopic], list[TopicPartition]]:
    """Topics and partitions that are subscribed to and exist; earlier ones may be gone."""
    topics, partitions = {each.topic for each in written}, set(written)
    if not planner.options.fail_on_data_loss:
        # Also partitions that were gone before, so that they are not written down any more.
        subscription = planner.options.subscription
        partitions |= subscription.partitions
        topics |= {*subscription.topics, *(each.topic for each in subscription.partitions)}
    found = planner.topics(may_miss=topics)
    return found, planner.partitions(found, may_miss=partitions)


class Planned(NamedTuple):
    """The state when the end of a batch was decided, until its splits are asked for."""

    start: dict[str, Any]
    end: dict[str, Any]
    topics: Mapping[str, KnownTopic]
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
        """Before the latest offsets are asked for; ``heads`` is the last answer."""
        if time.monotonic() - self._answered_at_s > _POLLING_S:
            self._in_vain = 0
        if heads is None or self._in_vain < _IN_VAIN_MIN:
            return
        try:
            self._planner.wait_for_records(heads.ends, _WAIT_MS)
        except ClientError:
            # The next question for the offsets hears the same, and is where it means something.
            self._in_vain = 0

    def answered(self, *, has_news: bool) -> None:
        """Spark has been told about something new, or that there is nothing."""
        self._in_vain = 0 if has_news else self._in_vain + 1
        self._answered_at_s = time.monotonic()
