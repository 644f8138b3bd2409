from seglog.protocol.api import DescribeLogDirsRequest
from seglog.protocol.errors import ErrorCode
from support.broker_parts import BrokerParts, batch_of


async def test_log_dirs_are_described_with_sizes_and_space(broker: BrokerParts) -> None:
    await broker.create_topic("t", 2)
    await broker.produce([("t", 0, batch_of(b"x"))])
    (only,) = (await broker.ask(DescribeLogDirsRequest())).log_dirs
    assert (only.path, only.error) == (str(broker.log_dir), ErrorCode.NONE)
    assert 0 < only.usable_bytes <= only.total_bytes
    assert [(part.partition, part.size_bytes > 0) for part in only.partitions] == [
        (0, True),
        (1, False),
    ]
    (only,) = (await broker.ask(DescribeLogDirsRequest([("t", 1)]))).log_dirs
    assert [part.partition for part in only.partitions] == [1]


async def test_offline_directory_says_so(broker: BrokerParts) -> None:
    (log_dir,) = broker.services.logs.log_dirs
    log_dir.set_offline(OSError("gone"))
    (only,) = (await broker.ask(DescribeLogDirsRequest())).log_dirs
    assert (only.error, only.partitions) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
    log_dir.offline_reason = None
