"""Output: order, partial sends, files, and what happens to files when a connection dies."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from seglog.broker.listeners.output import (
    BYTES_PER_TURN,
    OutputQueue,
    SourceTruncatedError,
    length_of,
)
from seglog.broker.storage.files.file_system import FileSlice, OsFileSystem
from support.listener_harness import TemporaryRange

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Two connected TCP sockets; the first does not block."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        near = socket.create_connection(listening.getsockname())
        far, _ = listening.accept()
        near.setblocking(False)
        with near, far:
            yield near, far


def received(far: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        data += far.recv(min(1 << 20, count - len(data)))
    return bytes(data)


def drain(queue: OutputQueue, far: socket.socket, count: int) -> bytes:
    data = bytearray()
    while not queue.flush():
        data += far.recv(1 << 20)
    return bytes(data) + received(far, count - len(data))


def test_parts_leave_in_another_order(pair: Pair, tmp_path: Path) -> None:
    """Bytes of all kinds and ranges of files, interleaved, arrive as they were put in."""
    near, far = pair
    path = tmp_path / "data"
    content = os.urandom(3_000_000)
    path.write_bytes(content)
    queue = OutputQueue(near)
    expected = b""
    ranges = []
    for index in range(5):
        head = bytes([index]) * (10 + index * 10_000)
        source = TemporaryRange(path, index * 1000, 100_000 * index)
        ranges.append(source)
        queue.put([head, memoryview(head), bytearray(head), source])
        expected += head * 3 + content[index * 1000 : index * 1000 + 100_000 * index]
    assert queue.queued_bytes == len(expected)
    assert drain(queue, far, len(expected)) == expected
    assert queue.queued_bytes == 0
    assert queue.sent_bytes == len(expected)
    assert [source.released for source in ranges] == [1] * 5


def test_small_answers_leave_one_by_one(pair: Pair) -> None:
    """All that gathered while requests were read is one system call, hence one packet."""
    near, far = pair
    queue = OutputQueue(near)
    for index in range(100):
        queue.put([bytes([index]) * 40])
    assert queue.flush()
    assert len(far.recv(10_000)) == 4000


def test_full_socket_loses_bytes(pair: Pair) -> None:
    """What the socket does not take stays, to the byte."""
    near, far = pair
    queue = OutputQueue(near)
    data = os.urandom(20_000_000)
    queue.put([data[:15_000_000], memoryview(data)[15_000_000:]])
    assert not queue.flush()
    assert 0 < queue.queued_bytes < len(data)
    assert drain(queue, far, len(data)) == data


def test_fast_reader_keeps_the_others_waiting(pair: Pair, tmp_path: Path) -> None:
    """One turn sends a bounded number of bytes even if the reader takes all of them."""
    near, far = pair
    path = tmp_path / "data"
    with path.open("wb") as file:
        file.truncate(50_000_000)
    queue = OutputQueue(near)
    queue.put([TemporaryRange(path, 0, 50_000_000)])
    while not queue.flush():
        assert queue.sent_bytes <= 2 * BYTES_PER_TURN
        far.recv(1 << 20)
        if queue.sent_bytes >= BYTES_PER_TURN:
            break
    queue.close()


def test_records_that_leave_the_log_while_they_are_sent_end_the_connection(
    pair: Pair, tmp_path: Path
) -> None:
    """T6: a part was sent, the log was truncated, and other records took the place of the rest."""
    near, far = pair
    log = OsFileSystem().open_log(str(tmp_path / "a.log"), create=True)
    log.append(b"old" * 10_000_000)
    queue = OutputQueue(near)
    queue.put([b"head", FileSlice(log, 0, 30_000_000)])
    assert not queue.flush()
    assert queue.sent_bytes < 20_000_000
    log.truncate(20_000_000)
    log.append(b"new" * 10_000_000)
    far.recv(1 << 20)
    with pytest.raises(SourceTruncatedError, match="cut to 20000000 bytes"):
        queue.flush()
    queue.close()


def test_file_shrank_after_it_was_announced(pair: Pair, tmp_path: Path) -> None:
    """The frame cannot be completed; the connection must end."""
    near, _ = pair
    path = tmp_path / "data"
    path.write_bytes(b"x" * 100)
    queue = OutputQueue(near)
    source = TemporaryRange(path, 50, 100)
    queue.put([b"head", source])
    with pytest.raises(SourceTruncatedError):
        queue.flush()
    queue.close()
    assert source.released == 1
    assert source.noted_end == 100


def test_connection_dies_and_keeps_files_open(pair: Pair, tmp_path: Path) -> None:
    """Closing the queue lets go of every file in it."""
    near, _ = pair
    path = tmp_path / "data"
    path.write_bytes(b"x" * 100)
    queue = OutputQueue(near)
    sources = [TemporaryRange(path, 0, 100) for _ in range(3)]
    queue.put([b"", *sources])
    queue.close()
    assert [source.released for source in sources] == [1, 1, 1]
    assert queue.queued_bytes == 0


def test_lost_connection_is_silent(pair: Pair) -> None:
    """The owner hears of it as an OSError."""
    near, far = pair
    far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    far.close()
    queue = OutputQueue(near)

    def send_much() -> None:
        for _ in range(100):
            queue.put([b"x" * 1000])
            queue.flush()

    with pytest.raises(OSError, match=r"reset|Broken pipe"):
        send_much()


def test_length_counts_elements_instead_of_bytes(tmp_path: Path) -> None:
    """Memoryviews may have items larger than a byte."""
    wide = memoryview(bytearray(16)).cast("Q")
    (tmp_path / "data").write_bytes(b"x")
    source = TemporaryRange(tmp_path / "data", 0, 7)
    assert length_of([b"ab", bytearray(3), wide, source]) == 2 + 3 + 16 + 7
    source.release()
