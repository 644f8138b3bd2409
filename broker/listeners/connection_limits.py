"""How many connections may be open: in all, from one address, and new ones in a second.

Some descriptors are never used for connections. Without them clients could keep the logs from
opening their files.
"""

import resource
from typing import Final

from seglog.config import BrokerConfig

KEPT_FOR_FILES: Final = 32
"""So many descriptors of the process are not for connections."""
_RATE_WINDOW_SECONDS: Final = 1.0


class ConnectionLimits:
    """Counts the connections of all listeners together."""

    def __init__(self, config: BrokerConfig) -> None:
        self.total = 0
        self._by_address: dict[str, int] = {}
        self._window_start = 0.0
        self._window_count = 0
        self._descriptors_end = _descriptors_for_connections()
        self.configure(config)

    def configure(self, config: BrokerConfig) -> None:
        """Take over the limits of a configuration; connections that are open stay."""
        self._max_total = config.max_connections
        self._max_by_address = config.max_connections_per_ip
        self._max_rate = config.max_connection_creation_rate
        self._overrides = {
            limit.name: int(limit.value) for limit in config.max_connections_per_ip_overrides
        }

    def admit(self, address: str, descriptor: int) -> str | None:
        """Count a new connection from ``address``, or return the name of the limit it would break.

        A connection that was admitted must be given to ``leave`` once it is closed.

        Args:
            descriptor: of the connection. The system hands out the smallest that is free, so that
                it tells how many are in use.
        """
        if descriptor >= self._descriptors_end:
            return "open-files"
        if self.total >= self._max_total:
            return "max.connections"
        count = self._by_address.get(address, 0)
        if count >= self._overrides.get(address, self._max_by_address):
            return "max.connections.per.ip"
        self.total += 1
        self._by_address[address] = count + 1
        return None

    def leave(self, address: str) -> None:
        """A connection that was admitted is closed."""
        self.total -= 1
        count = self._by_address[address] - 1
        if count:
            self._by_address[address] = count
        else:
            del self._by_address[address]

    def seconds_until_next(self, now: float) -> float:
        """How long accepting must wait for the rate's sake; 0 also counts one connection."""
        if now - self._window_start >= _RATE_WINDOW_SECONDS:
            self._window_start = now
            self._window_count = 0
        if self._window_count >= self._max_rate:
            return self._window_start + _RATE_WINDOW_SECONDS - now
        self._window_count += 1
        return 0.0


def _descriptors_for_connections() -> int:
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 1 << 31
    return soft - min(KEPT_FOR_FILES, soft // 4)
