"""Background tasks of a client."""

import asyncio

from seglog.clients.tasks import TaskSet


async def test_all_tasks_end_together_also_those_that_take_their_time():
    tasks = TaskSet(lambda reason: None)
    ended = []

    async def stubborn():
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    for number in range(3):
        tasks.spawn(stubborn(), f"task-{number}")
    await asyncio.sleep(0)
    await tasks.cancel_all()
    assert ended == [True] * 3
    await tasks.cancel_all()


async def test_a_client_waits_for_ever_without_a_task_that_it_needs():
    """Cancelling ``asyncio.all_tasks()`` is how some programs end, and it takes ours as well."""
    lost = []
    tasks = TaskSet(lost.append)

    async def broken():
        raise LookupError("bug")

    async def ordinary():
        return None

    tasks.spawn(broken(), "broken", is_vital=True)
    tasks.spawn(broken(), "needless")
    tasks.spawn(ordinary(), "done", is_vital=True)
    cancelled = tasks.spawn(asyncio.sleep(60), "cancelled", is_vital=True)
    ours = tasks.spawn(asyncio.sleep(60), "ours", is_vital=True)
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.wait([cancelled])
    await tasks.cancel_all()
    assert ours.cancelled()
    first, second = lost
    assert first == "its task broken has failed: LookupError('bug')"
    assert second.startswith("its task cancelled was cancelled")


async def test_a_bug_in_a_task_is_reported_under_its_name(caplog):
    tasks = TaskSet(lambda reason: None)

    async def broken():
        raise LookupError("bug")

    task = tasks.spawn(broken(), "broken-one")
    await asyncio.wait([task])
    await asyncio.sleep(0)
    (record,) = caplog.records
    assert "broken-one" in record.getMessage()
    assert record.exc_info[0] is LookupError
