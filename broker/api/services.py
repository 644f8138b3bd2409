"""What the operations of a broker stand on."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from seglog.broker.metrics.counters import BrokerCounters
from seglog.broker.partition.background import BackgroundWork
from seglog.broker.partition.registry import PartitionRegistry
from seglog.broker.partition.topic_lifecycle import TopicLifecycle
from seglog.broker.runtime.clock import Clock
from seglog.broker.runtime.workers import Workers
from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.log_manager import LogManager
from seglog.broker.storage.topic_catalog import TopicCatalog
from seglog.config import BrokerConfig

ConfigListener = Callable[[BrokerConfig], None]


@dataclass
class Services:
    """The parts of one broker above its logs; ``build`` puts them together.

    Attributes:
        config: the broker's configuration as it is now; ``change_config`` replaces it.
        config_listeners: told of a new configuration, to take over the parts that they keep.
        changing: held by whoever changes topics or configurations, from the first check to the end.
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
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)
    config_listeners: list[ConfigListener] = field(default_factory=list)

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
        counters = BrokerCounters()
        partitions = PartitionRegistry(logs, counters, workers.sync, on_no_directory_left)
        topics = TopicLifecycle(catalog, logs, partitions, workers.changes, clock)
        background = BackgroundWork(logs, partitions, workers, clock)
        return cls(config, clock, logs, catalog, workers, counters, partitions, topics, background)

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
        for listener in self.config_listeners:
            listener(config)
