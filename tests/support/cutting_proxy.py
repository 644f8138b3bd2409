"""A TCP relay before a broker that cuts connections, and can swallow the answers first."""

import contextlib
import selectors
import socket
import threading
from typing import Self

CHUNK_BYTES = 65_536


class CuttingProxy:
    """Relays ``127.0.0.1:port`` to a broker's port.

    Args:
        target: the port of the broker; may be set later.
    """

    def __init__(self, target: int = 0) -> None:
        self.target = target
        self.swallows_answers = False
        self.swallowed_bytes = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._cuts = 0
        self._lock = threading.Lock()
        self._is_done = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> int:
        """End all connections at once, and swallow no more; how many there were.

        One that is just being opened counts: it may have lost an answer already, and its client
        would wait for that as long as its patience lasts.
        """
        with self._lock:
            pairs, self._pairs = self._pairs, set()
            self._cuts += 1
            self.swallows_answers = False
        for pair in pairs:
            for each in pair:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
        return len(pairs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_done = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while not self._is_done:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._relay, args=(near, self._cuts), daemon=True).start()

    def _relay(self, near: socket.socket, cuts: int) -> None:
        try:
            far = socket.create_connection(("127.0.0.1", self.target), timeout=5)
        except OSError:
            near.close()
            return
        pair = (near, far)
        with self._lock:
            if cuts == self._cuts:
                self._pairs.add(pair)
        with near, far:
            with contextlib.suppress(OSError):
                if pair in self._pairs:
                    self._copy(near, far, cuts)
            # Before they are closed: a cut must not shut the next owner of their numbers down.
            with self._lock:
                self._pairs.discard(pair)

    def _copy(self, near: socket.socket, far: socket.socket, cuts: int) -> None:
        # Not select.select: it refuses descriptors from 1024 on, which a process of many tests has.
        with selectors.DefaultSelector() as selector:
            selector.register(near, selectors.EVENT_READ, far)
            selector.register(far, selectors.EVENT_READ, near)
            while True:
                for key, _ in selector.select():
                    source, target = key.fileobj, key.data
                    assert isinstance(source, socket.socket)
                    data = source.recv(CHUNK_BYTES)
                    if not data:
                        return
                    if source is far and (self.swallows_answers or cuts != self._cuts):
                        self.swallowed_bytes += len(data)
                    else:
                        target.sendall(data)
