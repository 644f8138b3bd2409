"""Lines for a reader that may stop reading: nobody waits, what is dropped is counted."""

import fcntl
import json
import logging
import os
import resource
import threading
from collections.abc import Iterator

import pytest

from seglog.broker.daemon import log_output
from seglog.broker.runtime.line_output import LineOutput


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe of one page."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    yield reader, writer
    os.close(reader)
    os.close(writer)


def read_all(reader: int, end: bytes) -> list[str]:
    text = b""
    while not text.endswith(end):
        text += os.read(reader, 65536)
    return text.decode().splitlines()


def test_lines_arrive_in_order(pipe: tuple[int, int]) -> None:
    output = LineOutput(pipe[1])
    for number in range(1000):
        output.write(f"line {number}")
    assert read_all(pipe[0], b"line 999\n") == [f"line {number}" for number in range(1000)]
    assert output.flush()
    assert output.dropped_lines == 0


def test_a_full_pipe_holds_up_nobody_and_costs_the_lines_beyond_the_bound(
    pipe: tuple[int, int],
) -> None:
    """The lines that fit arrive whole once somebody reads again, with a count of the others."""
    output = LineOutput(pipe[1], queued_bytes_max=10_000)
    reported: list[int] = []
    output.on_dropped = reported.append
    for number in range(3000):
        output.write(f"{number:09d}")
    dropped = output.dropped_lines
    assert 0 < dropped < 3000
    assert not output.flush(0.01)
    text = os.read(pipe[0], 65536)
    while not output.flush(0.01):
        text += os.read(pipe[0], 65536)
    output.write("later")
    while not text.endswith(b"later\n"):
        text += os.read(pipe[0], 65536)
    lines = text.decode().splitlines()
    numbers = [int(line) for line in lines if line.isdigit()]
    assert len(numbers) == 3000 - dropped
    assert numbers == sorted(numbers)
    assert output.flush()
    assert sum(reported) == dropped


def test_a_reader_that_is_gone_is_counted_and_ends_nothing() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    output = LineOutput(writer)
    output.write("one")
    output.write("two")
    assert output.flush()
    assert output.dropped_lines == 2
    os.close(writer)


def test_a_descriptor_that_does_not_block_is_waited_for(pipe: tuple[int, int]) -> None:
    """A shell may share the pipe with a program that makes it non-blocking; its number is high."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    high = fcntl.fcntl(pipe[1], fcntl.F_DUPFD, min(1500, limit - 1))
    os.set_blocking(high, False)
    output = LineOutput(high)
    for number in range(2000):
        output.write(f"line {number}")
    assert read_all(pipe[0], b"line 1999\n")[-1] == "line 1999"
    assert output.dropped_lines == 0
    os.close(high)


def test_many_threads_write_whole_lines(pipe: tuple[int, int]) -> None:
    output = LineOutput(pipe[1])
    threads = [
        threading.Thread(target=lambda n=n: [output.write(str(n) * 50) for _ in range(100)])
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    text = b""
    while text.count(b"\n") < 400:
        text += os.read(pipe[0], 65536)
    lines = text.decode().splitlines()
    assert sorted(lines) == sorted(str(n) * 50 for n in range(4) for _ in range(100))


def test_an_event_whose_values_do_not_fit_is_written_as_it_is(
    monkeypatch: pytest.MonkeyPatch, pipe: tuple[int, int]
) -> None:
    output = LineOutput(pipe[1])
    monkeypatch.setattr(log_output, "STANDARD_ERROR", output)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        log_output.set_up_logging("json", "info")
        logging.getLogger("seglog.x").warning("event=bad count=%d", "many")
        logging.getLogger("seglog.x").warning("event=good count=%d", 1)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    assert output.flush(5)
    bad, good = map(json.loads, os.read(pipe[0], 65536).decode().splitlines())
    assert bad["event"] == "unreadable-event"
    assert "many" in bad["args"]
    assert good["count"] == 1
