"""``seglog``: look into a broker, change it, write to it and read from it.

Exit status: 0 done, 1 it failed (one sentence on standard error says why), 2 the command line
cannot be right, 130 interrupted by Ctrl-C, 143 ended by SIGTERM. A reader of the output that goes
away (``| head``) is no failure.
"""

import warnings
from collections.abc import Mapping
from typing import Any, Final

import click

from seglog.clients.cli.command_tree import Entry, LazyGroup
from seglog.clients.cli.rendering import drop_data, flush_data, open_standard_streams
from seglog.clients.cli.settings import (
    BOOTSTRAP_VARIABLE,
    connection_options,
    settings_of,
)
from seglog.clients.cli.signals import ended_by_signals
from seglog.protocol.errors import SeglogError

_INTERRUPTED: Final = 130
_SIGNALLED: Final = 128
_PLACE: Final = "seglog.clients.cli."
_COMMANDS: Final[Mapping[str, Entry]] = {
    name: Entry(_PLACE + place, summary)
    for name, place, summary in (
        ("topics", "topics:topics", "Create, list, describe, alter and delete topics."),
        ("produce", "produce:produce", "Send records, one for each line."),
        ("consume", "consume:consume", "Print records."),
        ("offsets", "offsets:offsets", "Show the first and last offsets, or those of a time."),
        ("delete-records", "delete_records:delete_records", "Delete the oldest records."),
        ("configs", "configs:configs", "Describe and alter configurations."),
        ("groups", "groups:groups", "Look after consumer groups: lag, resets, deletion."),
        (
            "transactions",
            "transactions:transactions",
            "Look after transactions: which are open or hang, abort.",
        ),
        ("partitions", "partitions:partitions", "Show offsets and state of partitions."),
        ("segments", "partitions:segments", "Show the segments of partitions."),
        ("log-dirs", "log_dirs:log_dirs", "Show the data directories and their contents."),
        ("retention", "housekeeping:retention", "Apply retention now, or show its plan."),
        ("clean", "housekeeping:clean", "Compact a topic now."),
        ("roll", "housekeeping:roll", "Begin new segments."),
        ("bench", "bench:bench", "Measure how fast records are taken and given."),
        ("health", "health:health", "Say whether the broker is well."),
    )
}


class _Failure(click.ClickException):
    """Something went wrong; one sentence."""

    exit_code = 1

    def show(self, file: Any = None) -> None:
        """Write the sentence to standard error."""
        click.echo(f"seglog: {self.message}", file=file, err=file is None)


class _Mistake(_Failure):
    """The command line cannot be right."""

    exit_code = 2


class _Program(LazyGroup):
    """The root: turns errors of commands into one sentence and an exit status."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a number that it returns is the exit status."""
        open_standard_streams()
        with ended_by_signals() as ended_by:
            return self._run(ctx, ended_by)

    def _run(self, ctx: click.Context, ended_by: list[int]) -> Any:
        # Ctrl-C may come after a call was made and before it was handed to the client's loop.
        warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
        try:
            status = super().invoke(ctx)
            flush_data()
        except BrokenPipeError:
            drop_data()
            ctx.exit(0)
        except KeyboardInterrupt:
            ctx.exit(_SIGNALLED + ended_by[-1] if ended_by else _INTERRUPTED)
        except (OSError, SeglogError) as error:
            raise _failure_of(ctx, error) from error
        except click.UsageError:
            raise
        except click.ClickException as error:
            raise _Failure(error.message) from error
        ctx.exit(status if isinstance(status, int) else 0)


def _failure_of(ctx: click.Context, error: Exception) -> _Failure:
    # Imported only now: it is there already if a client raised, and else not needed.
    from seglog.clients.errors import ClientError, ConfigurationError

    if isinstance(error, OSError) and error.filename is not None:
        return _Failure(f"{error.filename}: {error.strerror}")
    if isinstance(error, OSError) and not isinstance(error, SeglogError):
        return _Failure(error.strerror or str(error))
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, ConfigurationError):
        return _Mistake(text)
    address = settings_of(ctx).address
    if isinstance(error, ClientError) and address not in text:
        text = f"{address}: {text}"
    return _Failure(text)


def _show_version(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        # importlib.metadata is slow to import; no other command must pay for it.
        from importlib.metadata import version

        click.echo(f"seglog {version('seglog')}")
        ctx.exit()


@click.command(
    cls=_Program,
    entries=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"The broker may also be named by ${BOOTSTRAP_VARIABLE}.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
@connection_options
def main() -> None:
    """Look into a seglog broker, change it, write to it and read from it."""
