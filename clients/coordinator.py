"""Asking the broker that coordinates a group or transactional id, whichever that is just now."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeVar

from seglog.clients.cluster import Cluster
from seglog.clients.errors import BrokerError, ClientError, broker_error
from seglog.clients.retry import answered_in_time
from seglog.protocol.api import (
    Coordinator,
    CoordinatorType,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from seglog.protocol.errors import ErrorCode
from seglog.protocol.wording import naming

MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
"""Answers after which the coordinator has to be looked for again."""
_PASSING: Final = MOVED | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
_AnswerT = TypeVar("_AnswerT")


class CoordinatorClient:
    """Finds the coordinator of one key and sends requests to it. Belongs to the loop.

    Args:
        cluster: connections and pauses.
        key: the name of the group, or the transactional id.
        key_type: which of them it is.
    """

    def __init__(
        self,
        cluster: Cluster,
        key: str,
        key_type: CoordinatorType = CoordinatorType.GROUP,
    ) -> None:
        self.key = key
        self._key_type = key_type
        kind = "group" if key_type is CoordinatorType.GROUP else "transactional id"
        self._about = f"{kind} {key}"
        self._cluster = cluster
        self._node_id: int | None = None
        self._timeout_s = cluster.config.request_timeout_ms / 1000

    @property
    def node_id(self) -> int | None:
        """Who it is, as far as that is known."""
        return self._node_id

    def forget(self) -> None:
        """It is another broker now, or none for the moment."""
        self._node_id = None

    def pause_s(self, attempt: int) -> float:
        """How long to wait after the ``attempt``-th failure in a row."""
        return self._cluster.backoff.delay_s(attempt)

    def warn(self, error: ClientError) -> None:
        """Log a trouble that goes on by itself."""
        self._cluster.warn("%s; trying again", naming(self._about, error))

    async def ask(self, request: Any, timeout_s: float | None = None) -> Any:
        """Send a request once and return the answer, with whatever error it carries.

        Raises:
            BrokerConnectionError, ClientTimeoutError, BrokerError: there is no answer.
        """
        if timeout_s is None:
            timeout_s = self._timeout_s
        try:
            if self._node_id is None:
                self._node_id = await self._find(timeout_s)
            return await self._cluster.request(request, timeout_s, self._node_id)
        except ClientError:
            self.forget()
            raise

    async def _find(self, timeout_s: float) -> int:
        request = FindCoordinatorRequest([self.key], self._key_type)
        response: FindCoordinatorResponse = await self._cluster.request(request, timeout_s)
        found: Coordinator = response.coordinators[0]
        if found.error is not ErrorCode.NONE:
            raise self.error(found.error, found.error_message)
        self._cluster.metadata.add_broker(found.node_id, found.host, found.port)
        return found.node_id

    def error(self, code: ErrorCode, message: str | None = None) -> BrokerError:
        """The exception for an answer about the key."""
        if code in MOVED:
            self.forget()
        if code is ErrorCode.FENCED_INSTANCE_ID and message is None:
            message = "another consumer has joined under the same group_instance_id"
        return broker_error(code, message, self._about)

    async def retry(self, request: Any, timeout_s: float) -> Any:
        """Like ``ask``, but again while there is no answer and time is left.

        For requests that may be carried out twice.
        """
        return await answered_in_time(partial(self.ask, request), timeout_s, self.pause_s)


async def patiently(
    cluster: Cluster, ask: Callable[[], Awaitable[_AnswerT]], timeout_s: float
) -> _AnswerT:
    """Ask again while something is being read after a start or carried out, or moves."""
    return await answered_in_time(
        lambda _left_s: ask(),
        timeout_s,
        cluster.backoff.delay_s,
        is_passing=lambda error: isinstance(error, BrokerError) and error.code in _PASSING,
    )
