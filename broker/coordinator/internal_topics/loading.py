"""TopicLoader: has an internal topic read back after a start, partition by partition.

Until its partition is read a key is answered with COORDINATOR_LOAD_IN_PROGRESS, which clients
retry. What a partition says is taken over by the owner of the state, on the event loop.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from seglog.broker.coordinator.internal_topics.reading import TopicReplay, read_partition
from seglog.broker.coordinator.internal_topics.topic import InternalTopic
from seglog.broker.errors import RequestError
from seglog.broker.requests.services import Services
from seglog.broker.storage.errors import StorageError
from seglog.protocol.errors import ErrorCode

ReplayT = TypeVar("ReplayT", bound=TopicReplay)


class TopicLoader(Generic[ReplayT]):
    """Reads one internal topic.

    Args:
        services: of the broker.
        topic: the topic.
        new_replay: makes what a partition of this name is read into.
        take_over: takes the state over that a partition was read into.
        not_loaded: told of a partition that could not be read; its keys are not served.
    """

    def __init__(
        self,
        services: Services,
        topic: InternalTopic,
        new_replay: Callable[[str], ReplayT],
        take_over: Callable[[ReplayT], None],
        not_loaded: Callable[[int, StorageError], None],
    ) -> None:
        self._services = services
        self._topic = topic
        self._new_replay = new_replay
        self._take_over = take_over
        self._not_loaded = not_loaded
        self._unread: set[int] = set()
        self._lost: set[int] = set()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_loading(self) -> bool:
        """Whether some partitions are still to be read."""
        return bool(self._unread)

    def check(self, key: str) -> None:
        """Check whether the state of a key is known.

        Raises:
            RequestError: COORDINATOR_LOAD_IN_PROGRESS or COORDINATOR_NOT_AVAILABLE.
        """
        if not (self._unread or self._lost):
            return
        partition = self._topic.partition_of(key)
        if partition in self._unread:
            raise RequestError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                f"partition {partition} of {self._topic.name} is being read",
            )
        if partition in self._lost:
            raise RequestError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"partition {partition} of {self._topic.name} could not be read",
            )

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Find the partitions to read, and begin with them; those without records are done at once.

        Args:
            work: calls ``load``, with the work before and after it.
        """
        for number in range(self._topic.partition_count):
            partition = self._services.partitions.find(self._topic.name, number)
            if partition is None:
                self._lost.add(number)
            elif partition.log.offsets.log_end > partition.log.offsets.log_start:
                self._unread.add(number)
        self._task = asyncio.get_running_loop().create_task(work())

    async def load(self, buffer_bytes: int) -> None:
        """Read every partition that is to be read, this many bytes at a time."""
        for number in sorted(self._unread):
            try:
                await self._load(number, buffer_bytes)
            except StorageError as error:
                self._lost.add(number)
                self._not_loaded(number, error)
            finally:
                self._unread.discard(number)

    async def loaded(self) -> None:
        """Wait until everything is known that can be."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def stop(self) -> None:
        """Read no further."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _load(self, number: int, buffer_bytes: int) -> None:
        services = self._services
        partition = services.partitions.find(self._topic.name, number)
        if partition is None:
            self._lost.add(number)
            return
        replay = self._new_replay(str(partition.topic_partition))
        await read_partition(partition, services.workers.background, buffer_bytes, replay)
        self._take_over(replay)
