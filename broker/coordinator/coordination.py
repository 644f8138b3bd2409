"""Coordination: groups, their offsets, producer ids and transactions, put together and offered.

coordination = Coordination(services, scheduler)
coordination.register(handlers)
coordination.start()          begin to read stored state, schedule periodic work
...
await coordination.stop()     answer all waiting requests; before scheduler and workers stop
"""

import logging
from typing import Final

from seglog.broker.coordinator.groups.coordinator import GroupCoordinator
from seglog.broker.coordinator.groups.offset_expiry import OffsetExpiry
from seglog.broker.coordinator.groups.offsets import GroupOffsets
from seglog.broker.coordinator.groups.operations import (
    DeleteGroupsOperation,
    DescribeGroupsOperation,
    ListGroupsOperation,
)
from seglog.broker.coordinator.groups.store import OffsetStore
from seglog.broker.coordinator.groups.table import GroupTable
from seglog.broker.coordinator.transactions.operations import (
    DescribeTransactionsOperation,
    ListTransactionsOperation,
    WriteTxnMarkersOperation,
)
from seglog.broker.coordinator.transactions.producers import (
    DescribeProducersOperation,
    InitProducerIdOperation,
)
from seglog.broker.coordinator.transactions.transactions import Transactions
from seglog.broker.requests.context import RequestContext
from seglog.broker.requests.handlers import Handlers
from seglog.broker.requests.services import Services
from seglog.broker.runtime.scheduler import Scheduler
from seglog.config import BrokerConfig
from seglog.protocol import api
from seglog.protocol.api import (
    Coordinator,
    CoordinatorType,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from seglog.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

OFFSET_EXPIRY_TASK: Final = "delete-expired-group-metadata"
PRODUCER_EXPIRY_TASK: Final = "producer-expiration"


class FindCoordinatorOperation:
    """Answers find-coordinator requests: the only broker coordinates groups and transactions."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(
        self, request: FindCoordinatorRequest, context: RequestContext
    ) -> FindCoordinatorResponse:
        """Name this broker, where the listener that was asked is reached."""
        node_id = self._services.node_id
        if request.key_type in (CoordinatorType.GROUP, CoordinatorType.TRANSACTION):
            return FindCoordinatorResponse(
                [Coordinator(key, node_id, context.host, context.port) for key in request.keys]
            )
        message = (
            f"this broker coordinates groups and transactions, not keys of type "
            f"{int(request.key_type)}"
        )
        return FindCoordinatorResponse(
            [
                Coordinator(key, error=ErrorCode.INVALID_REQUEST, error_message=message)
                for key in request.keys
            ]
        )


class Coordination:
    """Everything that the broker coordinates.

    Args:
        services: of the broker, with its logs loaded.
        scheduler: for deadlines and for what comes round.

    Attributes:
        groups: every group, for collectors of metrics.
        transactions: likewise.
        expired_producers: how many producers were forgotten because they were silent too long.
    """

    def __init__(self, services: Services, scheduler: Scheduler) -> None:
        self.expired_producers = 0
        self._services = services
        self._scheduler = scheduler
        self._store = OffsetStore(services)
        self.groups = GroupTable(services, self._store)
        self._coordinator = GroupCoordinator(services, scheduler, self.groups, self._store)
        self.transactions = Transactions(services, scheduler, self._store)
        self._offsets = GroupOffsets(
            services, self.groups, self._store, self.transactions.additions
        )
        self.transactions.markers.offsets_listener = self._offsets.transaction_ended
        self._expiry = OffsetExpiry(services, self.groups, self._coordinator)
        services.admission = self.transactions.additions
        services.topics.deletion_listeners.append(self._expiry.topic_deleted)
        services.config_listeners.append(self._config_changed)

    def register(self, handlers: Handlers) -> None:
        """Offer every operation of groups and producers."""
        services = self._services
        coordinator, offsets = self._coordinator, self._offsets
        for request_type, operation in (
            (api.FindCoordinatorRequest, FindCoordinatorOperation(services).handle),
            (api.JoinGroupRequest, coordinator.join),
            (api.SyncGroupRequest, coordinator.sync),
            (api.HeartbeatRequest, coordinator.heartbeat),
            (api.LeaveGroupRequest, coordinator.leave),
            (api.OffsetCommitRequest, offsets.commit),
            (api.OffsetFetchRequest, offsets.fetch),
            (api.OffsetDeleteRequest, offsets.delete),
            (api.ListGroupsRequest, ListGroupsOperation(self.groups).handle),
            (api.DescribeGroupsRequest, DescribeGroupsOperation(self.groups).handle),
            (api.DeleteGroupsRequest, DeleteGroupsOperation(services, coordinator).handle),
            (api.TxnOffsetCommitRequest, offsets.transactional_commit),
            (api.DescribeProducersRequest, DescribeProducersOperation(services).handle),
        ):
            handlers.register(request_type, operation)
        self._register_transactions(handlers)

    def _register_transactions(self, handlers: Handlers) -> None:
        services, transactions = self._services, self.transactions
        additions, coordinator = transactions.additions, transactions.coordinator
        table = transactions.table
        init = InitProducerIdOperation(services, transactions.producer_ids, coordinator)
        for request_type, operation in (
            (api.InitProducerIdRequest, init.handle),
            (api.AddPartitionsToTxnRequest, additions.add_partitions),
            (api.AddOffsetsToTxnRequest, additions.add_offsets),
            (api.EndTxnRequest, coordinator.end),
            (
                api.WriteTxnMarkersRequest,
                WriteTxnMarkersOperation(services, transactions.markers).handle,
            ),
            (api.DescribeTransactionsRequest, DescribeTransactionsOperation(table).handle),
            (api.ListTransactionsRequest, ListTransactionsOperation(services, table).handle),
        ):
            handlers.register(request_type, operation)

    def start(self) -> None:
        """Begin to read stored state, and schedule expiry."""
        self.groups.start()
        self.transactions.start(self.groups.loaded)
        config = self._services.config
        for name, task, period_ms in (
            (OFFSET_EXPIRY_TASK, self._expiry.expire, config.offsets_retention_check_interval_ms),
            (
                PRODUCER_EXPIRY_TASK,
                self._expire_producers,
                config.producer_id_expiration_check_interval_ms,
            ),
        ):
            self._scheduler.schedule(name, task, period_ms, period_ms)

    @property
    def remembered_producers(self) -> int:
        """How many producers the partitions remember, each counted where it has written."""
        return sum(len(each.log.producer_state) for each in self._services.partitions.all())

    def send_away(self) -> None:
        """The broker is about to stop: answer all requests that wait for others."""
        self._coordinator.send_away()

    async def stop(self, deadline_seconds: float) -> None:
        """Be of no further use; writes that have begun come to their end, if that is soon."""
        await self.transactions.stop(deadline_seconds)
        await self.groups.stop()
        await self._coordinator.stop(deadline_seconds)
        await self._store.stop(deadline_seconds)

    async def _expire_producers(self) -> None:
        """The task: forget producers that have been silent for ``producer.id.expiration.ms``."""
        now_ms = self._services.clock.time_ms()
        expired = 0
        for partition in list(self._services.partitions.all()):
            expired += partition.log.producer_state.expire(now_ms)
        self.expired_producers += expired
        if expired:
            logger.info("event=producers-expired count=%d", expired)

    def _config_changed(self, config: BrokerConfig) -> None:
        for partition in self._services.partitions.all():
            partition.log.producer_state.expiration_ms = config.producer_id_expiration_ms
