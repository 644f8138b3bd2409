"""Groups of the newer kinds (KIP-848, share, streams): known, so that they can be refused.

Of requests only what an answer repeats is declared, of responses only what a refusal holds.
"""

from seglog.protocol.kafka.schema import (
    NOT_REQUESTED,
    Message,
    Struct,
    Undeclared,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    nested,
    string,
)


class ConsumerGroupHeartbeatResponse(Message, api_key=68, versions="0-1", flexible="0+"):
    """The state of a member, and its partitions where they changed."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", default=None, nullable="0+")
    member_id: str | None = string("0+", default=None, nullable="0+")
    member_epoch: int = int32("0+")
    heartbeat_interval_ms: int = int32("0+")
    assignment: Undeclared | None = nested(Undeclared, "0+", default=None, nullable="0+")


class ConsumerGroupDescribeRequest(Message, api_key=69, versions="0-1", flexible="0+"):
    """Describes groups of KIP-848."""

    group_ids: list[str] = array("string", "0+")
    include_authorized_operations: bool = boolean("0+")


class DescribedGroup(Struct):
    """One group, of KIP-848 or a share group."""

    error_code: int = int16("0+")
    error_message: str | None = string("0+", default=None, nullable="0+")
    group_id: str = string("0+")
    group_state: str = string("0+")
    group_epoch: int = int32("0+")
    assignment_epoch: int = int32("0+")
    assignor_name: str = string("0+")
    members: list[Undeclared] = array(Undeclared, "0+")
    authorized_operations: int = int32("0+", default=NOT_REQUESTED)


class ConsumerGroupDescribeResponse(Message, api_key=69, versions="0-1", flexible="0+"):
    """One description a group."""

    throttle_time_ms: int = int32("0+")
    groups: list[DescribedGroup] = array(DescribedGroup, "0+")


class ShareGroupHeartbeatResponse(Message, api_key=76, versions="0-1", flexible="0+"):
    """The state of a member, and its partitions where they changed."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", default=None, nullable="0+")
    member_id: str | None = string("0+", default=None, nullable="0+")
    member_epoch: int = int32("0+")
    heartbeat_interval_ms: int = int32("0+")
    assignment: Undeclared | None = nested(Undeclared, "0+", default=None, nullable="0+")


class ShareGroupDescribeRequest(Message, api_key=77, versions="0-1", flexible="0+"):
    """Describes share groups."""

    group_ids: list[str] = array("string", "0+")
    include_authorized_operations: bool = boolean("0+")


class ShareGroupDescribeResponse(Message, api_key=77, versions="0-1", flexible="0+"):
    """One description a group."""

    throttle_time_ms: int = int32("0+")
    groups: list[DescribedGroup] = array(DescribedGroup, "0+")


class ShareFetchResponse(Message, api_key=78, versions="0-2", flexible="0+"):
    """Records for a member of a share group."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", default=None, nullable="0+")
    acquisition_lock_timeout_ms: int = int32("1+")
    responses: list[Undeclared] = array(Undeclared, "0+")
    node_endpoints: list[Undeclared] = array(Undeclared, "0+")


class ShareAcknowledgeResponse(Message, api_key=79, versions="0-2", flexible="0+"):
    """What became of acknowledgements."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", default=None, nullable="0+")
    acquisition_lock_timeout_ms: int = int32("2+", ignorable=True)
    responses: list[Undeclared] = array(Undeclared, "0+")
    node_endpoints: list[Undeclared] = array(Undeclared, "0+")


