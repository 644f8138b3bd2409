"""``seglog produce``: records from lines of standard input or of a file."""

import itertools
import operator
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import click

from seglog.clients.cli.parameters import (
    as_mapping,
    escaped_bytes,
    instant,
    key_value,
    unescaped,
)
from seglog.clients.cli.producer_options import break_off, producer_of, producer_options
from seglog.clients.cli.record_input import (
    InputRecord,
    JsonFormat,
    LineFormat,
    read_whole,
    split_stream,
)
from seglog.clients.cli.rendering import LiveLine, print_message, size_text
from seglog.clients.cli.settings import connection_options
from seglog.protocol.wording import count_text

if TYPE_CHECKING:
    from seglog.clients.blocking.producer import Producer
    from seglog.clients.producer.futures import BulkFuture

_READER_PROPERTIES: Final = (
    "parse.key",
    "key.separator",
    "parse.headers",
    "headers.delimiter",
    "null.marker",
)
_Parse = Callable[[bytes, int], InputRecord]


@click.command()
@click.argument("topic")
@click.option(
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Read this file instead of standard input.",
)
@click.option(
    "-K",
    "--key-separator",
    type=escaped_bytes,
    metavar="TEXT",
    help="A line is KEY, this separator, VALUE.",
)
@click.option("-k", "--key", type=escaped_bytes, metavar="TEXT", help="The key of all records.")
@click.option(
    "-H",
    "--header",
    "headers",
    type=key_value,
    metavar="KEY=VALUE",
    multiple=True,
    help="A header of all records.",
)
@click.option("-p", "--partition", type=click.IntRange(min=0), help="Where all records go.")
@click.option("--timestamp", type=instant, metavar="TIME", help="Of all records; without it: now.")
@click.option(
    "-Z",
    "--null-value",
    "null_marker",
    type=escaped_bytes,
    metavar="MARKER",
    help="A value (or key) of exactly this text is null: a tombstone.",
)
@click.option(
    "-D",
    "--delimiter",
    type=escaped_bytes,
    metavar="TEXT",
    default="\\n",
    help="Ends a record; default \\n.",
)
@click.option("--whole", is_flag=True, help="The whole input is one value.")
@click.option(
    "-J",
    "--json",
    "is_json",
    is_flag=True,
    help="A line is a record as `seglog consume --json` writes it.",
)
@click.option("--keep-partition", is_flag=True, help="With --json: as the line says.")
@click.option(
    "--reader-property",
    "--property",
    "properties",
    type=key_value,
    metavar="KEY=VALUE",
    multiple=True,
    help=f"Kafka's words for the input: {', '.join(_READER_PROPERTIES)}.",
)
@producer_options
@connection_options
def produce(topic: str, path: Path | None, whole: bool, delimiter: bytes, **options: Any) -> None:
    """Send records to TOPIC, one for each line of the input.

    Records leave as soon as their lines are there; the command ends when all are acknowledged.

    \b
    printf 'k1\\tv1\\nk2\\tv2\\n' | seglog produce flights --key-separator '\\t'
    seglog consume a --until-end --json | seglog produce b --json
    """
    parse = _parser_of(options)
    if not delimiter:
        raise click.UsageError("--delimiter must not be empty; --whole takes all as one value")
    if whole and (options["is_json"] or options["key_separator"] is not None):
        raise click.UsageError("--whole does not go with --json or --key-separator")
    source: AbstractContextManager[BinaryIO] = (
        nullcontext(sys.stdin.buffer) if path is None else path.open("rb")
    )
    with source as stream:
        chunks: Iterator[list[bytes]] = (
            iter([[read_whole(stream)]]) if whole else split_stream(stream, delimiter)
        )
        producer = producer_of(options)
        sending = _Sending(producer, topic)
        try:
            with producer:
                try:
                    sending.run(chunks, parse)
                    producer.flush()
                except KeyboardInterrupt:
                    break_off(producer)
                    raise
        finally:
            sending.report()


def _parser_of(options: dict[str, Any]) -> _Parse:
    lines = _line_format(options)
    if not options["is_json"]:
        if options["keep_partition"]:
            raise click.UsageError("--keep-partition goes with --json")
        return lines.parse
    if options["key_separator"] is not None:
        raise click.UsageError("--key-separator does not go with --json")
    return JsonFormat(options["keep_partition"], lines).parse


def _line_format(options: dict[str, Any]) -> LineFormat:
    properties = as_mapping(options["properties"], "--reader-property")
    unknown = sorted(set(properties) - set(_READER_PROPERTIES))
    if unknown:
        raise click.UsageError(f"--reader-property: there is no {', '.join(unknown)}")
    key_separator = options["key_separator"]
    if key_separator is None and properties.get("parse.key") == "true":
        key_separator = _property_bytes(properties, "key.separator", "\\t")
    if key_separator is not None and options["key"] is not None:
        raise click.UsageError("--key and --key-separator exclude each other")
    if key_separator == b"":
        raise click.UsageError("the key separator must not be empty")
    header_separator = None
    if properties.get("parse.headers") == "true":
        header_separator = _property_bytes(properties, "headers.delimiter", "\\t")
    null_marker = options["null_marker"]
    if null_marker is None and "null.marker" in properties:
        null_marker = _property_bytes(properties, "null.marker", "")
    return LineFormat(
        key_separator,
        options["key"],
        header_separator,
        tuple(
            (name, value.encode("utf-8", "surrogateescape")) for name, value in options["headers"]
        ),
        null_marker,
        options["timestamp"],
        options["partition"],
    )


def _property_bytes(properties: dict[str, str], name: str, default: str) -> bytes:
    try:
        return unescaped(properties.get(name, default))
    except ValueError as error:
        raise click.UsageError(f"--reader-property {name}: {error}") from error


class _Sending:
    """Sends parsed records and counts the acknowledged ones."""

    def __init__(self, producer: "Producer", topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._open: deque[BulkFuture] = deque()
        self._acknowledged = 0
        self._bytes = 0
        self._begin_s = time.monotonic()
        self._live = LiveLine()

    def run(self, chunks: Iterator[list[bytes]], parse: _Parse) -> None:
        """Send all chunks of lines; stops at the first error of a line or of the broker."""
        number = 0
        for lines in chunks:
            records = []
            try:
                for line in lines:
                    number += 1
                    self._bytes += len(line)
                    records.append(parse(line, number))
            finally:
                # The lines before a bad one are sent, as if they had come alone.
                self._send(records)
            self._settle()
            self._live.show(f"{count_text(number, 'record')}, {size_text(self._bytes)} read")

    def _send(self, records: list[InputRecord]) -> None:
        for partition, group in itertools.groupby(records, operator.attrgetter("partition")):
            items = (
                (record.key, record.value, record.timestamp_ms, record.headers) for record in group
            )
            self._open.append(self._producer.send_many(self._topic, items, partition=partition))

    def _settle(self) -> None:
        """Count decided records; an error ends the work now and not at the end of the input."""
        while self._open and self._open[0].done():
            self._acknowledged += self._open.popleft().result(0)

    def report(self) -> None:
        """Print the number of stored records, also after an error."""
        self._live.clear()
        acknowledged = self._acknowledged + sum(each.delivered_count for each in self._open)
        print_message(
            f"{count_text(acknowledged, 'record')} stored in {self._topic} "
            f"({time.monotonic() - self._begin_s:.1f} s)"
        )
