"""Which broker is meant and how its clients are set up: the options that every command takes.

They may stand before or behind the command's name (``seglog --bootstrap-server H topics list`` or
``seglog topics list --bootstrap-server H``); the later one wins. A properties file comes first,
single properties override it.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from seglog.clients.cli.parameters import key_value
from seglog.clients.cli.properties import parse_properties

DEFAULT_BOOTSTRAP_SERVER: Final = "127.0.0.1:9092"
BOOTSTRAP_VARIABLE: Final = "SEGLOG_BOOTSTRAP_SERVER"
BOOTSTRAP_PROPERTY: Final = "bootstrap.servers"

_FunctionT = TypeVar("_FunctionT", bound=Callable[..., Any])


@dataclass
class Settings:
    """Settings for the broker's address and the clients; kept at the root of click's contexts.

    Attributes:
        bootstrap_server: said on the command line; None if it was not.
        properties: client properties in Kafka's spelling.
        environment_server: the address in the environment.
    """

    bootstrap_server: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    environment_server: str | None = field(
        default_factory=lambda: os.environ.get(BOOTSTRAP_VARIABLE)
    )

    @property
    def address(self) -> str:
        """``host:port`` of the broker, several with commas."""
        return (
            self.bootstrap_server
            or self.properties.get(BOOTSTRAP_PROPERTY)
            or self.environment_server
            or DEFAULT_BOOTSTRAP_SERVER
        )


def settings_of(ctx: click.Context) -> Settings:
    """The settings of this run of the program."""
    root = ctx.find_root()
    if root.obj is None:
        root.obj = Settings()
    assert isinstance(root.obj, Settings)
    return root.obj


def current_settings() -> Settings:
    """The settings, for a command that runs."""
    return settings_of(click.get_current_context())


def connection_options(command: _FunctionT) -> _FunctionT:
    """Give a command the options that say which broker is meant."""
    for option in (
        click.option(
            "-X",
            "--command-property",
            multiple=True,
            metavar="KEY=VALUE",
            expose_value=False,
            callback=_take_properties,
            help="A client property, e.g. request.timeout.ms=5000.",
        ),
        click.option(
            "--command-config",
            metavar="FILE",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            expose_value=False,
            # Before the single properties, which override it.
            is_eager=True,
            callback=_take_file,
            help="A file with client properties.",
        ),
        click.option(
            "--bootstrap-server",
            metavar="HOST:PORT",
            expose_value=False,
            callback=_take_bootstrap_server,
            help=f"The broker; default {DEFAULT_BOOTSTRAP_SERVER}, or ${BOOTSTRAP_VARIABLE}.",
        ),
    ):
        command = option(command)
    return command


def _take_bootstrap_server(
    ctx: click.Context, _parameter: click.Parameter, value: str | None
) -> None:
    if value is None:
        return
    if not value.strip():
        # A variable that is not set: taking another broker instead could do harm there.
        raise click.BadParameter("it is empty")
    settings_of(ctx).bootstrap_server = value


def _take_file(ctx: click.Context, _parameter: click.Parameter, value: Path | None) -> None:
    if value is None:
        return
    try:
        entries = parse_properties(value.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{value} cannot be read: {error}") from error
    except ValueError as error:
        raise click.BadParameter(f"{value}, {error}") from error
    for key, content in entries:
        # Java keeps blanks behind a value; no value of a client here needs them.
        settings_of(ctx).properties[key] = content.strip()


def _take_properties(
    ctx: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> None:
    for text in values:
        key, value = key_value(text)
        settings_of(ctx).properties[key] = value.strip()