class StreamsGroupHeartbeatResponse(Message, api_key=88, versions="0-1", flexible="0+"):
    """The state of a member, and its tasks where they changed."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", default=None, nullable="0+")
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    heartbeat_interval_ms: int = int32("0+")
    acceptable_recovery_lag_legacy: int = int32("0")
    task_offset_interval_ms: int = int32("0+")
    acceptable_recovery_lag: int = int64("1+", default=-1, ignorable=True)
    status: list[Undeclared] | None = array(Undeclared, "0+", nullable="0+")
    active_tasks: list[Undeclared] | None = array(Undeclared, "0+", default=None, nullable="0+")
    standby_tasks: list[Undeclared] | None = array(Undeclared, "0+", default=None, nullable="0+")
    warmup_tasks: list[Undeclared] | None = array(Undeclared, "0+", default=None, nullable="0+")
    topology_description_required: bool = boolean("1+", default=False)
    endpoint_information_epoch: int = int32("0+")
    partitions_by_user_endpoint: list[Undeclared] | None = array(
        Undeclared, "0+", default=None, nullable="0+"
    )


class StreamsGroupDescribeRequest(Message, api_key=89, versions="0-1", flexible="0+"):
    """Describes streams groups."""

    group_ids: list[str] = array("string", "0+")
    include_authorized_operations: bool = boolean("0+")
    include_topology_description: bool = boolean("1+", default=False)


class DescribedStreamsGroup(Struct):
    """One group."""

    error_code: int = int16("0+")
    error_message: str | None = string("0+", default=None, nullable="0+")
    group_id: str = string("0+")
    group_state: str = string("0+")
    group_epoch: int = int32("0+")
    assignment_epoch: int = int32("0+")
    topology: Undeclared | None = nested(Undeclared, "0+", default=None, nullable="0+")
    members: list[Undeclared] = array(Undeclared, "0+")
    authorized_operations: int = int32("0+", default=NOT_REQUESTED)
    topology_description: Undeclared | None = nested(Undeclared, "1+", default=None, nullable="1+")
    topology_description_status: int = int8("1+", default=0)
    assignor_name: str | None = string("1+", default=None, nullable="1+", ignorable=True)


class StreamsGroupDescribeResponse(Message, api_key=89, versions="0-1", flexible="0+"):
    """One description a group."""

    throttle_time_ms: int = int32("0+")
    groups: list[DescribedStreamsGroup] = array(DescribedStreamsGroup, "0+")


class DescribeShareGroupOffsetsRequestTopic(Struct):
    """Partitions of one topic."""

    topic_name: str = string("0+")
    partitions: list[int] = array("int32", "0+")


class DescribeShareGroupOffsetsRequestGroup(Struct):
    """One group; null topics stand for all."""

    group_id: str = string("0+")
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = array(
        DescribeShareGroupOffsetsRequestTopic, "0+", nullable="0+"
    )


class DescribeShareGroupOffsetsRequest(Message, api_key=90, versions="0-1", flexible="0+"):
    """Asks how far share groups are."""

    groups: list[DescribeShareGroupOffsetsRequestGroup] = array(
        DescribeShareGroupOffsetsRequestGroup, "0+"
    )


class DescribeShareGroupOffsetsResponseGroup(Struct):
    """One group."""

    group_id: str = string("0+")
    topics: list[Undeclared] = array(Undeclared, "0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", default=None, nullable="0+")


class DescribeShareGroupOffsetsResponse(Message, api_key=90, versions="0-1", flexible="0+"):
    """One answer a group."""

    throttle_time_ms: int = int32("0+")
    groups: list[DescribeShareGroupOffsetsResponseGroup] = array(
        DescribeShareGroupOffsetsResponseGroup, "0+"
    )


class AlterShareGroupOffsetsResponse(Message, api_key=91, versions="0", flexible="0+"):
    """Whether the offsets of a share group were changed."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", default=None, nullable="0+")
    responses: list[Undeclared] = array(Undeclared, "0+")


class DeleteShareGroupOffsetsResponse(Message, api_key=92, versions="0", flexible="0+"):
    """Whether the offsets of a share group were removed."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", default=None, nullable="0+")
    responses: list[Undeclared] = array(Undeclared, "0+")


class StreamsGroupTopologyDescriptionUpdateResponse(
    Message, api_key=93, versions="0", flexible="0+"
):
    """Whether the description of a topology was taken."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", default=None, nullable="0+")
