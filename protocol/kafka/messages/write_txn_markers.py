"""WriteTxnMarkers."""

from seglog.protocol.kafka.schema import (
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
)


class WritableTxnMarkerTopic(Struct):
    """Partitions of one topic."""

    name: str = string("0+")
    partition_indexes: list[int] = array("int32", "0+")


class WritableTxnMarker(Struct):
    """The end of one transaction."""

    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    transaction_result: bool = boolean("0+")
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic, "0+")
    coordinator_epoch: int = int32("0+")
    transaction_version: int = int8("2+", default=0, ignorable=True)


class WriteTxnMarkersRequest(Message, api_key=27, versions="0-2", flexible="1+", served="1-2"):
    """Writes commit or abort markers into partitions; between brokers."""

    markers: list[WritableTxnMarker] = array(WritableTxnMarker, "0+")


class WritableTxnMarkerPartitionResult(Struct):
    """What became of one marker."""

    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class WritableTxnMarkerTopicResult(Struct):
    """The results of one topic."""

    name: str = string("0+")
    partitions: list[WritableTxnMarkerPartitionResult] = array(
        WritableTxnMarkerPartitionResult, "0+"
    )


class WritableTxnMarkerResult(Struct):
    """The results of one transaction."""

    producer_id: int = int64("0+")
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult, "0+")


class WriteTxnMarkersResponse(Message, api_key=27, versions="0-2", flexible="1+"):
    """One result a partition."""

    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult, "0+")
