"""Workers give way to whoever wakes up, and change nothing else about how they are scheduled."""

import os
import sys
import threading
from collections.abc import Callable

import pytest

from seglog.broker.runtime.long_turns import take_long_turns

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux")


def in_a_thread(job: Callable[[], object]) -> object:
    """Its result; what it does to its thread ends with that."""
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(job()))
    thread.start()
    thread.join()
    return results[0]


def test_niceness_that_the_operator_gave_is_kept() -> None:
    def job() -> tuple[bool, int]:
        os.setpriority(os.PRIO_PROCESS, 0, 7)
        return take_long_turns(), os.getpriority(os.PRIO_PROCESS, 0)

    assert in_a_thread(job) == (True, 7)


def test_thread_that_works_in_bulk_takes_the_place_of_the_loop_in_the_midst_of_a_request() -> None:
    def policy(*, interrupts_others: bool) -> tuple[bool, int]:
        return take_long_turns(interrupts_others=interrupts_others), os.sched_getscheduler(0)

    assert in_a_thread(lambda: policy(interrupts_others=False)) == (True, os.SCHED_BATCH)
    assert in_a_thread(lambda: policy(interrupts_others=True)) == (True, os.SCHED_OTHER)


def test_policy_that_the_operator_chose_is_kept() -> None:
    def job() -> tuple[bool, int]:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        return take_long_turns(), os.sched_getscheduler(0)

    assert in_a_thread(job) == (False, os.SCHED_BATCH)


def test_unknown_machine_goes_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "abacus")
    assert not take_long_turns()
