"""U2: a disk that is full is freed by the broker's own means, and everything goes on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from seglog.broker.storage.directories.disk_reserve import RESERVE_BYTES, RESERVE_FILE
from support.broker_parts import BrokerParts, batch_of
from support.small_disk import small_disk

SIZE_BYTES = 8 << 20
SETTINGS = {"segment.bytes": "200000", "segment.index.bytes": "4096", "file.delete.delay.ms": "0"}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", SIZE_BYTES) as folder:
        yield folder


async def fill(broker: BrokerParts, topic: str, count: int | None = None) -> int:
    """Append until there is no room, or ``count`` batches; how many were taken."""
    taken = 0
    while count is None or taken < count:
        for size in (50_000, 3_000, 100):
            (result,) = await broker.produce([(topic, 0, batch_of(bytes(size)))])
            if not result.error:
                break
        if result.error:
            break
        taken += 1
    return taken


async def go_on(broker: BrokerParts) -> None:
    """What goes on while the disk is full: producers that try, commits, periodic tasks."""
    background = broker.services.background
    for _ in range(5):
        await fill(broker, "a", 3)
        await background.guard_disks()
        await background.checkpoint_recovery_points()
        await background.checkpoint_high_watermarks()
        await background.checkpoint_log_starts()
        await broker.quiet()


def reserve_of(folder: Path) -> int:
    path = folder / "data" / RESERVE_FILE
    return path.stat().st_size if path.exists() else 0


async def start(folder: Path) -> BrokerParts:
    return await BrokerParts.start(folder, {"background.threads": "2"})


async def test_topics_are_deleted_one_after_the_other_while_producers_go_on(disk: Path) -> None:
    broker = await start(disk)
    for name in ("a", "b", "c", "d"):
        await broker.create_topic(name, 1, SETTINGS)
        await fill(broker, name, 20)
    await fill(broker, "a")
    await go_on(broker)
    (log_dir,) = broker.services.logs.log_dirs
    assert broker.services.partitions.trouble_of(log_dir) is not None
    assert reserve_of(disk) == RESERVE_BYTES
    for name in ("b", "c"):
        await broker.delete_topic(name)
        await broker.services.background.guard_disks()
        assert await fill(broker, "a") > 0
        await go_on(broker)
        assert reserve_of(disk) == RESERVE_BYTES
    broker = await broker.restart()
    await go_on(broker)
    await broker.delete_topic("d")
    await broker.services.background.guard_disks()
    assert await fill(broker, "a", 3) == 3
    await broker.stop()


async def test_shorter_retention_and_deleted_records_make_room(disk: Path) -> None:
    broker = await start(disk)
    for name in ("a", "b"):
        await broker.create_topic(name, 1, SETTINGS)
    await fill(broker, "b", 60)
    await fill(broker, "a")
    await go_on(broker)
    cut = await broker.delete_records("b", 0, 30)
    assert (cut.error, cut.low_watermark) == (0, 30)
    assert await fill(broker, "a", 3) == 3
    await fill(broker, "a")
    await go_on(broker)
    configs = {**SETTINGS, "retention.bytes": "1"}
    log_config = broker.services.config.log_config(configs)
    await broker.services.topics.configure("b", configs, log_config)
    await broker.services.background.retention()
    await broker.services.background.guard_disks()
    assert await fill(broker, "a", 3) == 3
    await broker.stop()


async def test_what_frees_nothing_leaves_the_reserve_alone(disk: Path) -> None:
    """An answer with an error has no effect; the reserve stays for what frees space."""
    broker = await start(disk)
    await broker.create_topic("a", 1, SETTINGS)
    await fill(broker, "a")
    await go_on(broker)
    leave_no_byte(disk)
    assert reserve_of(disk) == RESERVE_BYTES
    with pytest.raises(AssertionError, match="No space left"):
        await broker.create_topic("new")
    cut = await broker.delete_records("a", 0, 1)
    assert cut.error != 0
    assert broker.log("a", 0).offsets.log_start == 0
    assert reserve_of(disk) == RESERVE_BYTES
    (disk / "ballast").unlink()
    await broker.services.background.guard_disks()
    await broker.stop()


def leave_no_byte(folder: Path) -> None:
    """Take what is left of the disk, as another program does."""
    with (folder / "ballast").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return
