"""FindCoordinator."""

from seglog.protocol.kafka.schema import (
    Message,
    Struct,
    array,
    int8,
    int16,
    int32,
    string,
)


class FindCoordinatorRequest(Message, api_key=10, versions="0-6", flexible="3+"):
    """Asks which broker coordinates a group or a transactional id.

    One key up to version 3, several from version 4 on; key type 0 is a group, 1 a transactional id.
    """

    key: str = string("0-3")
    key_type: int = int8("1+", default=0)
    coordinator_keys: list[str] = array("string", "4+")


class Coordinator(Struct):
    """The coordinator of one key."""

    key: str = string("4+")
    node_id: int = int32("4+")
    host: str = string("4+")
    port: int = int32("4+")
    error_code: int = int16("4+")
    error_message: str | None = string("4+", nullable="4+", ignorable=True)


class FindCoordinatorResponse(Message, api_key=10, versions="0-6", flexible="3+"):
    """The coordinator, or from version 4 on one a key."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="1-3", ignorable=True)
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+")
