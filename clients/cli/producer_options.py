"""Options of the producer that ``produce`` and ``bench produce`` share."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from seglog.clients.cli.connections import open_producer
from seglog.clients.cli.rendering import print_message
from seglog.protocol.wording import count_text

if TYPE_CHECKING:
    from seglog.clients.blocking.producer import Producer

_FunctionT = TypeVar("_FunctionT", bound=Callable[..., Any])

BREAK_OFF_S: Final = 1.0
_COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_ACKS: Final = {"0": 0, "1": 1, "all": "all", "-1": "all"}


def producer_options(command: _FunctionT) -> _FunctionT:
    """Give a command the options that ``producer_of`` reads."""
    for option in (
        click.option("--batch-size", type=click.IntRange(min=1), help="Bytes of a full batch."),
        click.option(
            "--linger-ms", type=click.IntRange(min=0), help="How long a batch waits for more."
        ),
        click.option(
            "--acks", type=click.Choice(list(_ACKS)), help="When a record counts as stored."
        ),
        click.option(
            "-z", "--compression", type=click.Choice(_COMPRESSIONS), help="Of the batches."
        ),
    ):
        command = option(command)
    return command


def break_off(producer: "Producer") -> None:
    """End sending after Ctrl-C: requests in flight get a moment, not their whole timeout."""
    dropped = producer.close(BREAK_OFF_S)
    if dropped:
        print_message(f"{count_text(dropped, 'record')} given up, not acknowledged")


def producer_of(options: dict[str, Any]) -> "Producer":
    """Connect the producer that the options describe; see ``open_producer``."""
    acks = options["acks"]
    return open_producer(
        acks=None if acks is None else _ACKS[acks],
        compression=options["compression"],
        linger_ms=options["linger_ms"],
        batch_bytes=options["batch_size"],
    )
