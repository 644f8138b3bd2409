"""Waiting for something that ends once."""

import asyncio
import threading

from seglog.clients.completion import Completion


class Ending(Completion):
    """A completion that a test can end."""

    def end(self):
        self._finish()


def test_threads_callbacks_and_latecomers_all_hear_of_the_end():
    ending = Ending()
    heard = []
    ending.add_callback(lambda: heard.append("early"))
    thread = threading.Thread(target=lambda: heard.append(ending.wait(5)))
    thread.start()
    assert not ending.wait(0)
    ending.end()
    ending.end()
    thread.join()
    ending.add_callback(lambda: heard.append("late"))
    assert sorted(heard, key=str) == [True, "early", "late"]
    assert ending.is_done
    assert ending.wait(0)


async def test_a_task_that_is_cancelled_while_it_waits_disturbs_nobody():
    ending = Ending()
    first, second = (asyncio.create_task(ending.wait_async()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    ending.end()
    await asyncio.wait_for(second, 1)
    await ending.wait_async()
