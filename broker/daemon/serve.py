"""``seglogd serve``: run the broker in the foreground until it is told to stop.

Exit status: 0 after a stop signal, 1 if the broker could not start or broke down, 2 if its
configuration is wrong.
"""

import gc
import os
import signal
import sys
from pathlib import Path
from typing import Final

import click

from seglog.broker.daemon.log_output import LOG_FORMATS, set_up_logging
from seglog.config import BrokerConfig, ConfigError, load_broker_config

CONFIG_STATUS: Final = 2


@click.command()
@click.option(
    "--config",
    "config_file",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="SEGLOG_CONFIG",
    help="A file in the syntax of Kafka's server.properties. Without it the defaults hold.",
)
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting that wins over file and environment; may be given several times.",
)
@click.option(
    "--log-format",
    type=click.Choice(LOG_FORMATS),
    default=LOG_FORMATS[0],
    help="How events are written to standard error, one a line.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    help="Events below this level are not written.",
)
def serve(
    config_file: Path | None, overrides: tuple[str, ...], log_format: str, log_level: str
) -> None:
    """Run the broker until SIGTERM or SIGINT.

    SIGHUP reads the configuration again and applies the keys that may change at run time.
    """

    def load() -> BrokerConfig:
        return load_broker_config(config_file, os.environ, overrides)

    # Else a SIGHUP in the first moments would end the daemon; later it has a handler.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        config = load()
    except ConfigError as error:
        click.echo(f"seglogd: {error}", err=True)
        sys.exit(CONFIG_STATUS)
    set_up_logging(log_format, log_level)
    # Nothing becomes garbage while modules are imported and logs are opened; looking for it takes a
    # tenth of a start. The collector is switched on again when the broker is ready.
    gc.disable()
    # The daemon's modules are imported only now: a mistake in the configuration shows at once.
    from seglog.broker.daemon.process import run_until_stopped

    sys.exit(run_until_stopped(config, load))
