"""What the tests of the clients share."""

import asyncio
from collections.abc import Callable

import pytest

from support.fake_broker import FakeBroker, running_fake_broker
from support.jumping_loop import JumpingLoop


@pytest.fixture
async def broker():
    """A fake broker on the test's loop."""
    async with FakeBroker() as fake:
        yield fake


@pytest.fixture
def threaded_broker():
    """A fake broker on a thread of its own, for the blocking clients."""
    with running_fake_broker() as fake:
        yield fake


@pytest.fixture
async def no_complaints():
    """Fail a test after which the loop has something to complain about."""
    complaints = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    yield complaints
    assert complaints == []


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Pauses of the clients take no time; only readers are tried on the clock of the system.

    A fetch of theirs that waits for records would come back at once, again and again.
    """
    is_reader = item.path.parent.name == "consumer"
    return {"loop": asyncio.SelectorEventLoop if is_reader else JumpingLoop}
