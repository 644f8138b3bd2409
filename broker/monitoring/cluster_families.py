"""The cluster, which is this one broker, in the words of Kafka's controller and of kafka_exporter.

What there is no cause for with one replica is shown all the same, as the zero that it is:
dashboards and alerts that exist ask for it.
"""

from collections.abc import Collection
from typing import Final

from seglog.broker.monitoring.families import Family, Sample, counter, gauge
from seglog.broker.partition.partition import Partition
from seglog.protocol.types import TopicPartition

_NO_LEADER: Final = -1
_REPLICA_MANAGER: Final = "kafka_server_replicamanager"
_CONTROLLER: Final = "kafka_controller_kafkacontroller"
_CLUSTER_PARTITION: Final = "kafka_cluster_partition"
_TOPIC_PARTITION: Final = "kafka_topic_partition"
_NEVER: Final = (
    (f"{_REPLICA_MANAGER}_isrshrinks", "Times that a replica fell behind."),
    (f"{_REPLICA_MANAGER}_isrexpands", "Times that a replica caught up."),
    (
        "kafka_controller_controllerstats_uncleanleaderelections",
        "Times that a replica became leader that was behind.",
    ),
    (
        "kafka_server_brokertopicmetrics_producemessageconversions",
        "Batches converted from another format: none are accepted.",
    ),
    (
        "kafka_server_brokertopicmetrics_fetchmessageconversions",
        "Batches converted to another format.",
    ),
)


def cluster_families(
    partitions: Collection[Partition],
    offline: Collection[TopicPartition],
    topic_sizes: dict[str, int],
) -> list[Family]:
    """The cluster in figures.

    Args:
        partitions: those that can be served.
        offline: those that cannot, because of their data directory.
        topic_sizes: number of partitions of each topic.
    """
    total = len(partitions) + len(offline)
    spare = [_spare_of(partition) for partition in partitions]
    under_replicated = sum(1 for partition in partitions if _misses_replicas(partition))
    figures: tuple[tuple[str, str, int], ...] = (
        (f"{_REPLICA_MANAGER}_leadercount", "Partitions led here.", len(partitions)),
        (f"{_REPLICA_MANAGER}_partitioncount", "Partitions hosted here.", total),
        (f"{_REPLICA_MANAGER}_underreplicatedpartitions", "Replicas missing.", under_replicated),
        (
            f"{_REPLICA_MANAGER}_underminisrpartitioncount",
            "Partitions with fewer in-sync replicas than acks=all wants.",
            sum(1 for each in spare if each < 0),
        ),
        (
            f"{_REPLICA_MANAGER}_atminisrpartitioncount",
            "Partitions with just as many in-sync replicas as acks=all wants.",
            spare.count(0),
        ),
        (
            f"{_REPLICA_MANAGER}_offlinereplicacount",
            "Partitions in failed data directories.",
            len(offline),
        ),
        (f"{_CONTROLLER}_activecontrollercount", "Always this broker.", 1),
        (f"{_CONTROLLER}_offlinepartitionscount", "Partitions without a leader.", len(offline)),
        (f"{_CONTROLLER}_globaltopiccount", "Topics.", len(topic_sizes)),
        (f"{_CONTROLLER}_globalpartitioncount", "Partitions.", total),
        ("kafka_brokers", "Brokers.", 1),
    )
    families = [gauge(name, documentation).add(value) for name, documentation, value in figures]
    families += [counter(name, documentation).add(0) for name, documentation in _NEVER]
    sizes = gauge("kafka_topic_partitions", "Partitions of a topic.", "topic")
    for topic, size in topic_sizes.items():
        sizes.add(size, topic)
    return [*families, sizes]


def broker_info(node_id: int, address: str) -> Family:
    """The broker as kafka_exporter shows it; ``address`` is what clients are told."""
    family = gauge("kafka_broker_info", "1, with id and address as labels.", "id", "address")
    return family.add(1, str(node_id), address)


def replica_families(
    partitions: Collection[Partition], offline: Collection[TopicPartition], node_id: int
) -> list[Family]:
    """Leader and replicas of every partition.

    Args:
        partitions: those that can be served; this broker leads them.
        offline: those that cannot: they have no leader.
        node_id: of this broker.
    """
    served = [(topic, str(number)) for topic, number in (p.topic_partition for p in partitions)]
    failed = [(topic, str(number)) for topic, number in offline]
    rows = [_row_of(partition, node_id) for partition in partitions]
    replicas, in_sync, spare, missing, preferred = zip(*rows, strict=True) if rows else [()] * 5
    table = (
        (f"{_CLUSTER_PARTITION}_replicascount", "Replicas.", replicas, 1),
        (f"{_CLUSTER_PARTITION}_insyncreplicascount", "In-sync replicas.", in_sync, 0),
        (
            f"{_CLUSTER_PARTITION}_underminisr",
            "Whether acks=all is refused for want of replicas.",
            [int(each < 0) for each in spare],
            1,
        ),
        (
            f"{_CLUSTER_PARTITION}_atminisr",
            "Whether acks=all would be refused with one replica less.",
            [int(each == 0) for each in spare],
            0,
        ),
        (f"{_CLUSTER_PARTITION}_underreplicated", "Whether replicas are missing.", missing, 1),
        (f"{_TOPIC_PARTITION}_leader", "Node id, -1 for none.", [node_id] * len(rows), _NO_LEADER),
        (
            f"{_TOPIC_PARTITION}_leader_is_preferred",
            "Whether the first replica leads.",
            preferred,
            0,
        ),
        (f"{_TOPIC_PARTITION}_replicas", "Replicas.", replicas, 1),
        (f"{_TOPIC_PARTITION}_in_sync_replica", "In-sync replicas.", in_sync, 0),
        (
            f"{_TOPIC_PARTITION}_under_replicated_partition",
            "Whether replicas are missing.",
            missing,
            1,
        ),
    )
    families = []
    for name, documentation, values, of_failed in table:
        samples: list[Sample] = list(zip(served, values, strict=True))
        samples += [(each, of_failed) for each in failed]
        family = gauge(name, documentation, "topic", "partition")
        family.samples = samples
        families.append(family)
    return families


def _row_of(partition: Partition, node_id: int) -> tuple[int, int, int, int, int]:
    """Replicas, in-sync ones, spare ones, whether any are missing, and whether the first leads."""
    replicas = partition.replicas
    replica_ids = replicas.replica_ids
    count, in_sync = len(replica_ids), replicas.in_sync_count
    spare = in_sync - partition.min_in_sync_count
    return count, in_sync, spare, int(in_sync < count), int(replica_ids[0] == node_id)


def _spare_of(partition: Partition) -> int:
    """How many in-sync replicas there are beyond what acks=all needs; negative: it is refused."""
    return partition.replicas.in_sync_count - partition.min_in_sync_count


def _misses_replicas(partition: Partition) -> bool:
    return partition.replicas.in_sync_count < len(partition.replicas.replica_ids)
