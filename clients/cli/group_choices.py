"""Which groups and partitions a command is about, and what to do when a group stands in the way."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from seglog.protocol.types import INT32_MAX

if TYPE_CHECKING:
    from seglog.clients.blocking.admin import Admin

_DIGITS_MAX: Final = 10


class GroupChoice(NamedTuple):
    """The named groups, or all; none if the command line has no choice."""

    names: tuple[str, ...]
    takes_all: bool

    @property
    def is_made(self) -> bool:
        """Whether anything was said."""
        return self.takes_all or bool(self.names)

    def require(self) -> None:
        """Refuse to guess; raises ``click.UsageError`` if nothing was said."""
        if not self.is_made:
            raise click.UsageError("which groups? Say GROUP... or --all-groups")

    def resolve(self, admin: "Admin") -> list[str]:
        """The names of the groups; nothing said is all of them."""
        if self.names:
            return list(self.names)
        return [group.group_id for group in admin.list_groups()]


def group_options(command: Callable[..., Any]) -> Any:
    """Give a command GROUP..., ``--group`` and ``--all-groups``, as the argument ``choice``."""

    @functools.wraps(command)
    def with_choice(
        *, named: tuple[str, ...], also_named: tuple[str, ...], all_groups: bool, **options: Any
    ) -> Any:
        names = tuple(dict.fromkeys((*named, *also_named)))
        if names and all_groups:
            raise click.UsageError("either GROUP... or --all-groups")
        return command(choice=GroupChoice(names, all_groups), **options)

    decorated: Any = with_choice
    for option in (
        click.option("--all-groups", is_flag=True, help="All groups."),
        click.option(
            "--group", "also_named", multiple=True, metavar="GROUP", help="The same as GROUP."
        ),
        click.argument("named", nargs=-1, metavar="[GROUP...]"),
    ):
        decorated = option(decorated)
    return decorated


class TopicChoice(NamedTuple):
    """A topic, and partitions of it; none means all."""

    topic: str
    partitions: tuple[int, ...]


def topic_partitions(text: str) -> TopicChoice:
    """``TOPIC`` or ``TOPIC:PARTITION,PARTITION``.

    Raises:
        click.BadParameter: it has another form.
    """
    topic, colon, numbers = text.partition(":")
    parts = numbers.split(",") if colon else []
    are_numbers = all(
        part.isascii() and part.isdigit() and len(part) <= _DIGITS_MAX and int(part) <= INT32_MAX
        for part in parts
    )
    if not topic or not are_numbers:
        raise click.BadParameter(f"{text!r} is not TOPIC or TOPIC:PARTITION,PARTITION")
    return TopicChoice(topic, tuple(sorted({int(part) for part in parts})))


@contextlib.contextmanager
def way_out() -> Iterator[None]:
    """Add a way out to an error of the broker about a group."""
    from seglog.clients.errors import GroupNotEmptyError, GroupNotFoundError

    try:
        yield
    except GroupNotFoundError as error:
        hint = "'seglog groups list' shows which there are"
        raise GroupNotFoundError(f"{error.message}; {hint}", error.code) from error
    except GroupNotEmptyError as error:
        hint = (
            "stop them, or wait until their sessions are over ('seglog groups describe --members' "
            "shows them)"
        )
        raise GroupNotEmptyError(f"{error.message}; {hint}", error.code) from error
