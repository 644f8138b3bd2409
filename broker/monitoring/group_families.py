"""Metrics of consumer groups, in the words of Kafka and of kafka_exporter, and of producer ids."""

from collections.abc import Callable

from seglog.broker.coordinator.coordination import Coordination
from seglog.broker.coordinator.groups.table import Group, GroupCounters
from seglog.broker.monitoring.families import Family, counter, gauge
from seglog.broker.requests.services import Services

_PREFIX = "kafka_coordinator_group_groupmetadatamanager"
_STATE_METRICS = {
    "Empty": f"{_PREFIX}_numgroupsempty",
    "PreparingRebalance": f"{_PREFIX}_numgroupspreparingrebalance",
    "CompletingRebalance": f"{_PREFIX}_numgroupscompletingrebalance",
    "Stable": f"{_PREFIX}_numgroupsstable",
    "Dead": f"{_PREFIX}_numgroupsdead",
}

BoundsOf = Callable[[str, int], tuple[int, int] | None]
"""Log start and high watermark of a partition, None if it cannot be served."""


def coordination_source(
    coordination: Coordination, services: Services
) -> Callable[[], list[Family]]:
    """What ``/metrics`` asks for groups and producer ids."""

    def bounds(topic: str, number: int) -> tuple[int, int] | None:
        partition = services.partitions.find(topic, number)
        if partition is None:
            return None
        offsets = partition.log.offsets
        return offsets.log_start, offsets.high_watermark

    def read() -> list[Family]:
        per_group = services.config.metrics_per_partition
        return coordination_families(coordination, bounds, per_group=per_group)

    return read


def coordination_families(
    coordination: Coordination, bounds: BoundsOf, *, per_group: bool
) -> list[Family]:
    """Everything about groups and producer ids.

    Args:
        coordination: of the broker.
        bounds: where partitions start and end, for the lag.
        per_group: whether each group has series of its own, one for each of its partitions.
    """
    groups = list(coordination.groups)
    families = [
        *_state_families(groups),
        *_counter_families(coordination.groups.counters),
        counter("seglog_producers_expired", "Producers forgotten after a long silence.").add(
            coordination.expired_producers
        ),
        gauge(
            "kafka_server_replicamanager_produceridcount",
            "Producers that partitions remember, each partition counted on its own.",
        ).add(coordination.remembered_producers),
    ]
    return [*families, *_lag_families(groups, bounds)] if per_group else families


def _state_families(groups: list[Group]) -> list[Family]:
    counts = dict.fromkeys(_STATE_METRICS, 0)
    for group in groups:
        counts[group.membership.state.value] += 1
    return [
        gauge(f"{_PREFIX}_numgroups", "Groups.").add(len(groups)),
        gauge(f"{_PREFIX}_numoffsets", "Committed offsets.").add(
            sum(len(group.offsets) for group in groups)
        ),
        *(
            gauge(name, f"Groups in the state {state}.").add(counts[state])
            for state, name in _STATE_METRICS.items()
        ),
    ]


def _counter_families(counters: GroupCounters) -> list[Family]:
    prefix = "kafka_coordinator_group_groupcoordinatormetrics"
    return [
        counter(f"{prefix}_offsetcommit", "Offsets stored.").add(counters.commits),
        counter(f"{prefix}_offsetexpiration", "Offsets gone by age.").add(counters.expired_offsets),
        counter(f"{prefix}_offsetdeletion", "Offsets deleted on request or with their topic.").add(
            counters.deleted_offsets
        ),
        counter(f"{prefix}_groupcompletedrebalance", "Rebalances that have ended.").add(
            counters.rebalances
        ),
        counter("seglog_group_load_faults", "Stored records that could not be read.").add(
            counters.load_faults
        ),
    ]


def _lag_families(groups: list[Group], bounds: BoundsOf) -> list[Family]:
    place = ("consumergroup", "topic", "partition")
    current = gauge("kafka_consumergroup_current_offset", "Committed offset.", *place)
    lag = gauge("kafka_consumergroup_lag", "Records behind the committed offset.", *place)
    current_sum = gauge(
        "kafka_consumergroup_current_offset_sum", "Committed offsets of a topic.", *place[:2]
    )
    lag_sum = gauge("kafka_consumergroup_lag_sum", "Records not read of a topic.", *place[:2])
    members = gauge("kafka_consumergroup_members", "Members of a group.", place[0])
    for group in groups:
        name = group.group_id
        members.add(len(group.membership.members), name)
        sums: dict[str, tuple[int, int]] = {}
        for (topic, number), committed in group.offsets.items():
            current.add(committed.offset, name, topic, str(number))
            total, total_lag = sums.get(topic, (0, 0))
            found = bounds(topic, number)
            if found is not None:
                start, end = found
                # Records that are gone need no reading: a reader goes on at the log start.
                behind = max(0, end - max(committed.offset, start))
                lag.add(behind, name, topic, str(number))
                total_lag += behind
            sums[topic] = (total + committed.offset, total_lag)
        for topic, (total, total_lag) in sums.items():
            current_sum.add(total, name, topic)
            lag_sum.add(total_lag, name, topic)
    return [current, lag, current_sum, lag_sum, members]
