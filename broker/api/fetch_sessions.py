"""Fetch sessions: what a client fetches, remembered, so that it names only what changes (KIP-227).

A request in a session says what to add, change or forget; the answer leaves out partitions of which
there is nothing new. Statement ids (SESS) are those of the behaviour reference.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from seglog.broker.api.fetch_session_cache import (
    CachedPartition,
    FetchSession,
    FetchSessionCache,
    Key,
    key_of,
)
from seglog.broker.errors import RequestError
from seglog.protocol.api import FetchRequest, FetchResponse
from seglog.protocol.errors import ErrorCode

NO_SESSION_ID: Final = 0
FULL_EPOCH: Final = 0
"""Fetch all that is named, and begin a session with it."""
SESSIONLESS_EPOCH: Final = -1
"""Fetch all that is named, and that is it."""
PARTITIONS_PER_SESSION_MAX: Final = 100_000
"""As many as a fetch may have; a session that grows beyond is closed."""

FinishResponse: TypeAlias = Callable[[FetchResponse], None]


class FetchSessions:
    """What fetch requests do to sessions; one object a broker.

    Args:
        cache: the sessions.
        monotonic_ms: the clock.
    """

    __slots__ = ("_monotonic_ms", "cache")

    def __init__(self, cache: FetchSessionCache, monotonic_ms: Callable[[], int]) -> None:
        self.cache = cache
        self._monotonic_ms = monotonic_ms

    def begin(self, request: FetchRequest) -> FinishResponse:
        """Take a request in; afterwards it names all partitions that are to be read.

        Returns:
            What turns the response with all their results into the one for the client. It raises
            RequestError if another request of the same session has come in meanwhile.

        Raises:
            RequestError: there is no such session, or the request does not belong to it here and
                now. Then it changed nothing (SESS-10).
        """
        if request.session_epoch in (FULL_EPOCH, SESSIONLESS_EPOCH):
            self.cache.remove(request.session_id)
            if request.session_epoch == SESSIONLESS_EPOCH:
                return _leave_as_it_is
            return lambda response: self._finish_full(request, response)
        return self._begin_incremental(request)

    def _begin_incremental(self, request: FetchRequest) -> FinishResponse:
        cache = self.cache
        session = cache.find(request.session_id)
        if session is None:
            raise _refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, request, "is not known")
        if request.session_epoch != session.epoch:
            message = f"expects epoch {session.epoch}, not {request.session_epoch}"
            raise _refusal(ErrorCode.INVALID_FETCH_SESSION_EPOCH, request, message)
        if request.uses_topic_ids != session.uses_topic_ids:
            message = "names topics by id, or not, in all of its requests"
            raise _refusal(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, request, message)
        session.change(request)
        request.partitions = [cached.entry for cached in session.partitions.values()]
        if not request.partitions:
            cache.remove(session.id)
            return _leave_as_it_is
        cache.touch(session, self._monotonic_ms())
        if len(session.partitions) > PARTITIONS_PER_SESSION_MAX or cache.is_overfull:
            cache.remove(session.id)
            raise _refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, request, "grew too large")
        epoch = session.advance()
        return lambda response: _finish_incremental(session, epoch, request, response)

    def _finish_full(self, request: FetchRequest, response: FetchResponse) -> None:
        partitions: dict[Key, CachedPartition] = {}
        for entry, result in zip(request.partitions, response.partitions, strict=True):
            cached = CachedPartition(entry)
            cached.take(result)
            partitions[key_of(entry, uses_topic_ids=request.uses_topic_ids)] = cached
        session = self.cache.create(
            partitions,
            self._monotonic_ms(),
            is_follower=request.replica_id >= 0,
            uses_topic_ids=request.uses_topic_ids,
        )
        response.session_id = NO_SESSION_ID if session is None else session.id


def _leave_as_it_is(_response: FetchResponse) -> None:
    """The answer of a request without a session names all partitions."""


def _finish_incremental(
    session: FetchSession, epoch: int, request: FetchRequest, response: FetchResponse
) -> None:
    if session.epoch != epoch:
        message = f"has gone on to epoch {session.epoch} meanwhile"
        raise _refusal(ErrorCode.INVALID_FETCH_SESSION_EPOCH, request, message)
    session.keep_news(response)
    response.session_id = session.id


def _refusal(code: ErrorCode, request: FetchRequest, message: str) -> RequestError:
    return RequestError(code, f"fetch session {request.session_id} {message}")
