"""A declared operation in the Kafka dialect."""

from collections.abc import Callable
from typing import Any

from seglog.protocol.declaration.operation import Operation
from seglog.protocol.dialect import Part
from seglog.protocol.kafka import codec


class DeclaredOperation:
    """Reads the requests of an operation and writes its responses, as its declaration says."""

    def __init__(self, declared: Operation) -> None:
        self.key = declared.key
        self.versions = declared.versions
        self.served = declared.served
        self.request = declared.request
        self.response = declared.response
        self.withholding = declared.withholding
        self.fail = declared.fail
        self._decoders: dict[int, Callable[[memoryview, int], tuple[Any, int]]] = {}
        self._encoders: dict[int, Callable[[Any], list[Part]]] = {}
        self._finish_request = declared.finish_request
        self._start_response = declared.start_response

    def decode(self, frame: memoryview, position: int, version: int) -> Any:
        """Read the body at ``position``; raises ``ProtocolError`` where it is malformed."""
        decode = self._decoders.get(version)
        if decode is None:
            decode = self._decoders[version] = codec.decoder_of(self.request, version)
        request, _ = decode(frame, position)
        if self._finish_request is not None:
            self._finish_request(request, version)
        return request

    def encode(self, response: Any, version: int) -> list[Part]:
        """Write a body; raises ``ProtocolError`` where a value does not fit its field."""
        if self._start_response is not None:
            response = self._start_response(response, version)
        encode = self._encoders.get(version)
        if encode is None:
            encode = self._encoders[version] = codec.encoder_of(self.response, version)
        return encode(response)
