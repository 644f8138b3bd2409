"""``seglog consume``: records of a topic to standard output."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import click

from seglog.clients.cli.connections import open_consumer
from seglog.clients.cli.parameters import (
    as_mapping,
    escaped_bytes,
    key_value,
    partition_option,
    start_point,
    unescaped,
)
from seglog.clients.cli.record_output import (
    Fields,
    Format,
    fields_format,
    json_format,
    template_format,
    value_format,
)
from seglog.clients.cli.rendering import data_stream, is_data_wanted, print_message
from seglog.clients.cli.settings import connection_options
from seglog.protocol.wording import count_text

if TYPE_CHECKING:
    from seglog.clients.blocking.consumer import Consumer
    from seglog.clients.consumer.starts import Start
    from seglog.protocol.records.record import Record

_RECORDS_PER_READ: Final = 2000
_LOOK_UP_S: Final = 0.5
_FOR_EVER: Final = float("inf")
_PRINT_PROPERTIES: Final = (
    "print.timestamp",
    "print.partition",
    "print.offset",
    "print.headers",
    "print.key",
    "print.value",
)
_TEXT_PROPERTIES: Final = ("key.separator", "line.separator", "null.literal")
_DEFAULT_NULL: Final = "null"


@click.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@click.option(
    "-o",
    "--from",
    "--offset",
    "start",
    type=start_point,
    metavar="START",
    help="Where to begin: earliest, latest (or end), an OFFSET, -N for the last N records of each "
    "partition, a time (2013-07-04T00:00Z, UTC if there is no zone) or @MILLISECONDS. "
    "Default is latest, with --until-end earliest.",
)
@click.option("--from-beginning", is_flag=True, help="The same as --from earliest.")
@click.option(
    "--last", type=click.IntRange(min=1), metavar="N", help="The last N records of each partition."
)
@click.option("-e", "--until-end", is_flag=True, help="Stop where the partitions end at the start.")
@click.option(
    "-c",
    "-n",
    "--max-records",
    "--max-messages",
    type=click.IntRange(min=1),
    metavar="N",
    help="Stop after N records.",
)
@click.option(
    "--timeout", type=click.FloatRange(min=0.001), metavar="S", help="Stop after S quiet seconds."
)
@partition_option
@click.option(
    "-g",
    "--group",
    help="As a member of this group: go on at its committed offsets, and commit. --from then only "
    "counts for partitions without a committed offset.",
)
@click.option(
    "-f",
    "--format",
    "template",
    type=escaped_bytes,
    metavar="TEXT",
    help="How a record is written, with %t topic, %p partition, %o offset, %k key, %s value, "
    "%T timestamp, %h headers, %K and %S the sizes of key and value, and \\n, \\t.",
)
@click.option("-J", "--json", "is_json", is_flag=True, help="One JSON object a line.")
@click.option("--raw", is_flag=True, help="The values and nothing between them.")
@click.option("--print-key", is_flag=True, help="With the key in front of the value.")
@click.option("--print-timestamp", is_flag=True, help="With the timestamp in milliseconds.")
@click.option("--print-partition", is_flag=True, help="With the partition.")
@click.option("--print-offset", is_flag=True, help="With the offset.")
@click.option("--print-headers", is_flag=True, help="With the headers, as NAME:VALUE,NAME:VALUE.")
@click.option(
    "-K", "--key-separator", type=escaped_bytes, metavar="TEXT", help="Between fields; default \\t."
)
@click.option(
    "-D", "--delimiter", type=escaped_bytes, metavar="TEXT", help="Behind a record; default \\n."
)
@click.option(
    "-Z",
    "--null-value",
    "null_marker",
    type=escaped_bytes,
    metavar="MARKER",
    help=f"Text for a null; default {_DEFAULT_NULL}, nothing with --raw.",
)
@click.option(
    "--formatter-property",
    "--property",
    "properties",
    type=key_value,
    metavar="KEY=VALUE",
    multiple=True,
    help="Kafka's print.key, print.timestamp, ..., key.separator, line.separator, null.literal.",
)
@click.option(
    "--isolation-level",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    help="Whether records of open and aborted transactions are left out.",
)
@connection_options
def consume(topics: tuple[str, ...], partitions: tuple[int, ...], **options: Any) -> int:
    """Print the records of TOPIC.

    Without --until-end, --max-records or --timeout it goes on until Ctrl-C. The exit status is 1
    if the time was up before the end or the number of records was reached.

    \b
    seglog consume flights --until-end --format '%p %o %k %s\\n'
    seglog consume flights --from 2013-07-04T00:00Z --max-records 10 --json
    """
    write = _format_of(options)
    start = _start_of(options)
    wanted: Any = [(topic, number) for topic in topics for number in partitions] or topics
    if _is_one_offset(start) and len(topics) > 1:
        raise click.UsageError("an offset goes with one topic only")
    consumer = open_consumer(
        wanted,
        start,
        stop_at_end=options["until_end"],
        isolation=options["isolation_level"],
        group=options["group"],
        # A named offset must exist: do not read from another one instead.
        offset_reset="error" if _is_one_offset(start) else None,
    )
    with consumer:
        printing = _Printing(consumer, write, options["max_records"], options["timeout"])
        try:
            is_complete = printing.run(until_end=options["until_end"])
        except KeyboardInterrupt:
            is_complete = True
    print_message(count_text(printing.count, "record"))
    return 0 if is_complete else 1


def _start_of(options: dict[str, Any]) -> "Start":
    from seglog.clients.consumer.starts import Last

    chosen: list[Start] = []
    if options["start"] is not None:
        chosen.append(options["start"])
    if options["from_beginning"]:
        chosen.append("earliest")
    if options["last"] is not None:
        chosen.append(Last(options["last"]))
    if len(chosen) > 1:
        raise click.UsageError("--from, --from-beginning and --last exclude each other")
    if chosen:
        return chosen[0]
    return "earliest" if options["until_end"] else "latest"


def _is_one_offset(start: "Start") -> bool:
    from seglog.clients.consumer.starts import Offset

    return isinstance(start, Offset)


def _format_of(options: dict[str, Any]) -> Format:
    properties = _checked_properties(options["properties"])
    fields = Fields(
        **{
            name.removeprefix("print."): bool(options.get(name.replace(".", "_")))
            or properties.get(name, "true" if name == "print.value" else "false") == "true"
            for name in _PRINT_PROPERTIES
        }
    )
    has_fields = fields != Fields()
    if sum([options["template"] is not None, options["is_json"], options["raw"], has_fields]) > 1:
        raise click.UsageError("--format, --json, --raw and --print-... exclude each other")
    if options["is_json"]:
        return json_format
    null_marker = _text(options["null_marker"], properties, "null.literal", _DEFAULT_NULL)
    if options["template"] is not None:
        try:
            return template_format(options["template"], options["null_marker"] or b"")
        except ValueError as error:
            raise click.UsageError(f"--format: {error}") from error
    if options["raw"]:
        return value_format(options["delimiter"] or b"", options["null_marker"] or b"")
    delimiter = _text(options["delimiter"], properties, "line.separator", "\\n")
    if not has_fields:
        return value_format(delimiter, null_marker)
    separator = _text(options["key_separator"], properties, "key.separator", "\\t")
    return fields_format(fields, separator, delimiter, null_marker)


def _checked_properties(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    properties = as_mapping(pairs, "--formatter-property")
    for name, value in properties.items():
        if name in _PRINT_PROPERTIES:
            if value not in ("true", "false"):
                raise click.UsageError(f"--formatter-property {name}={value}: true or false")
        elif name not in _TEXT_PROPERTIES:
            known = ", ".join((*_PRINT_PROPERTIES, *_TEXT_PROPERTIES))
            raise click.UsageError(f"--formatter-property: there is no {name}; there are {known}")
    return properties


def _text(chosen: bytes | None, properties: dict[str, str], name: str, default: str) -> bytes:
    if chosen is not None:
        return chosen
    try:
        return unescaped(properties.get(name, default))
    except ValueError as error:
        raise click.UsageError(f"--formatter-property {name}: {error}") from error


class _Printing:
    """Reads and writes until something says stop.

    Attributes:
        count: records written so far.
    """

    def __init__(
        self,
        consumer: "Consumer",
        write: Format,
        max_records: int | None,
        timeout_s: float | None,
    ) -> None:
        self.count = 0
        self._consumer = consumer
        self._write = write
        self._max_records = max_records
        self._timeout_s = timeout_s
        self._output: BinaryIO = data_stream()

    def run(self, *, until_end: bool) -> bool:
        """Go on until the end; whether that is the one that was asked for."""
        while True:
            at_most = _RECORDS_PER_READ
            if self._max_records is not None:
                at_most = min(at_most, self._max_records - self.count)
            if at_most == 0:
                return True
            records, is_end = self._read(at_most, until_end=until_end)
            if records:
                self._put(records)
                continue
            if is_end:
                return True
            print_message(f"no record for {self._timeout_s:g} s")
            return not until_end and self._max_records is None

    def _read(self, at_most: int, *, until_end: bool) -> "tuple[list[Record], bool]":
        """Some records; if none, whether that is the end and not the time that was up."""
        if not until_end:
            return self._read_while_wanted(at_most), False
        if self._timeout_s is None:
            # Without a time limit a read comes back empty at the end only.
            return self._consumer.read(at_most, None), True
        begin_s = time.monotonic()
        records = self._consumer.read(at_most, self._timeout_s)
        if not records and time.monotonic() - begin_s > self._timeout_s / 2:
            # Once the end is reached, reading comes back at once.
            begin_s = time.monotonic()
            records = self._consumer.read(at_most, self._timeout_s)
        return records, time.monotonic() - begin_s <= self._timeout_s / 2

    def _read_while_wanted(self, at_most: int) -> "list[Record]":
        """Some records, none when the time is up.

        Raises:
            BrokenPipeError: the output is not read any more; without records to write that would
                not show for hours.
        """
        deadline_s = _FOR_EVER if self._timeout_s is None else time.monotonic() + self._timeout_s
        while True:
            left_s = max(0.0, deadline_s - time.monotonic())
            records = self._consumer.read(at_most, min(left_s, _LOOK_UP_S))
            if records or left_s <= _LOOK_UP_S:
                return records
            if not is_data_wanted():
                raise BrokenPipeError

    def _put(self, records: "list[Record]") -> None:
        self._output.write(b"".join(map(self._write, records)))
        # Before the flush: a user who has seen the record may press Ctrl-C and expects it counted.
        self.count += len(records)
        # The read gave all present records, or many: show them now.
        self._output.flush()
