import pytest

from seglog.broker.api import log_dirs
from seglog.broker.monitoring.pages import troubles_of
from seglog.broker.storage.errors import MissingFileError
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


async def test_a_directory_that_takes_no_records_looks_well(
    broker: BrokerParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C028: a full disk, before and after an append has failed, and the disk guard."""
    (log_dir,) = broker.services.logs.log_dirs

    async def trouble() -> str | None:
        (only,) = (await broker.ask(DescribeLogDirsRequest())).log_dirs
        assert only.error is ErrorCode.NONE
        return only.trouble

    assert await trouble() is None
    log_dir.note_full()
    assert await trouble() == "has no room for records"
    log_dir.note_room()
    log_dir.refuses_writes = "log.dir.bytes.max is exceeded"
    assert await trouble() == "refuses records: log.dir.bytes.max is exceeded"
    log_dir.refuses_writes = None
    monkeypatch.setattr(log_dirs, "_space_of", lambda _path: (1 << 30, 0))
    assert await trouble() == "has no room for records"


async def test_offline_directory_says_so(broker: BrokerParts) -> None:
    (log_dir,) = broker.services.logs.log_dirs
    log_dir.set_offline(OSError("gone"))
    (only,) = (await broker.ask(DescribeLogDirsRequest())).log_dirs
    assert (only.error, only.partitions) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
    assert only.trouble == "is offline: gone"
    log_dir.offline_reason = None


async def test_partitions_that_are_offline_look_well(broker: BrokerParts) -> None:
    """Their directory takes records; a page and a description say which, how many, and why."""
    services = broker.services
    await broker.create_topic("t", 2)
    assert troubles_of(services) == []
    for number in (1, 0):
        log = services.partitions.get("t", number).log
        services.logs.failures.report(
            services.logs.log_dir_of(log), MissingFileError("open", log.directory, "gone"), log
        )
    log_dir = services.logs.log_dirs[0].path
    why = f"open {log_dir}/t-0: gone"
    assert troubles_of(services) == [f"partitions offline: 2; t-0: {why}"]
