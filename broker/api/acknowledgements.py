"""When the answer to a produce request is true: as much is safe as the request has asked for."""

import asyncio
from functools import partial
from typing import TypeAlias

from seglog.broker.errors import describe_error
from seglog.protocol.api import ProducePartitionResult, ProduceRequest, ProduceResponse
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import Acks

Waiting: TypeAlias = list[tuple[ProducePartitionResult, "asyncio.Future[None]"]]
"""Results of partitions, each with what its promise waits for."""


def when_acknowledged(
    response: ProduceResponse, waiting: Waiting, request: ProduceRequest
) -> "asyncio.Future[ProduceResponse]":
    """The response, once everything it promises is true; bounded in time for acks=all.

    Args:
        response: holds the results in ``waiting``; a promise that fails becomes an error in it.
        waiting: results with what they wait for; must not be empty.
        request: whose acks and timeout count.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[ProduceResponse] = loop.create_future()
    unfinished = len(waiting)
    timeout_ms = request.timeout_ms

    def one_done(result: ProducePartitionResult, done: "asyncio.Future[None]") -> None:
        nonlocal unfinished
        error = done.exception()
        if answer.done():
            return
        if error is not None:
            _take_back(result, *describe_error(error))
        unfinished -= 1
        if unfinished == 0:
            answer.set_result(response)

    def too_late() -> None:
        if answer.done():
            return
        message = f"written, but not acknowledged within {timeout_ms} ms"
        for result, acknowledged in waiting:
            if not acknowledged.done():
                _take_back(result, ErrorCode.REQUEST_TIMED_OUT, message)
        answer.set_result(response)

    if request.acks == Acks.ALL:
        timer = loop.call_later(max(0, timeout_ms) / 1000, too_late)
        # A client that hangs up cancels the answer: the timer would keep all of it until its time.
        answer.add_done_callback(lambda _answer: timer.cancel())
    for result, acknowledged in waiting:
        acknowledged.add_done_callback(partial(one_done, result))
    return answer


def _take_back(result: ProducePartitionResult, code: ErrorCode, message: str) -> None:
    """Turn a result that was meant to be a success into an error."""
    result.error = code
    result.error_message = message
    result.base_offset = result.log_append_time_ms = result.log_start_offset = -1
