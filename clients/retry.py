"""Asking again on an event loop, for as long as that can help."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from seglog.clients.errors import ClientError
from seglog.clients.session.retrying import Patience

_AnswerT = TypeVar("_AnswerT")


async def answered_in_time(
    ask: Callable[[float], Awaitable[_AnswerT]],
    timeout_s: float,
    pause_s: Callable[[int], float],
    *,
    is_passing: Callable[[ClientError], bool] = lambda error: error.retriable,
    on_retry: Callable[[ClientError], object] = lambda _error: None,
) -> _AnswerT:
    """Ask again while that can help and time is left; the last error is raised.

    Args:
        ask: asks once, within the seconds that it is given.
        timeout_s: for all attempts together.
        pause_s: how long to wait after the n-th failure in a row.
        is_passing: whether it can help to ask again after an error.
        on_retry: told of each error after which that is done.
    """
    loop = asyncio.get_running_loop()
    patience = Patience(pause_s, timeout_s, loop.time())
    while True:
        try:
            return await ask(patience.left_s(loop.time()))
        except ClientError as error:
            wait_s = patience.pause_s(loop.time()) if is_passing(error) else None
            if wait_s is None:
                raise
            on_retry(error)
        await asyncio.sleep(wait_s)
