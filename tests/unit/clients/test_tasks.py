"""Background tasks of a client."""

import asyncio

from seglog.clients.tasks import TaskSet


async def test_all_tasks_end_together_also_those_that_take_their_time():
    tasks = TaskSet()
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


async def test_a_bug_in_a_task_is_reported_under_its_name(caplog):
    tasks = TaskSet()

    async def broken():
        raise LookupError("bug")

    task = tasks.spawn(broken(), "broken-one")
    await asyncio.wait([task])
    await asyncio.sleep(0)
    (record,) = caplog.records
    assert "broken-one" in record.getMessage()
    assert record.exc_info[0] is LookupError
