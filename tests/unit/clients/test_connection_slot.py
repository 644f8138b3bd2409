"""When a connection is opened, and by whom."""

import asyncio

import pytest

from seglog.clients import BrokerUnreachableError, ClientClosedError
from seglog.clients.config import Address, ClientConfig
from seglog.clients.connection_slot import ConnectionGate, ConnectionSlot
from seglog.clients.tasks import TaskSet

CONFIG = ClientConfig(connect_timeout_ms=200)


@pytest.fixture
async def slot(broker):
    tasks = TaskSet(lambda reason: None)
    made = ConnectionSlot(Address(broker.host, broker.port), CONFIG, tasks, ConnectionGate())
    yield made
    made.close("the test ends")
    await tasks.cancel_all()


async def test_all_who_need_it_share_one_connection(broker, slot):
    connections = await asyncio.gather(*(slot.get() for _ in range(10)))
    assert len(set(connections)) == 1
    assert broker.connection_count == 1
    assert slot.is_open


async def test_giving_up_waiting_does_not_stop_the_opening_for_others(broker, slot):
    first, second = (asyncio.create_task(slot.get()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert not (await second).is_closed
    assert broker.connection_count == 1


async def test_a_failed_attempt_is_told_to_all_and_the_next_waits(broker, slot):
    await broker.stop()
    loop = asyncio.get_running_loop()
    begun = loop.time()
    for _ in range(2):
        errors = await asyncio.gather(*(slot.get() for _ in range(3)), return_exceptions=True)
        assert [type(error) for error in errors] == [BrokerUnreachableError] * 3
    assert loop.time() - begun >= 0.5
    assert "cannot connect" in slot.last_failure


async def test_slots_of_one_client_take_turns_once_one_has_failed(broker):
    """C063: at most two attempts a second for a client, not for each address."""
    tasks, gate = TaskSet(lambda reason: None), ConnectionGate()
    dead = ConnectionSlot(Address("127.0.0.1", 1), CONFIG, tasks, gate)
    alive = ConnectionSlot(Address(broker.host, broker.port), CONFIG, tasks, gate)
    with pytest.raises(BrokerUnreachableError):
        await dead.get()
    loop = asyncio.get_running_loop()
    begun = loop.time()
    connection = await alive.get()
    assert loop.time() - begun >= 0.45
    connection.close("the test ends")
    await tasks.cancel_all()


async def test_a_closed_slot_opens_nothing(slot):
    slot.close("done")
    with pytest.raises(ClientClosedError):
        await slot.get()
