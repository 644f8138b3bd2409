"""Waiting for something that ends once."""

import asyncio
import threading

from seglog.clients.completion import Completion, wait_for_event


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


def test_ctrl_c_is_not_noticed_by_a_thread_that_waits_for_something_later():
    """The event is looked at in turns, between which the interpreter looks for signals."""

    class Counted(threading.Event):
        turns = 0

        def wait(self, timeout=None):
            assert timeout is not None
            self.turns += 1
            if self.turns == 3:
                self.set()
            return super().wait(0)

    event = Counted()
    assert wait_for_event(event, None)
    assert event.turns == 3
    assert not wait_for_event(threading.Event(), 0.01)


async def test_a_task_that_is_cancelled_while_it_waits_disturbs_nobody():
    ending = Ending()
    first, second = (asyncio.create_task(ending.wait_async()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    ending.end()
    await asyncio.wait_for(second, 1)
    await ending.wait_async()
