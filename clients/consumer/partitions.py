"""The partitions that a consumer reads: begun, given up, and where each of them ends."""

from collections.abc import Collection, Iterable, Mapping

from seglog.clients.cluster import Cluster
from seglog.clients.config import ConsumerConfig
from seglog.clients.consumer.fetcher import Fetcher
from seglog.clients.consumer.starts import End, Nowhere, Offset, Place
from seglog.clients.consumer.state import UNKNOWN, PartitionState
from seglog.clients.consumer.stream import RecordStream
from seglog.clients.errors import ConfigurationError, UnknownTopicOrPartitionError
from seglog.clients.models import OffsetAndMetadata
from seglog.clients.offsets import PartitionLike, TimeSpec, as_partition
from seglog.protocol.types import TopicPartition
from seglog.protocol.wording import count_text

Offsets = Mapping[TopicPartition, OffsetAndMetadata | None]


class PartitionSet:
    """The partitions read now. Belongs to the loop, but for the reader's side of ``stream``.

    Args:
        config: of the consumer.
        cluster: knows topics.
        fetcher: fetches the partitions of the set.
        stream: hands out fetched records.
    """

    def __init__(
        self, config: ConsumerConfig, cluster: Cluster, fetcher: Fetcher, stream: RecordStream
    ) -> None:
        self._cluster = cluster
        self._fetcher = fetcher
        self._stream = stream
        self._timeout_s = config.request_timeout_ms / 1000
        self._topic_ids: dict[str, bytes] = {}
        self.stops_at_end = False
        """Whether reading ends where each partition ended when it was begun."""

    @property
    def states(self) -> dict[TopicPartition, PartitionState]:
        """The partitions and how far each is."""
        return self._fetcher.states

    def state_of(self, partition: PartitionLike) -> PartitionState:
        """How far a partition is; raises ``ConfigurationError`` if it is not read."""
        state = self.states.get(as_partition(partition))
        if state is None:
            raise ConfigurationError(f"{partition} is not read by this consumer")
        return state

    # Beginning and giving up.

    async def begin(
        self, topics: Iterable[str], place: Place, chosen: Mapping[TopicPartition, Place]
    ) -> None:
        """Read whole topics from ``place`` on, and chosen partitions each from its own.

        Raises:
            UnknownTopicOrPartitionError: one does not exist.
        """
        places = dict(chosen)
        for name in topics:
            known = await self._cluster.find_topic(name, self._timeout_s)
            for number in range(known.partition_count):
                places[TopicPartition(name, number)] = place
        states = [PartitionState(partition, place) for partition, place in places.items()]
        await self._fetcher.resolve(states, self._timeout_s)
        for state in states:
            known = await self._cluster.find_topic(state.partition.topic, self._timeout_s)
            if state.partition.partition >= known.partition_count:
                raise UnknownTopicOrPartitionError(
                    f"topic {known.name} has {count_text(known.partition_count, 'partition')}, "
                    f"no {state.partition.partition}"
                )
            self.states[state.partition] = state
            self._topic_ids[known.name] = known.topic_id
        if self.stops_at_end:
            await self._set_ends(self.states)
        self._fetcher.wake()

    async def resume(
        self, offsets: Offsets, place: Place, added: Collection[TopicPartition] = ()
    ) -> None:
        """Read partitions from committed offsets on, and from ``place`` where there is none.

        A partition ``added`` while the application reads begins with its first record.
        """
        await self._cluster.watch({partition.topic for partition in offsets}, self._timeout_s)
        begun: dict[TopicPartition, PartitionState] = {}
        for partition, committed in offsets.items():
            is_added = partition in added and not isinstance(place, Nowhere)
            state = PartitionState(partition, End.EARLIEST if is_added else place)
            begun[partition] = state
            if committed is not None:
                state.begin_at(committed.offset)
        if self.stops_at_end:
            await self._set_ends(begun)
        self.states.update(begun)
        self.see_topics()
        self._fetcher.wake()

    def end(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these no more; their fetched records are thrown away."""
        for partition in partitions:
            state = self.states.pop(partition, None)
            if state is not None:
                state.move_to(Offset(0))
                self._stream.discard(state)

    def go_back(self, places: Iterable[tuple[PartitionState, int]]) -> None:
        """Read partitions again from these offsets on."""
        for state, offset in places:
            self._stream.discard(state)
            state.rewind(offset)
        self._fetcher.wake()

    def pause(self, partition: PartitionLike) -> None:
        """Give out no more of a partition; its fetched records are fetched again later."""
        state = self.state_of(partition)
        if state.is_paused:
            return
        state.is_paused = True
        if state.place is None:
            # Paused in the middle of a loop, its last record may not be done with yet.
            self._stream.settle_all_but_last()
            settled = state.settled
            self.go_back([(state, self._stream.position(state))])
            state.settled = settled

    def unpause(self, partition: PartitionLike) -> None:
        """Go on with a partition that was paused."""
        self.state_of(partition).is_paused = False
        self._fetcher.wake()

    def see_topics(self) -> None:
        """Metadata is new: notice topics that were deleted and made anew since.

        Their offsets begin anew as well: a position of the old topic may well exist in the new
        one, and everything before it would be passed over without a word.
        """
        for name in {partition.topic for partition in self.states}:
            known = self._cluster.topics.get(name)
            if known is None:
                continue
            before = self._topic_ids.setdefault(name, known.topic_id)
            if before == known.topic_id:
                continue
            self._topic_ids[name] = known.topic_id
            for partition, state in self.states.items():
                # One that has no position yet gets one in the new topic.
                if partition.topic == name and state.place is None:
                    state.is_of_old_topic = True
        self._fetcher.wake()

    def follow(self, topics: Iterable[str]) -> None:
        """Metadata is new: read partitions that were added, from their first record."""
        for name in topics:
            known = self._cluster.topics.get(name)
            has_begun = TopicPartition(name, 0) in self.states
            if known is None or not has_begun or self.stops_at_end:
                continue
            for number in range(known.partition_count):
                partition = TopicPartition(name, number)
                if partition not in self.states:
                    self.states[partition] = PartitionState(partition, End.EARLIEST)
            # A topic that was made anew may have fewer.
            self.end(
                [
                    partition
                    for partition in self.states
                    if partition.topic == name and partition.partition >= known.partition_count
                ]
            )
        self._fetcher.wake()

    # How far the application is.

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The next offset of each partition for the application, where that is known."""
        return {
            partition: OffsetAndMetadata(self._stream.position(state))
            for partition, state in self.states.items()
            if state.place is None and state.position != UNKNOWN
        }

    def settled(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The same without what the application may not have done with yet."""
        return {
            partition: OffsetAndMetadata(state.settled)
            for partition, state in self.states.items()
            if state.place is None and state.settled != UNKNOWN
        }

    @property
    def is_caught_up(self) -> bool:
        """Whether the application has all that can be had just now, as far as is known."""
        return all(
            state.is_caught_up or state.is_paused or state.failures
            for state in self.states.values()
        )

    @property
    def is_at_end(self) -> bool:
        """Whether the application has everything up to where it wanted to stop."""
        return all(state.is_at_stop for state in self.states.values())

    # The end at which reading stops.

    async def stop_at_present_end(self) -> None:
        """Let reading end where the partitions end now."""
        self.stops_at_end = True
        await self._set_ends(self.states)

    async def _set_ends(self, states: Mapping[TopicPartition, PartitionState]) -> None:
        ends = await self.ends(states)
        for partition, end in ends.items():
            state = states[partition]
            state.stop_offset = end
            # Where the topic was made anew, or the end was lost, it is out of range.
            state.is_beyond_end = state.place is None and state.position > end

    async def ends(
        self, partitions: Collection[TopicPartition], spec: TimeSpec = "latest"
    ) -> dict[TopicPartition, int]:
        """The offset behind the last readable record of each, or another special one."""
        answers = await self._fetcher.finder.find(dict.fromkeys(partitions, spec), self._timeout_s)
        return {
            partition: answer.offset for partition, answer in answers.items() if answer is not None
        }

    def forget_end(self, *, stops_at_end: bool) -> None:
        """Let reading go on beyond the end that was set."""
        self.stops_at_end = stops_at_end
        for state in self.states.values():
            if state.stop_offset is None:
                continue
            state.stop_offset = None
            if state.place is None:
                # Records fetched beyond the end have been thrown away.
                position = self._stream.position(state)
                state.rewind(position)
                self._stream.discard(state)
        self._fetcher.wake()
