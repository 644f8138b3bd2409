"""The place of one broker's connection: opened when needed, again when lost, never too often."""

import asyncio
import copy
from typing import Final

from seglog.clients.config import Address, ClientConfig
from seglog.clients.connection import BrokerConnection
from seglog.clients.errors import BrokerUnreachableError, ClientClosedError
from seglog.clients.session.retrying import Backoff
from seglog.clients.tasks import TaskSet

SHORTEST_PAUSE_S: Final = 0.5
"""A client tries to connect at most twice a second once an attempt has failed."""


class ConnectionGate:
    """When the next attempt of a client may be made, whichever address it is for."""

    __slots__ = ("opens_at_s",)

    def __init__(self) -> None:
        self.opens_at_s = float("-inf")


class ConnectionSlot:
    """Holds at most one connection to one address, for all its users.

    Args:
        address: where the broker listens.
        config: timeouts and pauses.
        tasks: where the opening runs, so that it outlives the task that asked first.
        gate: shared by the slots of one client.
    """

    def __init__(
        self, address: Address, config: ClientConfig, tasks: TaskSet, gate: ConnectionGate
    ) -> None:
        self.address = address
        self._config = config
        self._tasks = tasks
        self._gate = gate
        self._backoff = Backoff(
            config.reconnect_backoff_ms / 1000,
            config.reconnect_backoff_max_ms / 1000,
            min_s=SHORTEST_PAUSE_S,
        )
        self._connection: BrokerConnection | None = None
        self._opening: asyncio.Task[BrokerConnection | BrokerUnreachableError] | None = None
        self._attempts = 0
        self._not_before_s = float("-inf")
        self._is_closed = False
        self.last_failure = ""
        """Why the last attempt did not work, as part of a sentence."""

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent right now."""
        return self._connection is not None and not self._connection.is_closed

    async def get(self) -> BrokerConnection:
        """Return the connection; opens it, after a pause if the last one did not last.

        Raises:
            BrokerUnreachableError: this attempt failed; the next one waits for its turn.
            ClientClosedError: the client is closed.
        """
        connection = self._connection
        if connection is not None and not connection.is_closed:
            return connection
        if self._is_closed:
            raise ClientClosedError("the client is closed")
        if self._opening is None:
            self._opening = self._tasks.spawn(self._open(), f"seglog-connect-{self.address}")
        opening = self._opening
        await asyncio.wait([opening])
        if opening.cancelled():
            raise ClientClosedError("the client is closed")
        answer = opening.result()
        if isinstance(answer, BrokerUnreachableError):
            raise copy.copy(answer)  # All that were waiting get it; each has its own traceback.
        return answer

    async def _open(self) -> BrokerConnection | BrokerUnreachableError:
        loop = asyncio.get_running_loop()
        try:
            await self._wait_for_turn()
            # The pause counts from every attempt, also one that works: a broker that accepts and
            # closes at once must not be called in a tight loop.
            self._attempts += 1
            self._not_before_s = loop.time() + self._backoff.delay_s(self._attempts)
            try:
                connection = await BrokerConnection.open(self.address, self._config)
            except BrokerUnreachableError as error:
                now_s = loop.time()
                self._not_before_s = now_s + self._backoff.delay_s(self._attempts)
                self._gate.opens_at_s = now_s + SHORTEST_PAUSE_S
                self.last_failure = error.reason
                return error
            self._attempts = 0
            self.last_failure = ""
            self._connection = connection
            return connection
        finally:
            self._opening = None

    async def _wait_for_turn(self) -> None:
        # Another address may fail meanwhile and push the turn back.
        while (pause_s := self._pause_s()) > 0:  # noqa: ASYNC110 - a matter of time, no event
            await asyncio.sleep(pause_s)

    def _pause_s(self) -> float:
        turn_s = max(self._not_before_s, self._gate.opens_at_s)
        return turn_s - asyncio.get_running_loop().time()

    def close(self, reason: str) -> None:
        """Close for good."""
        self._is_closed = True
        if self._connection is not None:
            self._connection.close(reason)
