"""Log lines of the client library, as messages at the terminal.

A client that cannot reach its broker logs that and goes on trying; without these lines a command
would seem to hang. But most errors end the command a moment later with the same words, so a line is
shown only if the command still runs then.
"""

import logging
import threading
from typing import Final

from seglog.clients.cli.rendering import print_message

_DELAY_S: Final = 1.0


class _DelayedHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """Show the line in a moment, unless the program has ended by then."""
        timer = threading.Timer(_DELAY_S, print_message, [f"seglog: {record.getMessage()}"])
        timer.daemon = True
        timer.start()


def show_client_log() -> None:
    """Show the warnings of the client library; idempotent."""
    logger = logging.getLogger("seglog.clients")
    if not any(isinstance(handler, _DelayedHandler) for handler in logger.handlers):
        logger.addHandler(_DelayedHandler(logging.WARNING))
        logger.propagate = False
