"""What the operations of a broker stand on."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from seglog.broker.cleaning.log_cleaner import LogCleaner
from seglog.broker.partition.background import BackgroundWork
from seglog.broker.partition.counters import BrokerCounters
from seglog.broker.partition.deferred_reads import DeferredReads, read_pools
from seglog.broker.partition.registry import PartitionRegistry
from seglog.broker.partition.topic_lifecycle import TopicLifecycle
from seglog.broker.requests.admission import TransactionAdmission
from seglog.broker.requests.context import Pending, ResponseT
from seglog.broker.runtime.broker_workers import Workers
from seglog.broker.runtime.clock import Clock
from seglog.broker.runtime.workers import on_loop
from seglog.broker.storage.directories.log_manager import LogManager
from seglog.broker.storage.directories.topic_catalog import TopicCatalog
from seglog.broker.storage.errors import StorageError
from seglog.config import BrokerConfig

ConfigListener = Callable[[BrokerConfig], None]


@dataclass
class Services:
    """The parts of one broker above its logs; ``build`` puts them together.

    Attributes:
        config: the broker's configuration as it is now; ``change_config`` replaces it.
        config_listeners: told of a new configuration, to take over the parts that they keep.
        changing: held by a change of topics or configurations, from the first check to the end.
        deferred_reads: has done what reads wait for.
        works: what ``begin`` has started and is not finished.
        cleaner: compacts logs; None where ``log.cleaner.enable`` is false.
        admission: admits records of transactions; None without a coordinator.
    """

    config: BrokerConfig
    clock: Clock
    logs: LogManager
    catalog: TopicCatalog
    workers: Workers
    counters: BrokerCounters
    partitions: PartitionRegistry
    topics: TopicLifecycle
    background: BackgroundWork
    deferred_reads: DeferredReads
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)
    config_listeners: list[ConfigListener] = field(default_factory=list)
    works: "set[asyncio.Task[Any]]" = field(default_factory=set)
    cleaner: LogCleaner | None = None
    admission: TransactionAdmission | None = None

    @classmethod
    def build(
        cls,
        config: BrokerConfig,
        clock: Clock,
        logs: LogManager,
        catalog: TopicCatalog,
        workers: Workers,
        on_no_directory_left: Callable[[StorageError], None],
    ) -> "Services":
        """Put everything together over logs that are loaded.

        Args:
            config: with what the catalog says of it.
            on_no_directory_left: called when the last data directory has failed.
        """
        logs.failures.hand_over = on_loop(asyncio.get_running_loop())
        catalog.run_each = workers.directories.run_each
        counters = BrokerCounters()
        partitions = PartitionRegistry(
            logs, counters, workers.directories.sync, on_no_directory_left
        )
        topics = TopicLifecycle(catalog, logs, partitions, workers, clock)
        background = BackgroundWork(logs, partitions, workers, clock)
        return cls(
            config,
            clock,
            logs,
            catalog,
            workers,
            counters,
            partitions,
            topics,
            background,
            DeferredReads(read_pools(logs, workers.directories)),
        )

    def begin(
        self, work: Coroutine[Any, Any, ResponseT], *, holds_input: bool
    ) -> Pending[ResponseT]:
        """Do something that takes time; it is finished even if the client goes away meanwhile.

        A topic must not stay half created because a connection broke, and a batch that has arrived
        is appended.
        """
        task = asyncio.get_running_loop().create_task(work)
        self.works.add(task)
        task.add_done_callback(self.works.discard)
        return Pending(asyncio.shield(task), holds_input=holds_input)

    async def finish_works(self, deadline_seconds: float) -> bool:
        """Wait for begun work, before the broker stops; False if the deadline passed first."""
        if not self.works:
            return True
        _, late = await asyncio.wait(set(self.works), timeout=deadline_seconds)
        return not late

    @property
    def cluster_id(self) -> str:
        """As the data directories have it."""
        return self.logs.cluster_id

    @property
    def node_id(self) -> int:
        """As the data directories have it."""
        return self.logs.node_id

    def change_config(self, config: BrokerConfig) -> None:
        """Put a new broker configuration into force, everywhere."""
        self.config = config
        self.logs.update_config(config, self.catalog)
        self.partitions.settings_changed()
        for listener in self.config_listeners:
            listener(config)
