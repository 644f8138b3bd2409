"""What the clients of a coordinator are told: that something is stored, once it is, or why not."""

import asyncio
from collections.abc import Callable

from seglog.broker.errors import RequestError, describe_error
from seglog.broker.requests.context import Pending, ResponseT
from seglog.broker.requests.services import Services
from seglog.broker.storage.errors import StorageError
from seglog.protocol.errors import ErrorCode


def coordinator_error(
    error: BaseException, *, too_large: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR
) -> RequestError:
    """What a client of the coordinator is told of a failed write.

    Args:
        too_large: the code for records that do not fit into a batch.
    """
    code, message = describe_error(error)
    if code in {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE}:
        code = too_large
    elif isinstance(error, StorageError) or code in {
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return RequestError(code, message)


def answer_when_stored(
    services: Services,
    acknowledged: "asyncio.Future[None] | None",
    response: ResponseT,
    refused: Callable[[ErrorCode], ResponseT],
) -> ResponseT | Pending[ResponseT]:
    """Answer once what the answer promises is as durable as acknowledged records are.

    Args:
        services: of the broker.
        acknowledged: what has to be waited for, None for nothing.
        response: the answer.
        refused: makes the one for a failure.
    """
    if acknowledged is None:
        return response
    return services.begin(_when_stored(acknowledged, response, refused), holds_input=False)


async def _when_stored(
    acknowledged: "asyncio.Future[None]",
    response: ResponseT,
    refused: Callable[[ErrorCode], ResponseT],
) -> ResponseT:
    # Others may wait for the same sync: it is not cancelled with this.
    await asyncio.wait([acknowledged])
    error = acknowledged.exception()
    if error is None:
        return response
    return refused(coordinator_error(error).code)
