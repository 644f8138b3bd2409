"""Which addresses have not answered lately, remembered by the process.

A task that finds the first address of ``bootstrap.servers`` hanging must not be followed by others
of the same worker that find it hanging, too, each for as long as a connection may take.
"""

import threading
from collections.abc import Iterable
from typing import Final

from seglog.clients.config import Address


class Reachability:
    """Puts addresses in the order in which they are worth asking."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures = 0
        self._failed: dict[Address, int] = {}

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


REACHABILITY: Final = Reachability()
"""What this process knows."""
