"""One table from the type of a request to the operation that answers it."""

from collections.abc import Callable, Collection
from typing import Any

from seglog.broker.requests.context import RequestContext

Operation = Callable[[Any, RequestContext], object]


class Handlers:
    """All operations of a broker; both dialects hand their decoded requests to ``handle``.

    ``handle`` returns the response that belongs to the request type, or a ``Pending`` with it. It
    never raises because of what a request asks for: errors are part of the response.
    """

    __slots__ = ("_operations",)

    def __init__(self) -> None:
        self._operations: dict[type, Operation] = {}

    def register(self, request_type: type, operation: Operation) -> None:
        """Let ``operation`` answer the requests of one type.

        Raises:
            ValueError: the type has an operation already.
        """
        if request_type in self._operations:
            raise ValueError(f"{request_type.__name__} is registered twice")
        self._operations[request_type] = operation

    @property
    def request_types(self) -> Collection[type]:
        """The types that have an operation."""
        return self._operations.keys()

    def handle(self, request: object, context: RequestContext) -> object:
        """Answer ``request``, or begin to."""
        return self._operations[type(request)](request, context)
