"""One thread at a time changes a log, and the tests see to it."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from seglog.broker.storage.ownership import IS_CHECKED
from seglog.config.log_config import LogConfig
from support.log_builder import NOW_MS, append, open_log


def in_another_thread(action: Callable[[], object]) -> BaseException | None:
    """What ``action`` raises in a thread of its own."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as error:  # noqa: BLE001 - handed to the caller
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return raised[0] if raised else None


def test_tests_run_with_the_check() -> None:
    assert IS_CHECKED


def test_thread_that_does_not_own_a_log_cannot_change_it(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    append(log, producer_id=7, sequence=0)
    active = log.segments.active
    for change in (
        lambda: append(log),
        lambda: log.offsets.truncate(0),
        lambda: log.set_high_watermark(0),
        lambda: log.offsets.advance_recovery_point(1),
        lambda: log.segments.remove(0),
        lambda: log.leader_epochs.note(7, 1),
        lambda: log.producer_state.expire(NOW_MS),
        lambda: active.log.append(b"x"),
        lambda: active.time_index.file.write(0, b""),
    ):
        raised = in_another_thread(change)
        assert isinstance(raised, AssertionError), raised
    assert log.offsets.log_end == 1


def test_other_threads_read_and_sync_a_log(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    append(log)
    ticket = log.begin_flush()
    assert in_another_thread(ticket.run) is None
    assert log.finish_flush(ticket)
    assert in_another_thread(lambda: log.segments.active.log.read(0, 10)) is None


def test_log_that_was_handed_over_belongs_to_the_thread_that_changes_it_next(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path / "log", LogConfig(retention_ms=-1))
    append(log)
    log.hand_over()
    assert in_another_thread(lambda: append(log)) is None
    with pytest.raises(AssertionError, match="belongs to thread"):
        append(log)
