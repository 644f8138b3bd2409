"""What a source asks a cluster, on the driver and in its tasks: offsets, sizes, news."""

from collections.abc import Iterable, Mapping

from seglog.clients.config import Address
from seglog.clients.errors import broker_error
from seglog.clients.sockets.cluster import SocketCluster
from seglog.protocol.api import (
    DescribePartitionsRequest,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ListOffsetsPartition,
    ListOffsetsRequest,
)
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import IsolationLevel, TopicPartition


class Cluster(SocketCluster):
    """A cluster that answers the questions of sources and sinks; one thread at a time."""

    def list_offsets(
        self, questions: Mapping[TopicPartition, int], isolation_level: IsolationLevel
    ) -> dict[TopicPartition, int]:
        """The first offset at or after a timestamp in each partition, or -1.

        Timestamp -2 asks for the first offset, -1 for that behind the last readable record.
        """
        return self.retry(lambda: self._list_offsets(questions, isolation_level))

    def _list_offsets(
        self, questions: Mapping[TopicPartition, int], isolation_level: IsolationLevel
    ) -> dict[TopicPartition, int]:
        by_leader: dict[Address, list[ListOffsetsPartition]] = {}
        for partition, timestamp in questions.items():
            by_leader.setdefault(self.leader(partition), []).append(
                ListOffsetsPartition(*partition, timestamp)
            )
        found = {}
        for leader, partitions in by_leader.items():
            response = self.ask(leader, ListOffsetsRequest(partitions, isolation_level))
            for result in response.partitions:
                partition = TopicPartition(result.topic, result.partition)
                if result.error is not ErrorCode.NONE:
                    raise broker_error(result.error, result.error_message, str(partition))
                found[partition] = result.offset
        return found

    def wait_for_records(
        self, ends: Mapping[TopicPartition, int], isolation_level: IsolationLevel, timeout_ms: int
    ) -> None:
        """Return when there is something behind the ends of partitions, or the time is over.

        Where they are led by several brokers, at once: one that waits would not see the others.

        Raises:
            ClientError: a broker is away, or does not know a partition.
        """
        leaders = {self.leader(partition) for partition in ends}
        if len(leaders) != 1:
            return
        wanted = [FetchPartition(*partition, offset, 1) for partition, offset in ends.items()]
        request = FetchRequest(timeout_ms, 1, 1, wanted, isolation_level)
        response: FetchResponse = self.ask(leaders.pop(), request)
        for result in response.partitions:
            if result.error is not ErrorCode.NONE:
                raise broker_error(result.error, result.error_message, f"{result.topic}")

    def bytes_per_offset(self, names: Iterable[str]) -> dict[TopicPartition, float]:
        """How large a record is in each partition on average, as stored."""
        request = DescribePartitionsRequest(sorted(names))
        response = self.retry(lambda: self.ask_any(request))
        return {
            TopicPartition(each.topic, each.partition): each.size_bytes
            / max(1, each.log_end_offset - each.log_start_offset)
            for each in response.partitions
        }
