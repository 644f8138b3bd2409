"""Declarations in the native dialect, where it is stricter than Kafka's."""

from typing import Any

import pytest

from seglog.protocol.api import ApiKey
from seglog.protocol.errors import ProtocolError
from seglog.protocol.native.frames import RecordCursor
from seglog.protocol.native.operations import OPERATION_OF_KEY


@pytest.mark.parametrize(
    ("key", "array", "path"),
    [
        (ApiKey.METADATA, [[], None, 1, []], r"MetadataResponse\.cluster_id"),
        (
            ApiKey.CREATE_TOPICS,
            [[["t", 0, None, bytes(16), 1, 1, None]]],
            r"CreateTopicsResponse\.topics: .*CreateTopicResult\.configs",
        ),
    ],
)
def test_null_that_kafka_allows_is_refused(key: ApiKey, array: list[Any], path: str) -> None:
    """Our classes have no None there: a client would meet it far from the answer."""
    with pytest.raises(ProtocolError, match=path):
        OPERATION_OF_KEY[key].response.unpack(array, RecordCursor(memoryview(b""), 0, 0))
