from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.broker_parts import BrokerParts


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[BrokerParts]:
    """A broker over an empty folder."""
    parts = await BrokerParts.start(tmp_path)
    yield parts
    await parts.stop()
