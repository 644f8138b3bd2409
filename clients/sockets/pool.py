"""Unused connections of this process: a worker that is used again finds them open."""

import os
import threading
from typing import Final

from seglog.clients.config import Address, ClientConfig
from seglog.clients.sockets.connection import SocketConnection

_IDLE_PER_ADDRESS_MAX: Final = 8


class ConnectionPool:
    """Idle connections, to be used again by later tasks. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[tuple[Address, str], list[SocketConnection]] = {}

    def leave_to_parent(self) -> None:
        """Begin anew in a forked child: the parent still talks through the connections."""
        # Another thread of the parent may have held the lock, which nothing here would release.
        self._lock = threading.Lock()
        self._idle = {}

    def acquire(self, address: Address, config: ClientConfig, timeout_s: float) -> SocketConnection:
        """An idle connection, or a new one; raises ``BrokerUnreachableError``."""
        with self._lock:
            idle = self._idle.get((address, config.client_id), [])
            while idle:
                connection = idle.pop()
                if not connection.has_ended:
                    return connection
                connection.close("the broker has closed it")
        return SocketConnection.open(address, config, timeout_s)

    def release(self, connection: SocketConnection, config: ClientConfig) -> None:
        """Give a connection back; one that still waits for answers is closed."""
        with self._lock:
            idle = self._idle.setdefault((connection.address, config.client_id), [])
            is_full = len(idle) >= _IDLE_PER_ADDRESS_MAX
            if not (is_full or connection.is_closed or connection.in_flight):
                idle.append(connection)
                return
        connection.close("not needed any more")


POOL: Final = ConnectionPool()
"""The pool of this process."""

os.register_at_fork(after_in_child=POOL.leave_to_parent)
