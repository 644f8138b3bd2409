"""Offline loads: segment files of a broker that does not run."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seglog.clients import Admin, Producer
from seglog.clients.testing import running_broker
from seglog.protocol.records.builder import build_batch
from support.spark_log import SparkLog


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two topics in small segments; some records of one are deleted."""
    folder = tmp_path_factory.mktemp("offline")
    with running_broker(folder=folder, configs={"log.segment.bytes": 10_000}) as broker:
        with Admin(broker.address) as admin:
            admin.create_topic("a", partitions=2)
            admin.create_topic("b-1", partitions=1)
            with Producer(broker.address, batch_bytes=2000) as producer:
                for codec_topic, partition in (("a", 0), ("a", 1), ("b-1", 0)):
                    items = ((b"k", b"%d" % number) for number in range(5000))
                    producer.send_many(codec_topic, items, partition=partition)
            admin.delete_records({("a", 0): 1234})
        assert broker.stop() == 0
        data = broker.data_directory
        yield data
        broker.start()


def load(spark: Any, path: Path | str, **options: Any) -> Any:
    return spark.read.format("seglog.files").options(**options).load(str(path))


def test_records_are_missing_or_come_back_from_the_dead(spark: Any, data_folder: Path) -> None:
    rows = load(spark, data_folder)
    found = rows.groupBy("topic", "partition").agg({"offset": "min", "*": "count"}).collect()
    assert sorted((r.topic, r.partition, r["count(1)"], r["min(offset)"]) for r in found) == [
        ("a", 0, 5000 - 1234, 1234),
        ("a", 1, 5000, 0),
        ("b-1", 0, 5000, 0),
    ]


def test_segments_are_read_one_after_the_other(spark: Any, data_folder: Path) -> None:
    segments = len(list(data_folder.glob("*/*.log")))
    assert segments > 15
    rows = load(spark, data_folder, taskBytes=1, subscribe="a,b-1")
    assert segments - 2 <= rows.rdd.getNumPartitions() <= segments
    assert load(spark, data_folder).rdd.getNumPartitions() == 1


def test_patterns_and_topics_choose_other_folders(spark: Any, data_folder: Path) -> None:
    assert load(spark, data_folder / "a-*").count() == 10_000 - 1234
    assert load(spark, data_folder, subscribe="b-1", columns="value").count() == 5000
    with pytest.raises(Exception, match="no data folder"):
        load(spark, data_folder / "nothing-here").count()


@pytest.mark.parametrize(
    ("damage", "lost"),
    [(b"", 0), (bytes(5000), 0), (b"\x01" * 700, 0), (b"torn", None), (b"flip", None)],
)
def test_a_corrupt_tail_is_read_or_hides_what_is_before(
    spark: Any,
    data_folder: Path,
    tmp_path: Path,
    spark_log: SparkLog,
    damage: bytes,
    lost: int | None,
) -> None:
    copy = tmp_path / "b-1-0"
    shutil.copytree(data_folder / "b-1-0", copy)
    last = max(copy.glob("*.log"))
    content = bytearray(last.read_bytes())
    if damage == b"torn":
        content = content[:-10]
    elif damage == b"flip":
        content[-10] ^= 1
    else:
        content += damage
    last.write_bytes(content)
    spark_log.begin()
    found = load(spark, copy).count()
    reports = spark_log.lines("are not read")
    if lost == 0:
        assert found == 5000
        assert len(reports) == (1 if damage.strip(b"\0") else 0)
    else:
        assert 4000 < found < 5000
        assert len(reports) == 1
        assert last.name in reports[0]
    if reports:
        with pytest.raises(Exception, match="are not read"):
            load(spark, copy, corruptTail="fail").count()


def test_a_batch_larger_than_what_is_read_at_once_is_corrupt(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "big-0"
    folder.mkdir()
    records = [(1, None, bytes(1_000_000), ()) for _ in range(20)]
    small = [(1, None, b"small", ())]
    (folder / f"{0:020}.log").write_bytes(build_batch(records) + build_batch(small, base_offset=20))
    rows = load(spark, folder).selectExpr("sum(length(value)) AS n", "max(offset)").first()
    assert tuple(rows) == (20_000_005, 20)
