"""Requests on their way to handlers, where not even a refusal can be made."""

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from seglog.protocol import api
from seglog.protocol.dialect import Part
from seglog.protocol.native import NativeServer
from support.listener_harness import connect, running_listener


class _SpeechlessServer(NativeServer):
    """Cannot say that something went wrong."""

    def encode_error(self, *_arguments: Any) -> Sequence[Part]:
        raise ZeroDivisionError("a second defect")


def _speechless() -> NativeServer:
    return _SpeechlessServer(max_frame_bytes=1_000_000, max_in_flight=5, software_version="0")


async def test_a_client_waits_for_ever_after_two_defects(caplog: pytest.LogCaptureFixture) -> None:
    """The connection closes: the request was neither answered nor will be."""

    def handle(_request: Any, _context: Any) -> Any:
        raise ZeroDivisionError("a defect")

    async with running_listener(handle, make_dialect=_speechless) as (listener, _):
        client = await connect(listener.port)
        with caplog.at_level(logging.ERROR):
            await client.request(api.MetadataRequest())
            assert await client.receive() is None
        client.close()
    events = [record.message.split(" ")[0] for record in caplog.records]
    assert events == ["event=request-failed", "event=connection-failed"]
