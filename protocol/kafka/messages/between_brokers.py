"""What brokers and controllers say to each other: known, so that it can be refused.

Only what a refusal holds is declared.
"""

from seglog.protocol.kafka.schema import (
    Message,
    Struct,
    Undeclared,
    array,
    binary,
    boolean,
    int16,
    int32,
    int64,
    nested,
    string,
)


class VoteResponse(Message, api_key=52, versions="0-2", flexible="0+"):
    """A vote for a leader of the controllers."""

    error_code: int = int16("0+")
    topics: list[Undeclared] = array(Undeclared, "0+")
    node_endpoints: list[Undeclared] = array(Undeclared, "1+", default=(), tag=0)


class BeginQuorumEpochResponse(Message, api_key=53, versions="0-1", flexible="1+"):
    """Whether a new leader of the controllers was accepted."""

    error_code: int = int16("0+")
    topics: list[Undeclared] = array(Undeclared, "0+")
    node_endpoints: list[Undeclared] = array(Undeclared, "1+", default=(), tag=0)


class EndQuorumEpochResponse(Message, api_key=54, versions="0-1", flexible="1+"):
    """Whether it was heard that a leader of the controllers goes."""

    error_code: int = int16("0+")
    topics: list[Undeclared] = array(Undeclared, "0+")
    node_endpoints: list[Undeclared] = array(Undeclared, "1+", default=(), tag=0)


class AlterPartitionResponse(Message, api_key=56, versions="2-3", flexible="0+"):
    """What became of changes to the replicas that are in sync."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    topics: list[Undeclared] = array(Undeclared, "0+")


class EnvelopeResponse(Message, api_key=58, versions="0", flexible="0+"):
    """The answer to a request that was passed on."""

    response_data: bytes | None = binary("0+", default=None, nullable="0+")
    error_code: int = int16("0+")


class FetchSnapshotResponse(Message, api_key=59, versions="0-1", flexible="0+"):
    """A piece of a snapshot of the metadata."""

    throttle_time_ms: int = int32("0+", ignorable=True)
    error_code: int = int16("0+")
    topics: list[Undeclared] = array(Undeclared, "0+")
    node_endpoints: list[Undeclared] = array(Undeclared, "1+", default=(), tag=0)


class BrokerRegistrationResponse(Message, api_key=62, versions="0-4", flexible="0+"):
    """Whether a broker may join."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    broker_epoch: int = int64("0+", default=-1)


class BrokerHeartbeatResponse(Message, api_key=63, versions="0-2", flexible="0+"):
    """What a broker is to do."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    is_caught_up: bool = boolean("0+", default=False)
    is_fenced: bool = boolean("0+", default=True)
    should_shut_down: bool = boolean("0+")


class AllocateProducerIdsResponse(Message, api_key=67, versions="0", flexible="0+"):
    """A block of producer ids."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    producer_id_start: int = int64("0+")
    producer_id_len: int = int32("0+")


class ControllerRegistrationResponse(Message, api_key=70, versions="0", flexible="0+"):
    """Whether a controller may join."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


class AssignReplicasToDirsResponse(Message, api_key=73, versions="0", flexible="0+"):
    """Whether it was noted where replicas are."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    directories: list[Undeclared] = array(Undeclared, "0+")


class CurrentLeader(Struct):
    """The controller to ask instead."""

    leader_id: int = int32("0+", default=-1)
    leader_epoch: int = int32("0+", default=-1)
    host: str = string("0+")
    port: int = int32("0+")


class UpdateRaftVoterResponse(Message, api_key=82, versions="0", flexible="0+"):
    """Whether the address of a controller was noted."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    current_leader: CurrentLeader | None = nested(CurrentLeader, "0+", default=None, tag=0)
