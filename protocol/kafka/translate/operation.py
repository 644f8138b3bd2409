"""One operation of the Kafka dialect: its messages, and how they become typed requests.

Versions end here. A handler sees a request of ``seglog.protocol.api`` and answers with a response
of it; where a version cannot say what the response says, the translation maps it: an error code
that came with a later version becomes the one that it replaced.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Generic, Protocol, TypeVar

from seglog.protocol.api import ApiKey
from seglog.protocol.declaration.layout import WireMessage
from seglog.protocol.declaration.operation import Withholding
from seglog.protocol.declaration.versions import VersionRange
from seglog.protocol.dialect import Part
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka import codec
from seglog.protocol.kafka.schema import Message

AskedT = TypeVar("AskedT", bound=Message)
AnsweredT = TypeVar("AnsweredT", bound=Message)
RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Operation(Generic[AskedT, AnsweredT, RequestT, ResponseT]):
    """How one operation is read and written.

    Attributes:
        key: its number.
        request_message, response_message: their declarations.
        read: makes a typed request of a decoded message.
        write: makes a message of a typed response.
        fail: the response that refuses a whole request with one error.
        withholding: see there.
        fast_decode: reads a usual request without a message between; None where it is unusual.
        fast_encode: writes a usual response likewise.
    """

    key: ApiKey
    request_message: type[AskedT]
    response_message: type[AnsweredT]
    read: Callable[[AskedT, int], RequestT]
    write: Callable[[ResponseT, int], AnsweredT]
    fail: Callable[[RequestT, ErrorCode, str | None], ResponseT]
    withholding: Withholding[RequestT, ResponseT, Any] | None = None
    fast_decode: Callable[[memoryview, int, int], RequestT | None] | None = None
    fast_encode: Callable[[ResponseT, int], list[Part] | None] | None = None

    @property
    def request(self) -> WireMessage:
        """The request as a message."""
        return self.request_message.__message__

    @property
    def response(self) -> WireMessage:
        """The response as a message."""
        return self.response_message.__message__

    @property
    def versions(self) -> VersionRange:
        """The versions that can be read and answered, if only to refuse them."""
        return self.request_message.versions

    @property
    def served(self) -> VersionRange:
        """The versions that a handler may see."""
        return self.request_message.served

    def decode(self, frame: memoryview, position: int, version: int) -> RequestT:
        """Read the body at ``position``; raises ``ProtocolError`` where it is malformed."""
        if self.fast_decode is not None:
            request = self.fast_decode(frame, position, version)
            if request is not None:
                return request
        message, _ = codec.decode(self.request_message, version, frame, position)
        return self.read(message, version)

    def encode(self, response: ResponseT, version: int) -> list[Part]:
        """Write a body; raises ``ProtocolError`` where a value does not fit its field."""
        if self.fast_encode is not None:
            parts = self.fast_encode(response, version)
            if parts is not None:
                return parts
        return codec.encode(self.write(response, version), version)


class OfTopic(Protocol):
    """A part of a request or response that is about one partition."""

    @property
    def topic(self) -> str: ...


OfTopicT = TypeVar("OfTopicT", bound=OfTopic)


def by_topic(entries: Iterable[OfTopicT]) -> dict[str, list[OfTopicT]]:
    """Entries by the name of their topic, as Kafka's messages nest them; order is kept."""
    grouped: dict[str, list[OfTopicT]] = {}
    for entry in entries:
        grouped.setdefault(entry.topic, []).append(entry)
    return grouped


class OfIdentifiedTopic(OfTopic, Protocol):
    """The same where newer versions name the topic by its id."""

    @property
    def topic_id(self) -> bytes: ...


OfIdentifiedTopicT = TypeVar("OfIdentifiedTopicT", bound=OfIdentifiedTopic)


def runs_of_topic(
    entries: Iterable[OfIdentifiedTopicT],
) -> Iterator[tuple[tuple[str, bytes], Iterator[OfIdentifiedTopicT]]]:
    """Neighbouring entries of the same topic under its name and id; either may be missing."""
    return groupby(entries, key=lambda entry: (entry.topic, entry.topic_id))


def older_error(
    error: ErrorCode, version: int, ladder: Mapping[ErrorCode, tuple[int, ErrorCode]]
) -> ErrorCode:
    """The error as ``version`` knows it.

    ``ladder`` gives the version that introduced an error, and the one that stood for it before.
    """
    step = ladder.get(error)
    return step[1] if step is not None and version < step[0] else error
