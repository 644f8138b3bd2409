"""A consumer's dealings with its group: membership, steps of rebalances, commits. For the loop."""

import asyncio
import re
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from seglog.clients.cluster import Cluster
from seglog.clients.config import ConsumerConfig
from seglog.clients.coordinator import CoordinatorClient
from seglog.clients.errors import ClientError
from seglog.clients.group.commits import Member, OffsetCommits, Offsets
from seglog.clients.group.heartbeats import Heartbeats
from seglog.clients.group.membership import Membership
from seglog.clients.group.steps import Step, StepKind
from seglog.clients.group.topics import SubscribedTopics, Wanted
from seglog.clients.models import GroupMetadata, OffsetAndMetadata
from seglog.clients.tasks import TaskSet
from seglog.protocol.types import TopicPartition

if TYPE_CHECKING:
    from seglog.clients.consumer.partitions import PartitionSet
    from seglog.clients.consumer.starts import Place
    from seglog.clients.consumer.stream import RecordStream

LAST_COMMIT_TIMEOUT_S: Final = 5.0
"""How long giving up partitions waits for the commit of their finished records."""


class GroupSession:
    """One subscription of a consumer in its group, from ``start`` to ``close``.

    Args:
        config: of the consumer.
        cluster: connections and metadata.
        partitions: the partitions that are read.
        stream: how far the application is.
        place: where to begin where nothing is committed.
        notify: called when a reader that waits has to look again.
        is_heard: whether a listener wants to be told about new partitions.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        cluster: Cluster,
        partitions: "PartitionSet",
        stream: "RecordStream",
        place: "Place",
        notify: Callable[[], object],
        *,
        is_heard: bool,
    ) -> None:
        assert config.group is not None
        self.is_waiting = False
        """Whether the application waits for records right now."""
        self._config = config
        self._cluster = cluster
        self._partitions = partitions
        self._stream = stream
        self._place = place
        self._notify = notify
        self._is_heard = is_heard
        self._coordinator = CoordinatorClient(cluster, config.group)
        self._topics: SubscribedTopics | None = None
        self._membership: Membership | None = None
        self._commits = OffsetCommits(self._coordinator, Member())
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._tasks = TaskSet(cluster.fail)
        self._polls = 0
        self._timeout_s = config.request_timeout_ms / 1000

    async def join(self, wanted: Wanted) -> None:
        """Become a member that reads its share of these topics; that goes on in the background.

        Raises:
            UnknownTopicOrPartitionError: one that was named does not exist.
        """
        topics = self._topics = SubscribedTopics(self._cluster, wanted)
        await topics.find()
        membership = self._membership = Membership(
            self._config, self._coordinator, topics, self, is_heard=self._is_heard
        )
        self._commits = OffsetCommits(self._coordinator, membership)
        heartbeats = Heartbeats(self._config, self._coordinator, membership, self)
        self._tasks.spawn(membership.run(), "seglog-group", is_vital=True)
        self._tasks.spawn(heartbeats.run(), "seglog-heartbeats", is_vital=True)
        if isinstance(wanted, re.Pattern):
            self._tasks.spawn(
                self._follow_pattern(topics, membership), "seglog-topics", is_vital=True
            )
        self._commit_regularly()

    async def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Read these partitions from the committed offsets on, without being a member."""
        if partitions:
            await self.begin(partitions, self._timeout_s)
        self._commit_regularly()

    async def close(self, *, is_done: bool) -> None:
        """Commit finished records, if commits are automatic, and leave the group.

        Args:
            is_done: whether it has done with everything that it was given.
        """
        await self._tasks.cancel_all()
        if self._config.auto_commit:
            offsets = self._partitions.positions() if is_done else self._partitions.settled()
            await self._commit_quietly(offsets, self._timeout_s)
        if self._membership is not None:
            await self._membership.leave()

    # What the membership needs.

    @property
    def owned(self) -> Collection[TopicPartition]:
        """The partitions that are read."""
        return self._partitions.states.keys()

    @property
    def progress(self) -> object:
        """Differs from what it was before if the application has read on."""
        return self._polls, self._stream.progress

    def call(self) -> None:
        """Ask the reader to come and take the next step."""
        self._stream.attention = True
        self._notify()

    async def begin(self, partitions: Collection[TopicPartition], timeout_s: float) -> None:
        """Read these too, from the committed offsets."""
        offsets = await self._commits.fetch(partitions, timeout_s)
        # Its producers know an added partition before its readers do: a reader that begins at its
        # end would lose the records sent meanwhile.
        topics = self._topics
        added = [each for each in partitions if topics is not None and topics.is_added(each)]
        await self._partitions.resume(offsets, self._place, added)
        self._notify()

    # What the reader needs.

    def polled(self) -> None:
        """The application reads on; by its thread."""
        self._polls += 1

    @property
    def needs_reader(self) -> bool:
        """Whether there is a step to be done, or an error to be raised."""
        membership = self._membership
        return membership is not None and (
            membership.step is not None or membership.error is not None
        )

    @property
    def is_settled(self) -> bool:
        """Whether the reader has all the partitions that it will get for now."""
        return self._membership is None or (self._membership.is_settled and not self.needs_reader)

    async def prepare_step(self) -> Step | None:
        """What the reader is to tell the listener now, if anything; then ``finish_step``.

        Raises:
            ClientError: the membership has ended.
        """
        membership = self._membership
        if membership is None:
            return None
        if membership.error is not None:
            raise membership.error
        step = membership.step
        if step is not None and step.kind is StepKind.REVOKED:
            if self._config.auto_commit and not membership.has_lost_partitions:
                await self._commit_quietly(self._partitions.settled(), LAST_COMMIT_TIMEOUT_S)
            if membership.has_lost_partitions:
                step.kind = StepKind.LOST
        return step

    async def finish_step(self, step: Step) -> None:
        """The listener has been told: carry it out, and let the membership go on."""
        if step.kind is not StepKind.ASSIGNED:
            self._partitions.end(step.partitions)
            for partition in step.partitions:
                self._committed.pop(partition, None)
        if self._membership is not None:
            self._membership.finish(step)

    # Offsets.

    def metadata(self) -> GroupMetadata:
        """The identity for commits of this consumer; raises ``CommitFailedError`` without one."""
        assert self._config.group is not None
        if self._membership is None:
            return GroupMetadata(self._config.group)
        return GroupMetadata(self._config.group, *self._membership.standing())

    async def commit(self, offsets: Offsets, timeout_s: float) -> None:
        """Store offsets; raises what ``OffsetCommits.commit`` does."""
        await self._commits.commit(offsets, timeout_s)
        self._committed.update(offsets)

    async def committed(
        self, partitions: Collection[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Read offsets."""
        return await self._commits.fetch(partitions, timeout_s)

    def _commit_regularly(self) -> None:
        if self._config.auto_commit:
            self._tasks.spawn(self._keep_committing(), "seglog-commit", is_vital=True)

    async def _keep_committing(self) -> None:
        while True:
            await asyncio.sleep(self._config.auto_commit_interval_ms / 1000)
            membership = self._membership
            if membership is None or membership.identity is not None:
                await self._commit_quietly(self._partitions.settled(), self._timeout_s)
            # A reader in the middle of a long batch tells how far it has come.
            self._stream.attention = True

    async def _commit_quietly(self, offsets: Offsets, timeout_s: float) -> None:
        changed = {
            partition: each
            for partition, each in offsets.items()
            if self._committed.get(partition) != each
        }
        if not changed:
            return
        try:
            await self.commit(changed, timeout_s)
        except ClientError as error:
            self._cluster.warn("consumer: offsets not committed: %s", error)

    # Topics.

    def see_metadata(self) -> None:
        """Metadata is new."""
        if self._membership is not None:
            self._membership.see_metadata()

    async def _follow_pattern(self, topics: SubscribedTopics, membership: Membership) -> None:
        while True:
            await asyncio.sleep(self._config.metadata_max_age_ms / 1000)
            try:
                has_changed = await topics.look_again()
            except ClientError as error:
                self._cluster.warn("consumer: topics: %s; trying again", error)
            else:
                if has_changed:
                    membership.rebalance("other topics match")
