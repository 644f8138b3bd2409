"""What the async and the blocking consumer stand on: the parts of a consumer, put together."""

import asyncio
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from seglog.clients.cluster import Cluster
from seglog.clients.config import ConsumerConfig, ConsumerOptions, make_config
from seglog.clients.consumer.fetcher import Fetcher
from seglog.clients.consumer.partitions import PartitionSet
from seglog.clients.consumer.starts import Start, Subscription, TopicsLike, parse_subscription
from seglog.clients.consumer.state import Chunk
from seglog.clients.consumer.stream import RecordStream
from seglog.clients.errors import ClientClosedError, ConfigurationError
from seglog.protocol.records.kernel import warn_if_slow
from seglog.protocol.records.record import Record

if TYPE_CHECKING:
    # A consumer without a group must not pay for what only groups need.
    from seglog.clients.group.session import GroupSession
    from seglog.clients.group.steps import RebalanceListener

READ_GRACE_S: Final = 0.01
"""How long ``read`` waits for more when it has got all that it knows of: the answer to the next
fetch, which is on its way already, would be there by then."""
CLOSE_TIMEOUT_S: Final = 5.0
"""How long ``close`` takes at most to commit and to leave a group."""


class ConsumerCore:
    """Base of ``AsyncConsumer``, which documents the arguments.

    A reader takes turns: ``poll``, then ``serve_group`` if that says so, else something out of
    ``stream`` or ``read_some``. All but ``poll`` and ``stream`` belong to the loop.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str],
        topics: TopicsLike = (),
        *,
        start: Start | None = None,
        stop_at_end: bool = False,
        listener: "RebalanceListener | None" = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        warn_if_slow()
        self.config = make_config(ConsumerConfig, options)
        self.cluster = Cluster(bootstrap_servers, self.config)
        self.stream = RecordStream(
            check_crcs=self.config.check_crcs,
            max_decompressed_bytes=self.config.max_decompressed_bytes,
            on_consumed=lambda chunk: self._tell_fetcher(Fetcher.consumed, chunk),
            on_broken=lambda chunk: self._tell_fetcher(Fetcher.restart, chunk),
        )
        self.listener = listener
        self.group: GroupSession | None = None
        """The dealings with the group, once there are any."""
        self._subscription = self._parse(topics, start)
        self._stop_at_end = stop_at_end
        self._timeout_s = self.config.request_timeout_ms / 1000
        self._arrived = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread_id = 0
        self._fetcher: Fetcher | None = None
        self._partitions: PartitionSet | None = None
        self._has_begun = False
        self._is_closed = False
        self._is_collecting = False
        self._was_broken_off = False

    def _parse(self, topics: TopicsLike, start: Start | None) -> Subscription:
        config = self.config
        return parse_subscription(
            topics, start, group=config.group, offset_reset=config.offset_reset
        )

    async def start(self) -> Self:
        """Connect, and find out where to begin; idempotent.

        Raises:
            BrokerUnreachableError: none of the bootstrap servers answers; names host and port.
            UnknownTopicOrPartitionError: a topic or partition does not exist.
        """
        await self.cluster.start()
        if self._fetcher is None:
            self._loop = asyncio.get_running_loop()
            self._thread_id = threading.get_ident()
            fetcher = self._fetcher = Fetcher(
                self.config, self.cluster, self._put, self._arrived.set
            )
            self._partitions = PartitionSet(self.config, self.cluster, fetcher, self.stream)
            self._partitions.stops_at_end = self._stop_at_end
            self.cluster.add_listener(self._follow_topics)
            self.cluster.add_failure_listener(self._arrived.set)
            self.cluster.tasks.spawn(fetcher.run(), "seglog-fetcher", is_vital=True)
        if not self._has_begun:
            await self._begin()
        return self

    async def shut(self, timeout_s: float, *, is_done: bool) -> None:
        """Close; ``is_done`` says whether the application has done with all that it was given."""
        self.cluster.check_loop()
        self._is_closed = True
        self._arrived.set()
        if self._is_collecting:
            self.take_back()  # A reader that waits gets an error in the place of what it has.
        if not is_done:
            self.stream.settle_all_but_last()
        try:
            await self._end_session(timeout_s, is_done=is_done)
        finally:
            await self.cluster.close()

    # What a reader does.

    @staticmethod
    def deadline_s(timeout_s: float | None) -> float | None:
        """When a call with this timeout is over, by the clock of the loop."""
        return None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s

    async def read_some(self, max_records: int, deadline_s: float | None) -> list[Record] | None:
        """What ``read`` returns; None if the reader is needed for something else before."""
        if type(max_records) is not int or max_records < 1:
            # A loop that reads until nothing comes would end at once, or never.
            raise ConfigurationError(
                f"max_records={max_records!r}: expected an integer, at least 1"
            )
        self.stream.begin_turn()
        self._is_collecting = True
        try:
            return await self._collect(max_records, deadline_s)
        except BaseException:
            # As a rule it was cancelled: its records would be lost, and committed.
            self.take_back()
            raise
        finally:
            self._is_collecting = False

    async def _collect(self, max_records: int, deadline_s: float | None) -> list[Record] | None:
        records: list[Record] = []
        self.stream.is_iterated = False
        self.stream.take(records, max_records)
        loop = asyncio.get_running_loop()
        while len(records) < max_records and not self.stream.has_error:
            if records and self._was_broken_off:
                break  # Waiting for more would come to nothing each time.
            until_s = deadline_s
            if records and self._started().is_caught_up:
                grace_s = loop.time() + READ_GRACE_S
                until_s = grace_s if until_s is None else min(until_s, grace_s)
            try:
                async with asyncio.timeout_at(until_s):
                    if not await self.wait_for_data():
                        break
            except TimeoutError:
                break
            if self.stream.attention:
                # The given records count as done before anything else happens.
                return records or None
            self.stream.take(records, max_records)
        if records:
            self._was_broken_off = False
        return records

    def take_back(self) -> None:
        """Read again what the last ``read_some`` took: it has not reached the application."""
        places = self.stream.take_back()
        if self._partitions is not None and places:
            self._was_broken_off = True
            self._partitions.go_back(places)

    async def wait_for_data(self) -> bool:
        """Wait until there is something to load or to be done; False when the end is reached."""
        partitions = self._started()
        self.cluster.check_loop()
        group = self.group
        while not self.stream.has_chunks:
            self._check_open()
            if self.stream.attention:
                return True
            if group is None:
                is_all = bool(partitions.states)
            else:
                is_all = group.is_settled and (bool(partitions.states) or partitions.stops_at_end)
            if is_all and partitions.is_at_end:
                return False
            self._arrived.clear()
            if group is None:
                await self._arrived.wait()
            else:
                group.is_waiting = True
                try:
                    await self._arrived.wait()
                finally:
                    group.is_waiting = False
        return True

    def poll(self) -> bool:
        """The application has done with what it was given; returns whether it is needed.

        Then ``serve_group`` is to be called, or its steps one by one; by the reader's thread.
        """
        group = self.group
        if group is None:
            return False
        self.stream.attention = False
        self.stream.settle()
        group.polled()
        return group.needs_reader

    async def serve_group(self) -> None:
        """Give up or greet partitions, and tell the listener.

        Raises:
            ClientError: the membership in the group has ended.
        """
        from seglog.clients.group.steps import tell

        group = self._grouped()
        step = await group.prepare_step()
        if step is None:
            return
        try:
            told = tell(self.listener, step)
            if told is not None:
                await told
        finally:
            await group.finish_step(step)

    # Inner life.

    async def _begin(self) -> None:
        """Read the subscription; after an error, or cancelled, it can be tried again."""
        self._has_begun = False
        partitions = self._started()
        try:
            await self._begin_subscription(partitions)
        except BaseException:
            partitions.end(list(partitions.states))
            await self._end_session(CLOSE_TIMEOUT_S, is_done=False)
            raise
        self._has_begun = True

    async def _begin_subscription(self, partitions: PartitionSet) -> None:
        subscription = self._subscription
        if self.config.group is None:
            chosen = {
                partition: subscription.place if place is None else place
                for partition, place in subscription.partitions.items()
            }
            await partitions.begin(subscription.topics, subscription.place, chosen)
            return
        from seglog.clients.group.session import GroupSession

        group = self.group = GroupSession(
            self.config,
            self.cluster,
            partitions,
            self.stream,
            subscription.place,
            self._arrived.set,
            is_heard=self.listener is not None,
        )
        if subscription.topics or subscription.pattern is not None:
            await group.join(subscription.pattern or subscription.topics)
            return
        placed = {
            partition: place
            for partition, place in subscription.partitions.items()
            if place is not None
        }
        await partitions.begin((), subscription.place, placed)
        await group.resume(subscription.partitions.keys() - placed.keys())

    async def _end_session(self, timeout_s: float, *, is_done: bool) -> None:
        group, self.group = self.group, None
        if group is None:
            return
        try:
            async with asyncio.timeout(timeout_s):
                await group.close(is_done=is_done)
        except TimeoutError:
            self.cluster.warn(
                "consumer: group %s not left within %.3g s: its session decides",
                self.config.group,
                timeout_s,
            )

    def _follow_topics(self) -> None:
        """Metadata is new."""
        if self._partitions is None:
            return
        self._partitions.see_topics()
        if self.group is not None:
            self.group.see_metadata()
        else:
            self._partitions.follow(self._subscription.topics)

    def _put(self, chunk: Chunk) -> None:
        self.stream.put(chunk)
        self._arrived.set()

    def _tell_fetcher(self, method: Any, chunk: Chunk) -> None:
        fetcher, loop = self._fetcher, self._loop
        if fetcher is None or loop is None or loop.is_closed():
            return
        if threading.get_ident() == self._thread_id:
            method(fetcher, chunk)
        else:
            loop.call_soon_threadsafe(method, fetcher, chunk)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientClosedError("the consumer is closed")
        if self.cluster.failure:
            raise ClientClosedError(self.cluster.failure)

    def _fetching(self) -> Fetcher:
        self._check_open()
        if self._fetcher is None:
            raise ClientClosedError("the consumer is not started")
        return self._fetcher

    def _started(self) -> PartitionSet:
        self._check_open()
        if self._partitions is None:
            raise ClientClosedError("the consumer is not started")
        return self._partitions

    def _grouped(self) -> "GroupSession":
        self._started()
        if self.group is None:
            raise ConfigurationError("the consumer has no group: give it one by group=")
        return self.group
