"""A cleaner over real logs, with settings of the test."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from support.broker_parts import BrokerParts
from support.cleaning_broker import Cleaning


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Callable]:
    started: list[Cleaning] = []

    async def begin(**settings: str) -> Cleaning:
        parts = await BrokerParts.start(
            tmp_path, {key.replace("_", "."): value for key, value in settings.items()}
        )
        started.append(Cleaning(parts))
        return started[-1]

    yield begin
    for cleaning in started:
        assert await cleaning.cleaner.stop(5)
        await cleaning.parts.stop()
