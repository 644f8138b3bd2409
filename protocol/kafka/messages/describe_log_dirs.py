"""DescribeLogDirs."""

from seglog.protocol.kafka.schema import (
    Message,
    Struct,
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
)


class DescribableLogDirTopic(Struct):
    """Partitions of one topic to look for."""

    topic: str = string("0+")
    partitions: list[int] = array("int32", "0+")


class DescribeLogDirsRequest(Message, api_key=35, versions="0-5", flexible="2+", served="1-5"):
    """Asks how much each data directory holds; null topics means all of them."""

    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, "0+", nullable="0+")


class DescribeLogDirsPartition(Struct):
    """The size of one partition."""

    partition_index: int = int32("0+")
    partition_size: int = int64("0+")
    offset_lag: int = int64("0+")
    is_future_key: bool = boolean("0+")


class DescribeLogDirsTopic(Struct):
    """The partitions of one topic in this directory."""

    name: str = string("0+")
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition, "0+")


class DescribeLogDirsResult(Struct):
    """One data directory."""

    error_code: int = int16("0+")
    log_dir: str = string("0+")
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic, "0+")
    total_bytes: int = int64("4+", default=-1, ignorable=True)
    usable_bytes: int = int64("4+", default=-1, ignorable=True)
    is_cordoned: bool = boolean("5+", default=False, ignorable=True)


class DescribeLogDirsResponse(Message, api_key=35, versions="0-5", flexible="2+"):
    """One result a data directory."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("3+", ignorable=True)
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult, "0+")
