"""What goes over a connection, without one."""

from collections.abc import Sequence

import pytest

from seglog.clients.config import Address
from seglog.clients.errors import BrokerError, ConfigurationError, ConnectionLostError
from seglog.clients.session.exchange import Exchange, answer_or_error
from seglog.protocol import api
from seglog.protocol.dialect import IncomingRequest, Part
from seglog.protocol.errors import ErrorCode, ProtocolError
from seglog.protocol.native import FrameAssembler, NativeServer, RequestRefusedError

ADDRESS = Address("host", 9092)


def joined(parts: Sequence[Part]) -> bytes:
    return b"".join(
        bytes(part) for part in parts if isinstance(part, bytes | bytearray | memoryview)
    )


def put(exchange: Exchange, data: bytes) -> list:
    """Hand bytes over as a socket does, in pieces."""
    answers = []
    while data:
        room = exchange.get_buffer()
        piece, data = data[: min(7, len(room))], data[min(7, len(room)) :]
        room[: len(piece)] = piece
        answers += exchange.received(len(piece))
    return answers


def test_answers_come_out_once_they_are_whole_with_the_ids_of_their_requests() -> None:
    exchange = Exchange(ADDRESS, "tester", receive_bytes=64)
    server = NativeServer(max_frame_bytes=10_000, max_in_flight=9, software_version="1")
    frames = FrameAssembler(server.frame_size)

    def answered(data: bytes) -> bytes:
        sent = b""
        for frame in frames.feed(data):
            incoming = server.decode(*frame)
            if isinstance(incoming, IncomingRequest):
                name = incoming.request.topics[0]
                response = api.MetadataResponse([], name, 0, [])
                sent += joined(server.encode(incoming, response))
            else:
                sent += joined(incoming.parts)
        return sent

    assert put(exchange, answered(exchange.opening())) == []
    assert exchange.is_ready
    requests = [exchange.encode(api.MetadataRequest([name])) for name in ("one", "two")]
    assert exchange.in_flight == 2
    answers = put(exchange, answered(b"".join(part for _, parts in requests for part in parts)))
    assert [each.correlation_id for each in answers] == [number for number, _ in requests]
    assert [each.response.cluster_id for each in answers] == ["one", "two"]
    assert exchange.in_flight == 0


def test_what_is_not_the_answer_of_a_broker_is_refused() -> None:
    exchange = Exchange(ADDRESS, "tester", receive_bytes=100)
    assert not exchange.is_ready
    with pytest.raises(ProtocolError):
        put(exchange, b"HTTP/1.1 400 Bad Request\r\n\r\n")


def test_a_closed_exchange_keeps_its_first_reason_and_takes_no_more_requests() -> None:
    exchange = Exchange(ADDRESS, "tester", receive_bytes=100)
    assert exchange.close("closed by the broker")
    assert not exchange.close("not needed any more")
    with pytest.raises(ConnectionLostError, match="host:9092: closed by the broker"):
        exchange.encode(api.MetadataRequest([]))


def test_a_text_that_is_no_text_is_told() -> None:
    exchange = Exchange(ADDRESS, "tester", receive_bytes=100)
    with pytest.raises(ConfigurationError, match="no text that can be sent"):
        exchange.encode(api.MetadataRequest(["\udcff"]))


def test_a_request_that_is_refused_as_a_whole_is_an_error_of_the_broker() -> None:
    refused = RequestRefusedError(ErrorCode.UNSUPPORTED_VERSION, "too new")
    with pytest.raises(BrokerError, match="MetadataRequest: too new"):
        answer_or_error(refused, "MetadataRequest")
    assert answer_or_error("answer", "MetadataRequest") == "answer"
