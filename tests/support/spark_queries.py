"""Queries that tests of the Spark source and sink run again and again."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from seglog.clients import Consumer, Producer, Record
from seglog.clients.config import parse_addresses
from seglog.clients.spark.cluster import Cluster
from seglog.clients.spark.connection_options import ConnectionOptions
from seglog.protocol.api import ProducePartition, ProduceRequest
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records.batch import write_checksum
from seglog.protocol.records.builder import build_batch
from seglog.protocol.records.record import RecordFields


def fill(address: str, topic: str, values: Iterable[int], partition: int | None = 0) -> None:
    """Write numbered records."""
    with Producer(address) as producer:
        producer.send_many(
            topic, ((b"%d" % value, b"%d" % value) for value in values), partition=partition
        )


def fill_raw(
    address: str, topic: str, records: Sequence[RecordFields], old: bytes = b"", new: bytes = b""
) -> None:
    """Write what our producer would refuse: (timestamp, key, value, headers) as one batch.

    ``old`` becomes ``new`` in its bytes, behind the back of the encoder.
    """
    batch = build_batch(records)
    if old:
        start = batch.index(old)
        batch[start : start + len(old)] = new
        write_checksum(memoryview(batch))
    cluster = Cluster(parse_addresses(address), ConnectionOptions())
    request = ProduceRequest(-1, 5000, [ProducePartition(topic, 0, memoryview(batch))])
    (result,) = cluster.ask_any(request).partitions
    assert result.error is ErrorCode.NONE, result


def read_batch(spark: Any, address: str, topic: str, **options: Any) -> Any:
    """A batch read of a topic."""
    reader = spark.read.format("seglog").option("bootstrap.servers", address)
    return reader.option("subscribe", topic).options(**options).load()


def read_stream(spark: Any, address: str, topic: str, **options: Any) -> Any:
    """A streaming read of a topic."""
    reader = spark.readStream.format("seglog").option("bootstrap.servers", address)
    return reader.option("subscribe", topic).options(**options).load()


def run_available(
    stream: Any,
    folder: Path,
    *,
    batches: int | None = None,
    form: str = "parquet",
    **trigger: Any,
) -> list[dict[str, Any]]:
    """Append what a stream has now to Parquet files in a folder; returns the progress reports.

    Args:
        stream: what to run.
        folder: for the files, and beside them the checkpoint.
        batches: stop the query after so many that had rows.
        form: "noop" for no files.
        trigger: another one than what is available now.
    """
    writer = stream.writeStream.format(form).option("path", str(folder / "rows"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(**(trigger or {"availableNow": True})).start()
    try:
        while query.isActive and not query.awaitTermination(0.05):
            filled = [each for each in query.recentProgress if each["numInputRows"]]
            if batches is not None and len(filled) >= batches:
                break
    finally:
        query.stop()
    if query.exception() is not None:
        raise query.exception()
    return [json.loads(each.json) for each in query.recentProgress]


def rows_read(spark: Any, folder: Path, column: str = "value") -> list[int]:
    """The numbers that streams have appended to a folder, sorted, with repetitions."""
    if not any((folder / "rows").glob("*.parquet")):
        return []
    rows = spark.read.parquet(str(folder / "rows")).select(column).collect()
    return sorted(int(row[0]) for row in rows)


def undo_last_commit(folder: Path) -> int:
    """As if the driver had been killed before the last micro-batch was over; returns its number."""
    commits = folder / "checkpoint" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    return last


def records_of(address: str, topic: str) -> Iterator[Record]:
    """Everything in a topic, read by our own consumer."""
    with Consumer(address, topic, start="earliest", stop_at_end=True) as consumer:
        yield from consumer
