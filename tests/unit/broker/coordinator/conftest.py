from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.group_broker import GroupBroker


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[GroupBroker]:
    """A broker with the topic "t" of two partitions; only what the tests restart stays up."""
    broker = await GroupBroker.start(tmp_path)
    await broker.parts.create_topic("t", 2)
    yield broker
    await broker.stop()
