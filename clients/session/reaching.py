"""In which order addresses are tried, and how long each may take."""

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final

from seglog.clients.config import Address

FIRST_ROUND_S: Final = 1.0
"""Where there are several servers, none is waited for longer before all have had a chance."""
_SHORTEST_S: Final = 0.001


def share_s(now_s: float, deadline_s: float, left: int) -> float:
    """How long the next of ``left`` attempts may take: each leaves time for those behind it.

    Packets to an address may vanish without an answer.
    """
    return max(_SHORTEST_S, (deadline_s - now_s) / left)


def hosts_of(host: str, found: Iterable[Sequence[Any]]) -> list[str]:
    """The addresses that a name stands for, each once and in order, from ``getaddrinfo``.

    Raises:
        OSError: there is none.
    """
    hosts = [*dict.fromkeys(str(place[0]) for *_, place in found)]
    if not hosts:
        raise OSError(f"nothing is known about {host}")
    return hosts


class Reachability:
    """Which addresses have not answered lately. Threads may share it.

    A client, or a task of a process, that finds the first address hanging must not be followed by
    others that find it hanging, too, each for as long as a connection may take.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures = 0
        self._failed: dict[Address, int] = {}

    def renew_lock(self) -> None:
        """In a forked child: another thread of the parent may have held the lock."""
        self._lock = threading.Lock()

    def in_order(self, addresses: Iterable[Address]) -> list[Address]:
        """Those that have not failed since they answered last, as they are; then the others.

        Of these the one that failed longest ago comes first, so that each gets its turn.
        """
        with self._lock:
            return sorted(addresses, key=lambda address: self._failed.get(address, 0))

    def failed(self, address: Address) -> None:
        """It gave no answer."""
        with self._lock:
            self._failures += 1
            self._failed[address] = self._failures

    def answered(self, address: Address) -> None:
        """It gave one."""
        with self._lock:
            self._failed.pop(address, None)


class Attempts:
    """Which of several servers is tried next, until one is reached or all have failed.

    In a first round none may take long. Those that were not slow but refused the connection are
    not tried again; the others get the rest of the time in a second round.

    Args:
        servers: those to try, the best first.
        deadline_s: when the time for all of them is over.
    """

    def __init__(self, servers: Iterable[Address], deadline_s: float) -> None:
        self._waiting = deque(servers)
        self._slow: deque[Address] = deque()
        self._deadline_s = deadline_s
        self._longest_s = FIRST_ROUND_S if len(self._waiting) > 1 else float("inf")
        self._begun_s = 0.0
        self._share_s = 0.0

    def next(self, now_s: float) -> tuple[Address, float] | None:
        """The next server, and the seconds that it may take; None if all have failed."""
        if not self._waiting:
            if not self._slow:
                return None
            self._waiting, self._slow = self._slow, deque()
            self._longest_s = float("inf")
        self._begun_s = now_s
        share = share_s(now_s, self._deadline_s, len(self._waiting))
        self._share_s = min(share, self._longest_s)
        return self._waiting.popleft(), self._share_s

    def failed(self, server: Address, now_s: float) -> None:
        """The server that was tried last was not reached."""
        # A timer may end a little early.
        was_slow = now_s - self._begun_s >= 0.9 * self._share_s
        if was_slow and self._longest_s == FIRST_ROUND_S:
            self._slow.append(server)
