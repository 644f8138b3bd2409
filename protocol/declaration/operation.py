"""An operation: its request and its response, and what holds for both."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from seglog.protocol.declaration.keys import ApiKey
from seglog.protocol.declaration.layout import Variant, WireMessage
from seglog.protocol.declaration.refusal import refuse
from seglog.protocol.declaration.versions import version_range
from seglog.protocol.errors import ErrorCode

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Withholding(Generic[RequestT, ResponseT, ResultT]):
    """Parts of a request that its version must not ask for.

    ``take`` removes them from the request before a handler sees it and returns their refusals;
    ``put_back`` adds these to the response.
    """

    take: Callable[[RequestT, int], list[ResultT]]
    put_back: Callable[[ResponseT, list[ResultT]], None]


class Operation:
    """One operation of both dialects.

    Args:
        key: its number.
        request, response: the classes that ``shape`` made, or variants of them.
        versions: of Kafka's protocol, that can be read and answered, if only to refuse them; ""
            for an operation that only the native dialect has.
        served: the versions that a handler may see; all if left out.
        flexible: the versions with compact lengths and tagged blocks.
        is_native: whether the native dialect has it.
        finish_request: sees a request after decoding, with its version: for what differs between
            versions and no declaration of a field can say.
        start_response: makes of a response the one to encode in a version.
        fail: the response that refuses a whole request, where ``refusal`` cannot derive it.
        withholding: see there.
    """

    def __init__(
        self,
        key: ApiKey,
        request: Any,
        response: Any,
        *,
        versions: str = "",
        served: str = "",
        flexible: str = "",
        is_native: bool = True,
        finish_request: Callable[[Any, int], None] | None = None,
        start_response: Callable[[Any, int], Any] | None = None,
        fail: Callable[[Any, ErrorCode, str | None], Any] | None = None,
        withholding: Withholding[Any, Any, Any] | None = None,
    ) -> None:
        self.key = key
        self.name = key.name.title().replace("_", "")
        self.versions = version_range(versions)
        self.served = version_range(served or versions)
        self.flexible = version_range(flexible)
        self.is_native = is_native
        self.finish_request = finish_request
        self.start_response = start_response
        self.withholding = withholding
        self.request_class = _class_of(request)
        self.response_class = _class_of(response)
        self.request = self._message(request, "Request")
        self.response = self._message(response, "Response")
        self._fail = fail

    def _message(self, declared: Any, suffix: str) -> WireMessage:
        message = WireMessage(
            declared,
            self.name + suffix,
            api_key=self.key,
            versions=self.versions,
            flexible=self.flexible,
        )
        if not isinstance(declared, Variant):
            declared.__message__ = message
        return message

    def fail(self, request: Any, error: ErrorCode, text: str | None) -> Any:
        """The response that refuses all of ``request`` with one error."""
        if self._fail is not None:
            return self._fail(request, error, text)
        return refuse(self.response.layout, self.request.layout, request, error, text)


def _class_of(declared: Any) -> type[Any]:
    made: type[Any] = declared.made if isinstance(declared, Variant) else declared
    return made
