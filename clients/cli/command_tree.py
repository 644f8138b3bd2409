"""Groups of commands that are imported when they are run: a command pays only for itself."""

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import click


class Entry(NamedTuple):
    """A command that is not imported yet.

    Attributes:
        place: ``module:attribute``.
        summary: one line for the list of commands, which must not import them all.
    """

    place: str
    summary: str


class LazyGroup(click.Group):
    """A group whose commands stand in a table.

    Args:
        entries: by the name under which a command is called, in the order of the list of commands.
        **attributes: what ``click.Group`` takes.
    """

    def __init__(self, *, entries: Mapping[str, Entry], **attributes: Any) -> None:
        super().__init__(**attributes)
        self._entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The names, in the order of the table."""
        return list(self._entries)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; the error for an unknown one names similar ones."""
        name = args[0]
        if name not in self._entries and not name.startswith("-"):
            # Imported only now: a correct command does not pay for it.
            from difflib import get_close_matches

            likes = " or ".join(map(repr, get_close_matches(name, self._entries)))
            ctx.fail(f"No such command {name!r}." + (f" Did you mean {likes}?" if likes else ""))
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """The command of a name, imported now; None if there is none."""
        entry = self._entries.get(cmd_name)
        if entry is None:
            return None
        module_name, _, attribute = entry.place.partition(":")
        command = getattr(importlib.import_module(module_name), attribute)
        assert isinstance(command, click.Command), entry.place
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self._entries.items()])
