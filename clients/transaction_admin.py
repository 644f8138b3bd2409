"""Requests of tools about transactions, and the end of hanging ones."""

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Final

from seglog.clients.cluster import Cluster
from seglog.clients.coordinator import CoordinatorClient, patiently
from seglog.clients.errors import UnknownTopicOrPartitionError, broker_error
from seglog.clients.models import OpenTransaction, TransactionInfo
from seglog.clients.offsets import PartitionLike, as_partition
from seglog.protocol.api import (
    CoordinatorType,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersResult,
    DescribeTransactionsRequest,
    InitProducerIdRequest,
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
    MetadataRequest,
    MetadataResponse,
    TransactionEnd,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import NO_OFFSET, TopicPartition

_UNDER_WAY: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")


class TransactionAdmin:
    """Looks after transactions; part of an admin client.

    Args:
        cluster: whom to ask.
        timeout_s: how long each question may take.
    """

    def __init__(self, cluster: Cluster, timeout_s: float) -> None:
        self._cluster = cluster
        self._timeout_s = timeout_s

    async def matching(
        self,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        duration_ms: int = -1,
        pattern: str | None = None,
    ) -> Sequence[ListedTransaction]:
        """The transactional ids that match, by name."""
        request = ListTransactionsRequest(list(states), list(producer_ids), duration_ms, pattern)
        return await patiently(self._cluster, partial(self._matching, request), self._timeout_s)

    async def _matching(self, request: ListTransactionsRequest) -> Sequence[ListedTransaction]:
        metadata = await self._metadata([])
        found: dict[str, ListedTransaction] = {}
        for broker in metadata.brokers:
            response: ListTransactionsResponse = await self._cluster.request(
                request, self._timeout_s, broker.node_id
            )
            if response.error is not ErrorCode.NONE:
                raise broker_error(response.error, None, "transactions")
            found.update((each.transactional_id, each) for each in response.transactions)
        return [found[name] for name in sorted(found)]

    async def describe(self, transactional_ids: Iterable[str]) -> dict[str, TransactionInfo]:
        """State and partitions; raises ``TransactionalIdNotFoundError``."""
        return {
            name: await patiently(self._cluster, partial(self._describe, name), self._timeout_s)
            for name in transactional_ids
        }

    async def _describe(self, transactional_id: str) -> TransactionInfo:
        coordinator = self._coordinator(transactional_id)
        request = DescribeTransactionsRequest([transactional_id])
        response = await coordinator.retry(request, self._timeout_s)
        (found,) = response.transactions
        if found.error is not ErrorCode.NONE:
            raise coordinator.error(found.error)
        return TransactionInfo(
            found.transactional_id,
            found.state,
            found.producer_id,
            found.producer_epoch,
            found.timeout_ms,
            found.start_time_ms if found.state in _UNDER_WAY else -1,
            tuple(sorted(TopicPartition(*place) for place in found.partitions)),
        )

    async def open_in(
        self, chosen: Iterable[str | PartitionLike] | None = None
    ) -> list[OpenTransaction]:
        """Open transactions in partitions (None: all), with their ids; None for a hanging one."""
        places = None if chosen is None else list(chosen)
        found = await patiently(self._cluster, partial(self._open, places), self._timeout_s)
        if not found:
            return []
        owners = await self._owners({each.producer_id for each in found})
        return [
            each._replace(transactional_id=owners.get((each.producer_id, each.partition)))
            for each in found
        ]

    async def _open(self, chosen: Sequence[str | PartitionLike] | None) -> list[OpenTransaction]:
        found: list[OpenTransaction] = []
        for leader, partitions in (await self._by_leader(chosen)).items():
            response: DescribeProducersResponse = await self._cluster.request(
                DescribeProducersRequest([(topic, number) for topic, number in partitions]),
                self._timeout_s,
                leader,
            )
            for result in response.partitions:
                found += _open_in(result)
        return sorted(found)

    async def _by_leader(
        self, chosen: Sequence[str | PartitionLike] | None
    ) -> dict[int, list[TopicPartition]]:
        """The partitions that are meant, by the broker that leads them."""
        wanted: dict[str, set[int] | None] = {}
        for each in chosen or ():
            if isinstance(each, str):
                wanted[each] = None
                continue
            topic, number = as_partition(each)
            numbers = wanted.setdefault(topic, set())
            if numbers is not None:
                numbers.add(number)
        metadata = await self._metadata(None if chosen is None else sorted(wanted))
        leaders: dict[int, list[TopicPartition]] = {}
        for answer in metadata.topics:
            assert answer.name is not None, "asked by name"
            if answer.error is not ErrorCode.NONE:
                raise broker_error(answer.error, answer.error_message, f"topic {answer.name}")
            numbers = wanted.get(answer.name)
            known = {each.partition: each.leader_id for each in answer.partitions}
            for number in sorted(known if numbers is None else numbers):
                if number not in known:
                    raise UnknownTopicOrPartitionError(
                        f"topic {answer.name} has {len(known)} partitions, no {number}"
                    )
                leaders.setdefault(known[number], []).append(TopicPartition(answer.name, number))
        return leaders

    async def _owners(self, producer_ids: Collection[int]) -> dict[tuple[int, TopicPartition], str]:
        """Whose present transaction a producer has in a partition."""
        owners: dict[tuple[int, TopicPartition], str] = {}
        for listed in await self.matching(_UNDER_WAY, sorted(producer_ids)):
            info = (await self.describe([listed.transactional_id]))[listed.transactional_id]
            for partition in info.partitions:
                owners[info.producer_id, partition] = info.transactional_id
        return owners

    async def abort(self, transactional_ids: Iterable[str]) -> None:
        """Abort an open transaction by fencing its producer; nothing for an unknown id."""
        for name in transactional_ids:
            # An unknown one would come to be by what follows.
            info = (await self.describe([name]))[name]
            await patiently(self._cluster, partial(self._shut_out, info), self._timeout_s)

    async def _shut_out(self, info: TransactionInfo) -> None:
        coordinator = self._coordinator(info.transactional_id)
        request = InitProducerIdRequest(info.transactional_id, info.timeout_ms)
        response = await coordinator.ask(request, self._timeout_s)
        if response.error is not ErrorCode.NONE:
            raise coordinator.error(response.error)

    async def abort_open(self, transaction: OpenTransaction) -> None:
        """Write the marker that ends a transaction in one partition without effect."""
        leaders = await self._by_leader([transaction.partition])
        (leader,) = leaders
        end = TransactionEnd(
            transaction.producer_id,
            transaction.producer_epoch,
            commit=False,
            partitions=[(transaction.partition.topic, transaction.partition.partition)],
            # One that no marker has touched yet has none.
            coordinator_epoch=max(0, transaction.coordinator_epoch),
        )
        response: WriteTxnMarkersResponse = await self._cluster.request(
            WriteTxnMarkersRequest([end]), self._timeout_s, leader
        )
        for result in (each for end in response.ends for each in end.partitions):
            if result.error is not ErrorCode.NONE:
                raise broker_error(result.error, None, str(transaction.partition))

    def _coordinator(self, transactional_id: str) -> CoordinatorClient:
        return CoordinatorClient(self._cluster, transactional_id, CoordinatorType.TRANSACTION)

    async def _metadata(self, topics: Sequence[str] | None) -> MetadataResponse:
        names = None if topics is None else list(topics)
        request = MetadataRequest(names, allow_auto_topic_creation=False)
        response: MetadataResponse = await self._cluster.retry(request, self._timeout_s)
        return response


def _open_in(result: DescribeProducersResult) -> list[OpenTransaction]:
    partition = TopicPartition(result.topic, result.partition)
    if result.error is not ErrorCode.NONE:
        raise broker_error(result.error, result.error_message, str(partition))
    return [
        OpenTransaction(
            partition,
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.transaction_start_offset,
            each.last_timestamp_ms,
            None,
        )
        for each in result.producers
        if each.transaction_start_offset != NO_OFFSET
    ]
