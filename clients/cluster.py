"""The brokers and topics as a client knows them, and the way to ask a broker.

Metadata is kept for watched topics and refreshed in the background. A refresh
never asks the broker to create a topic; only ``find_topic(create=True)`` does, once, for a send.
Belongs to one loop; any thread may read ``topics`` and its contents: it is replaced as a
whole and never changed.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from seglog.clients.asking import BrokerAccess
from seglog.clients.config import ClientConfig
from seglog.clients.errors import (
    ClientClosedError,
    ClientError,
    MetadataTimeoutError,
    UnknownTopicOrPartitionError,
)
from seglog.clients.session.metadata import KnownTopic, error_about
from seglog.clients.session.retrying import UNKNOWN_TOPIC_GRACE_S, LimitedLogger
from seglog.clients.tasks import TaskSet
from seglog.protocol.api import MetadataRequest, MetadataResponse
from seglog.protocol.types import TopicPartition

_logger = logging.getLogger("seglog.clients")


class Cluster(BrokerAccess):
    """Metadata cache and connections of one client.

    Args:
        bootstrap_servers: where to ask first.
        config: timeouts and pauses.
    """

    def __init__(self, bootstrap_servers: str | Iterable[str], config: ClientConfig) -> None:
        super().__init__(bootstrap_servers, config, TaskSet(self.fail))
        self.failure = ""
        """Why the client cannot go on, if that is so."""
        self._watched: set[str] = set()
        self._finding: dict[str, asyncio.Lock] = {}
        self._listeners: list[Callable[[], object]] = []
        self._failure_listeners: list[Callable[[], object]] = []
        self._is_started = False
        self._trouble: LimitedLogger | None = None

    def __reduce__(self) -> str | tuple[Any, ...]:
        # Frameworks pickle what a function refers to, to run it in another process.
        raise TypeError(
            "a client cannot be pickled: it holds connections; make one in the process that uses it"
        )

    async def start(self) -> None:
        """Ask the first broker that answers for the others; idempotent.

        Raises:
            BrokerUnreachableError: none of the bootstrap servers; names the last one.
        """
        if self._is_closed:
            raise ClientClosedError("the client is closed")
        self.check_loop()
        if self._is_started:
            return
        self._loop = asyncio.get_running_loop()
        timeout_s = self.config.request_timeout_ms / 1000
        self._learn(await self._ask_anyone(MetadataRequest(topics=[]), timeout_s), [])
        self._is_started = True
        self.tasks.spawn(self._refresh_forever(), "seglog-metadata", is_vital=True)

    async def close(self) -> None:
        """Close the connections and end the background tasks; idempotent."""
        self._is_closed = True
        self.close_connections("the client is closed")
        await self.tasks.cancel_all()

    def fail(self, reason: str) -> None:
        """Something without which the client cannot go on has ended."""
        if self._is_closed or self.failure:
            return
        self.failure = f"the client has failed: {reason}"
        for listener in self._failure_listeners:
            listener()

    def warn(self, message: str, *values: object) -> None:
        """Log a trouble that goes on by itself; all troubles of a client share one limit."""
        if self._trouble is None:
            self._trouble = LimitedLogger(_logger, asyncio.get_running_loop().time)
        self._trouble.warning(message, *values)

    # Knowing topics.

    @property
    def topics(self) -> Mapping[str, KnownTopic]:
        """The topics that are watched, as far as they are known; from any thread."""
        return self.metadata.topics

    @property
    def learned(self) -> int:
        """How many times brokers have said what there is."""
        return self.metadata.learned

    def add_listener(self, listener: Callable[[], object]) -> None:
        """Call ``listener`` whenever the metadata has changed or been confirmed."""
        self._listeners.append(listener)

    def add_failure_listener(self, listener: Callable[[], object]) -> None:
        """Call ``listener`` when the client cannot go on; ``failure`` says why."""
        self._failure_listeners.append(listener)

    def leader_of(self, partition: TopicPartition) -> int | None:
        """Id of the broker that leads a partition, None while that is not known."""
        return self.metadata.leader_of(partition)

    def unwatch(self, topics: Iterable[str]) -> None:
        """These topics are not needed any more."""
        gone = frozenset(topics)
        self._watched -= gone
        self.metadata.forget(gone)

    async def find_topic(self, name: str, timeout_s: float, *, create: bool = False) -> KnownTopic:
        """Return a topic, and watch it from now on.

        Args:
            name: of the topic.
            timeout_s: how long to try.
            create: let the broker create it, if it is set up to do so.

        Raises:
            UnknownTopicOrPartitionError: it does not exist.
            MetadataTimeoutError: no broker said anything about it in time.
        """
        if (known := self.topics.get(name)) is not None:
            return known
        self.check_loop()
        lock = self._finding.setdefault(name, asyncio.Lock())
        last_error: list[ClientError] = []
        try:
            async with asyncio.timeout(timeout_s), lock:
                return await self._find_topic(name, create, last_error)
        except TimeoutError as error:
            reason = f": {last_error[-1]}" if last_error else ""
            raise MetadataTimeoutError(
                f"topic {name} not known after {timeout_s:.3g} s{reason}"
            ) from error
        finally:
            if not lock.locked():
                self._finding.pop(name, None)

    async def _find_topic(
        self, name: str, create: bool, last_error: list[ClientError]
    ) -> KnownTopic:
        loop = asyncio.get_running_loop()
        believed_at_s = loop.time() + UNKNOWN_TOPIC_GRACE_S
        attempt = 0
        while (known := self.topics.get(name)) is None:
            attempt += 1
            request = MetadataRequest(topics=[name], allow_auto_topic_creation=create)
            try:
                response = await self._ask_anyone(request, self.config.request_timeout_ms / 1000)
                self._learn(response, [name])
                error = error_about(response, name)
            except ClientError as failure:
                error = failure
            if error is not None:
                last_error.append(error)
                is_unknown = isinstance(error, UnknownTopicOrPartitionError)
                if not error.retriable or (is_unknown and loop.time() >= believed_at_s):
                    raise error
                if not is_unknown:
                    self.warn("looking for topic %s: %s", name, error)
            if name not in self.topics:
                await asyncio.sleep(self.backoff.delay_s(attempt))
        self._watched.add(name)
        return known

    async def watch(self, names: Iterable[str], timeout_s: float) -> None:
        """Keep the metadata of these topics up to date from now on; they need not exist yet.

        Raises:
            ClientTimeoutError, BrokerConnectionError: they could not be asked for in time.
        """
        added = frozenset(names) - self._watched
        if not added:
            return
        self._watched |= added
        request = MetadataRequest(topics=sorted(added), allow_auto_topic_creation=False)
        self._learn(await self.retry(request, timeout_s), sorted(added))

    async def refresh(self, timeout_s: float) -> None:
        """Ask for the watched topics and take over what comes back."""
        names = sorted(self._watched)
        request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
        self._learn(await self._ask_anyone(request, timeout_s), names)

    async def _refresh_forever(self) -> None:
        attempt = 0
        while True:
            pause_s = self.config.metadata_max_age_ms / 1000
            try:
                async with asyncio.timeout(pause_s):
                    await self._refresh_due.wait()
            except TimeoutError:
                pass
            self._refresh_due.clear()
            try:
                await self.refresh(self.config.request_timeout_ms / 1000)
                attempt = 0
            except ClientError as error:
                self.warn("metadata: %s; trying again", error)
                self._refresh_due.set()
            attempt += 1
            # Also after success: a caller that finds the metadata unfit asks again at once, in a
            # circle.
            await asyncio.sleep(self.backoff.delay_s(attempt))

    def _learn(self, response: MetadataResponse, asked: list[str]) -> None:
        self.metadata.learn(response, asked)
        for listener in self._listeners:
            listener()
