"""Fetch."""

from typing import Final

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.errors import ErrorCode, ProtocolError
from seglog.protocol.kafka import fast_fetch
from seglog.protocol.kafka.fast_fetch import FIRST_WITH_TOPIC_IDS
from seglog.protocol.kafka.messages import fetch as wire
from seglog.protocol.kafka.translate.operation import Operation, older_error, runs_of_topic
from seglog.protocol.types import IsolationLevel

_FIRST_WITH_LEADERS: Final = 16
"""Older ones have a place for a leader, but none for its address; Kafka fills neither."""
ERROR_LADDER: Final = {
    # FETCH-10.
    ErrorCode.KAFKA_STORAGE_ERROR: (6, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ErrorCode.UNKNOWN_TOPIC_ID: (13, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ErrorCode.INCONSISTENT_TOPIC_ID: (13, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE: (14, ErrorCode.OFFSET_OUT_OF_RANGE),
}


def isolation_level(number: int) -> IsolationLevel:
    """The isolation level with this number.

    Raises:
        ProtocolError: there is none.
    """
    if number not in (0, 1):
        raise ProtocolError(f"isolation level {number} does not exist")
    return IsolationLevel(number)


def read_request(message: wire.FetchRequest, version: int) -> api.FetchRequest:
    """Flatten topics and partitions."""
    replica = message.replica_state
    return api.FetchRequest(
        message.max_wait_ms,
        message.min_bytes,
        message.max_bytes,
        [
            api.FetchPartition(
                topic.topic,
                entry.partition,
                entry.fetch_offset,
                entry.partition_max_bytes,
                entry.current_leader_epoch,
                entry.last_fetched_epoch,
                entry.log_start_offset,
                topic.topic_id,
            )
            for topic in message.topics
            for entry in topic.partitions
        ],
        isolation_level(message.isolation_level),
        message.session_id,
        message.session_epoch,
        [(each.topic_id, each.topic, each.partitions) for each in message.forgotten_topics_data],
        message.replica_id if replica is None else replica.replica_id,
        message.rack_id,
        version >= FIRST_WITH_TOPIC_IDS,
    )


def write_response(response: api.FetchResponse, version: int) -> wire.FetchResponse:
    """Nest the results by topic."""
    return wire.FetchResponse(
        throttle_time_ms=response.throttle_time_ms,
        error_code=response.error,
        session_id=response.session_id,
        responses=[
            wire.FetchableTopicResponse(
                topic=topic,
                topic_id=topic_id,
                partitions=[_write_result(result, version) for result in results],
            )
            for (topic, topic_id), results in runs_of_topic(response.partitions)
        ],
        node_endpoints=(
            [
                wire.NodeEndpoint(
                    node_id=each.node_id, host=each.host, port=each.port, rack=each.rack
                )
                for each in response.leaders
            ]
            if version >= _FIRST_WITH_LEADERS
            else []
        ),
    )


def _write_result(result: api.FetchPartitionResult, version: int) -> wire.PartitionData:
    diverging, aborted = result.diverging_epoch, result.aborted_transactions
    leader = result.current_leader
    return wire.PartitionData(
        partition_index=result.partition,
        error_code=older_error(result.error, version, ERROR_LADDER),
        high_watermark=result.high_watermark,
        last_stable_offset=result.last_stable_offset,
        log_start_offset=result.log_start_offset,
        diverging_epoch=(
            wire.EpochEndOffset(epoch=diverging[0], end_offset=diverging[1]) if diverging else None
        ),
        current_leader=(
            wire.LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
            if leader is not None and version >= _FIRST_WITH_LEADERS
            else None
        ),
        aborted_transactions=(
            None
            if aborted is None
            else [
                wire.AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
                for producer_id, first_offset in aborted
            ]
        ),
        # Null is legal, but kafka-python fails on it; Kafka never sends it.
        records=b"" if result.records is None else result.records,
    )


def fail_request(
    request: api.FetchRequest, error: ErrorCode, message: str | None
) -> api.FetchResponse:
    """Refuse every partition, and the request as a whole for versions that can say so."""
    return api.FetchResponse(
        [
            api.FetchPartitionResult(
                entry.topic, entry.partition, error, error_message=message, topic_id=entry.topic_id
            )
            for entry in request.partitions
        ],
        error,
    )


FETCH: Final = Operation(
    ApiKey.FETCH,
    wire.FetchRequest,
    wire.FetchResponse,
    read_request,
    write_response,
    fail_request,
    fast_decode=fast_fetch.decode_request,
    fast_encode=fast_fetch.encode_response,
)
OPERATIONS: Final = (FETCH,)
