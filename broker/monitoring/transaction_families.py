"""Metrics of transactions: how many there are, how old the oldest one is, how they ended."""

from collections.abc import Callable, Iterable
from typing import Final

from seglog.broker.coordinator.transactions.table import TransactionCounters
from seglog.broker.coordinator.transactions.transactions import Transactions
from seglog.broker.monitoring.families import Family, counter, gauge
from seglog.broker.partition.partition import Partition
from seglog.broker.requests.services import Services

_LATE_BUFFER_MS: Final = 300_000


def transaction_source(
    transactions: Transactions, services: Services
) -> Callable[[], list[Family]]:
    """What ``/metrics`` asks for transactions."""

    def read() -> list[Family]:
        return transaction_families(transactions, services)

    return read


def transaction_families(transactions: Transactions, services: Services) -> list[Family]:
    """Everything about transactions.

    The age is counted from the beginning of a transaction where the coordinator knows it, and from
    its last record in a partition where it does not any more.
    """
    now_ms = services.clock.time_ms()
    late_ms = services.config.transaction_max_timeout_ms + _LATE_BUFFER_MS
    started_ms = transactions.table.oldest_start_ms()
    oldest_ms = 0 if started_ms is None else now_ms - started_ms
    late = 0
    for silence_ms in _silences_ms(services.partitions.all(), now_ms):
        oldest_ms = max(oldest_ms, silence_ms)
        late += silence_ms > late_ms
    by_state = gauge("seglog_transactions", "Transactional ids by state.", "state")
    for state, count in transactions.table.counts().items():
        by_state.add(count, state.value)
    return [
        by_state,
        gauge(
            "seglog_oldest_open_transaction_seconds",
            "Age of the oldest transaction that is not decided everywhere.",
        ).add(oldest_ms / 1000),
        gauge(
            "seglog_unfinished_transactions",
            "Transactions that are decided and wait for a disk to take their markers.",
        ).add(transactions.endings.unfinished),
        gauge(
            "kafka_server_replicamanager_partitionswithlatetransactionscount",
            "Partitions with a transaction that no timeout has ended.",
        ).add(late),
        *_counter_families(transactions.table.counters),
    ]


def _silences_ms(partitions: Iterable[Partition], now_ms: int) -> Iterable[int]:
    """For each partition with open transactions, how long ago the stalest one was last written."""
    for partition in partitions:
        producers = partition.log.producer_state
        if not producers.transactions:
            continue
        seen_ms = [
            entry.seen_ms
            for producer_id, _ in producers.transactions.in_order()
            if (entry := producers.get(producer_id)) is not None
        ]
        if seen_ms:
            yield now_ms - min(seen_ms)


def _counter_families(counters: TransactionCounters) -> list[Family]:
    return [
        counter("seglog_transaction_commits", "Transactions that were committed.").add(
            counters.commits
        ),
        counter("seglog_transaction_aborts", "Transactions that were aborted.").add(
            counters.aborts
        ),
        counter("seglog_transaction_timeouts", "Those aborted because they took too long.").add(
            counters.timeouts
        ),
        counter("seglog_transaction_marker_failures", "Markers that have to be tried again.").add(
            counters.failed_markers
        ),
        counter(
            "seglog_transactional_ids_expired", "Ids forgotten because they were not used."
        ).add(counters.expired_ids),
        counter("seglog_transaction_load_faults", "Stored records that could not be read.").add(
            counters.load_faults
        ),
    ]
