"""DeleteTopics."""

from seglog.protocol.kafka.schema import (
    ZERO_UUID,
    Message,
    Struct,
    array,
    int16,
    int32,
    string,
    uuid,
)


class DeleteTopicState(Struct):
    """A topic to delete, by name or by id."""

    name: str | None = string("6+", default=None, nullable="6+")
    topic_id: bytes = uuid("6+", default=ZERO_UUID)


class DeleteTopicsRequest(Message, api_key=20, versions="0-6", flexible="4+", served="1-6"):
    """Deletes topics; by id only from version 6 on."""

    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array("string", "0-5", ignorable=True)
    timeout_ms: int = int32("0+")


class DeletableTopicResult(Struct):
    """What became of one topic."""

    name: str | None = string("0+", nullable="6+")
    topic_id: bytes = uuid("6+", default=ZERO_UUID, ignorable=True)
    error_code: int = int16("0+")
    error_message: str | None = string("5+", default=None, nullable="5+", ignorable=True)


class DeleteTopicsResponse(Message, api_key=20, versions="0-6", flexible="4+"):
    """One result a topic."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult, "0+")
