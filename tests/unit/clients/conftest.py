"""What the tests of the clients share."""

import asyncio

import pytest

from support.fake_broker import FakeBroker, running_fake_broker


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
