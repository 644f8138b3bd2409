"""``seglogd``: the daemon and its offline tools.

Each sub-command is imported at its use: the daemon must not pay for the tools, and the tools not
for the daemon.
"""

import importlib
import os
import sys
from collections.abc import Mapping
from typing import Any, Final

import click

from seglog.broker.version import VERSION

_COMMANDS: Final[Mapping[str, str]] = {
    "serve": "seglog.broker.daemon.serve:serve",
    "dump-log": "seglog.broker.tools.dump_log:dump_log",
    "verify": "seglog.broker.tools.verify:verify",
}

_INTERRUPTED: Final = 130
_STANDARD_STREAMS: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


class _LazyGroup(click.Group):
    """A group that imports a command when it is run or described."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The names, in the order of the table."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """The command of a name, imported now."""
        place = _COMMANDS.get(cmd_name)
        if place is None:
            return None
        module_name, _, attribute = place.partition(":")
        module = importlib.import_module(module_name)
        command = getattr(module, attribute)
        assert isinstance(command, click.Command), place
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; Ctrl-C and a reader that goes away (``| head``) are no failures of it.

        Click would end with 1 in both cases, which a check of files says of a fault that it found.
        """
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            # The rest of the buffer would be written once more at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(0)
        except KeyboardInterrupt:
            ctx.exit(_INTERRUPTED)


def _show_version(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        click.echo(f"seglogd {VERSION}")
        ctx.exit()


@click.command(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def main() -> None:
    """A log-storage broker with Apache Kafka's files and protocol."""
    open_standard_streams()


def open_standard_streams() -> None:
    """Put the null device where a standard stream is closed, as some service managers leave it.

    Else the next file or socket gets its number: a log line would be written into a segment.
    """
    for descriptor, (name, mode) in enumerate(_STANDARD_STREAMS):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
        if getattr(sys, name) is None:  # which is what Python makes of a closed one
            setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))
