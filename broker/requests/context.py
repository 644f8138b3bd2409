"""What a handler knows about a request besides the request itself, and how it answers later.

A handler returns its response, or a ``Pending`` that will hold it. Handlers run on the event-loop
thread and never suspend, so everything up to the first return happens in the order in which a
connection hands its requests over.
"""

import asyncio
from typing import Generic, NamedTuple, TypeVar

ResponseT = TypeVar("ResponseT")


class RequestContext(NamedTuple):
    """The client and its listener; one object for all requests of a connection.

    ``host`` and ``port`` are the advertised ones of the listener that was asked, ``peer`` is the
    address of the client as text, ``principal`` the authenticated name.
    """

    client_id: str
    listener_name: str
    host: str
    port: int
    peer: str = ""
    principal: str = "User:ANONYMOUS"


class Pending(Generic[ResponseT]):
    """A response that is not there yet.

    ``future`` is resolved on the event-loop thread with the response; errors are part of that, and
    a future that fails is a defect of the broker. A connection that closes cancels it, which frees
    what the request holds.

    With ``holds_input`` the connection must leave its receive buffer as it is and hand over no
    further request until the future is done: a worker still reads record bytes from the buffer, or
    the next request of the connection has to see the effect of this one.
    """

    __slots__ = ("future", "holds_input")

    def __init__(self, future: "asyncio.Future[ResponseT]", *, holds_input: bool = False) -> None:
        self.future = future
        self.holds_input = holds_input


async def finished(response: ResponseT | Pending[ResponseT]) -> ResponseT:
    """A response, whenever it comes; for work that has to answer what it led to."""
    if isinstance(response, Pending):
        pending: Pending[ResponseT] = response
        return await pending.future
    return response
