import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _log_of_the_library() -> Iterator[None]:
    """A command takes over the library's log for its process, which is that of the other tests."""
    logger = logging.getLogger("seglog.clients")
    handlers, propagate = list(logger.handlers), logger.propagate
    yield
    logger.handlers, logger.propagate = handlers, propagate
