"""The limits of this machine, and a bare socket that speaks the native dialect.

The two loops do with system calls alone what the broker does around them: receive and write a file,
and send a file. They run in a process of their own, as the broker does.
"""

import multiprocessing
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from seglog.protocol.native.client import NativeClient

MEBIBYTE = 1 << 20


class RawConnection:
    """One blocking connection; sends ready-made frames and reads whole answers."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client = NativeClient("benchmark")
        self._buffer = bytearray(4 * MEBIBYTE)
        self.socket.sendall(self.client.hello())
        self._decode_one()

    def frame(self, request: Any) -> bytes:
        """The bytes of a request, with its answer expected."""
        _, parts = self.client.encode_request(request)
        return b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]  # no file here

    def answer(self) -> Any:
        """The next answer, decoded."""
        return self._decode_one()

    def skip_answers(self, count: int) -> None:
        """Read so many answers without a look at them."""
        have = bytearray()
        while count:
            have += self.socket.recv(1 << 18)
            position = 0
            while count and len(have) - position >= 4:
                size = 4 + int.from_bytes(have[position : position + 4], "big")
                if len(have) - position < size:
                    break
                position += size
                count -= 1
            del have[:position]

    def _decode_one(self) -> Any:
        have = 0
        view = memoryview(self._buffer)
        while True:
            size = self.client.frame_size(view, 0, have)
            if size and have >= size:
                return self.client.decode(view, 0, size)
            wanted = (size or have + 4) - have
            if have + wanted > len(view):
                raise ValueError(f"an answer of {size} bytes")
            have += self.socket.recv_into(view[have : have + wanted])

    def close(self) -> None:
        self.socket.close()


@contextmanager
def process(target: Callable[..., None], *arguments: Any) -> Iterator[int]:
    """Run a server function in a process; it is given a listening socket; yields its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        child = multiprocessing.get_context("fork").Process(
            target=target, args=(listener, *arguments), daemon=True
        )
        child.start()
        try:
            yield listener.getsockname()[1]
        finally:
            child.terminate()
            child.join()


def receive_and_write(listener: socket.socket, path: str) -> None:
    """Receive until the end and write every chunk; the answer is one byte."""
    while True:
        connection, _ = listener.accept()
        buffer = memoryview(bytearray(MEBIBYTE))
        with open(path, "wb", buffering=0) as file, connection:
            while count := connection.recv_into(buffer):
                file.write(buffer[:count])
            connection.sendall(b"!")


def send_file(listener: socket.socket, path: str, chunk_bytes: int) -> None:
    """For each byte received send one chunk of a file."""
    descriptor = os.open(path, os.O_RDONLY)
    size = os.fstat(descriptor).st_size
    while True:
        connection, _ = listener.accept()
        position = 0
        with connection:
            while connection.recv(1):
                if position + chunk_bytes > size:
                    position = 0
                left = chunk_bytes
                while left:
                    sent = os.sendfile(connection.fileno(), descriptor, position, left)
                    position += sent
                    left -= sent


def limit_of_receive_and_write(total_bytes: int, folder: str) -> float:
    """Bytes per second of a plain loop of recv and write."""
    payload = bytes(MEBIBYTE)
    path = str(Path(folder) / "raw.log")
    with (
        process(receive_and_write, path) as port,
        socket.create_connection(("127.0.0.1", port)) as connection,
    ):
        started = time.perf_counter()
        for _ in range(total_bytes // MEBIBYTE):
            connection.sendall(payload)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)
        elapsed = time.perf_counter() - started
    Path(path).unlink()
    return total_bytes / elapsed


def limit_of_sendfile(total_bytes: int, folder: str, chunk_bytes: int) -> float:
    """Bytes per second of a plain loop of sendfile, one request for each chunk."""
    path = Path(folder) / "raw.log"
    path.write_bytes(bytes(64 * MEBIBYTE))
    target = memoryview(bytearray(chunk_bytes))
    with (
        process(send_file, str(path), chunk_bytes) as port,
        socket.create_connection(("127.0.0.1", port)) as connection,
    ):
        started = time.perf_counter()
        for _ in range(total_bytes // chunk_bytes):
            connection.sendall(b"?")
            have = 0
            while have < chunk_bytes:
                have += connection.recv_into(target[have:])
        elapsed = time.perf_counter() - started
    path.unlink()
    return total_bytes / elapsed


def scratch_folder() -> "tempfile.TemporaryDirectory[str]":
    """A folder on the disk that a broker of a test would use."""
    return tempfile.TemporaryDirectory(prefix="seglog-benchmark-")
