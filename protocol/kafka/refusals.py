"""Operations that no handler and no typed request exists for: known, to be refused in words.

The sender of such a request reads UNSUPPORTED_VERSION (of SASL ILLEGAL_SASL_STATE) in the layout
that it expects, and keeps its connection. Clients that look at the answer to ApiVersions first do
not come here.

Where a response has an error of its own, the body of the request is not even looked at. Where it
has errors only beside the parts of the request, the request is read and its parts are named again:
a list of no results would read as success. The connection loads this module when it first needs it.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeVar

from seglog.protocol.dialect import Part
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka import codec
from seglog.protocol.kafka.messages import (
    between_brokers,
    cluster_admin,
    newer_groups,
    security,
    share_group_state,
)
from seglog.protocol.kafka.schema import Message, Struct

StructT = TypeVar("StructT", bound=Struct)


class Refusal:
    """One refusal in the making.

    Args:
        version: of the request.
        error: what it says.
        text: the same in words, where the version carries words.
    """

    def __init__(self, version: int, error: ErrorCode, text: str) -> None:
        self._version = version
        self._values = {"error_code": int(error), "error_message": text}

    def of(self, kind: type[StructT], **values: Any) -> StructT:
        """A struct with these values, and with the error if the version has a place for it."""
        for each in kind.__fields__:
            if each.name in self._values and each.is_plain_in(self._version):
                values[each.name] = self._values[each.name]
        return kind(**values)


class Refusable(NamedTuple):
    """An operation: its response, and how that names the parts of the request, if it must."""

    response: type[Message]
    request: type[Message] | None = None
    answer: Callable[[Any, Refusal], Message] | None = None

    @property
    def name(self) -> str:
        """The name of the operation."""
        return self.response.__name__.removesuffix("Response")

    @property
    def error(self) -> ErrorCode:
        """UNSUPPORTED_VERSION, or what Kafka says where a listener has no SASL.

        Clients that are set up for SASL make a clear message of that; some send SaslHandshake
        without looking at the listed operations, the Java client among them.
        """
        is_sasl = self.response in (
            security.SaslHandshakeResponse,
            security.SaslAuthenticateResponse,
        )
        return ErrorCode.ILLEGAL_SASL_STATE if is_sasl else ErrorCode.UNSUPPORTED_VERSION

    def encode(
        self, frame: memoryview, position: int, version: int, error: ErrorCode, text: str
    ) -> list[Part]:
        """The body that refuses the request whose body is at ``position`` of ``frame``.

        Raises:
            ProtocolError: the request had to be read and is malformed.
        """
        refusal = Refusal(version, error, text)
        if self.request is None or self.answer is None:
            return codec.encode(refusal.of(self.response), version)
        asked, _ = codec.decode(self.request, version, frame, position)
        return codec.encode(self.answer(asked, refusal), version)


def _create_acls(asked: security.CreateAclsRequest, refusal: Refusal) -> Message:
    return security.CreateAclsResponse(
        throttle_time_ms=0,
        results=[refusal.of(security.AclCreationResult) for _ in asked.creations],
    )


def _delete_acls(asked: security.DeleteAclsRequest, refusal: Refusal) -> Message:
    return security.DeleteAclsResponse(
        throttle_time_ms=0,
        filter_results=[refusal.of(security.DeleteAclsFilterResult) for _ in asked.filters],
    )


def _alter_quotas(asked: security.AlterClientQuotasRequest, refusal: Refusal) -> Message:
    return security.AlterClientQuotasResponse(
        throttle_time_ms=0,
        entries=[
            refusal.of(security.AlteredResult, entity=entry.entity) for entry in asked.entries
        ],
    )


def _alter_scram(asked: security.AlterUserScramCredentialsRequest, refusal: Refusal) -> Message:
    names = [each.name for each in asked.deletions] + [each.name for each in asked.upsertions]
    return security.AlterUserScramCredentialsResponse(
        throttle_time_ms=0,
        results=[
            refusal.of(security.AlterUserScramCredentialsResult, user=name)
            for name in dict.fromkeys(names)
        ],
    )


def _alter_dirs(asked: cluster_admin.AlterReplicaLogDirsRequest, refusal: Refusal) -> Message:
    return cluster_admin.AlterReplicaLogDirsResponse(
        throttle_time_ms=0,
        results=[
            cluster_admin.AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    refusal.of(
                        cluster_admin.AlterReplicaLogDirPartitionResult, partition_index=partition
                    )
                    for partition in topic.partitions
                ],
            )
            for directory in asked.dirs
            for topic in directory.topics
        ],
    )


def _elect_leaders(asked: cluster_admin.ElectLeadersRequest, refusal: Refusal) -> Message:
    return refusal.of(
        cluster_admin.ElectLeadersResponse,
        replica_election_results=[
            cluster_admin.ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    refusal.of(cluster_admin.PartitionResult, partition_id=partition)
                    for partition in topic.partitions
                ],
            )
            for topic in asked.topic_partitions or ()
        ],
    )


def _share_offsets(asked: newer_groups.DescribeShareGroupOffsetsRequest, refusal: Refusal) -> Any:
    return newer_groups.DescribeShareGroupOffsetsResponse(
        throttle_time_ms=0,
        groups=[
            refusal.of(newer_groups.DescribeShareGroupOffsetsResponseGroup, group_id=group.group_id)
            for group in asked.groups
        ],
    )


def _describe_groups(response: type[Any], group: type[Struct]) -> Callable[[Any, Refusal], Message]:
    """Name the groups that were to be described."""

    def answer(asked: Any, refusal: Refusal) -> Message:
        groups = [refusal.of(group, group_id=group_id) for group_id in asked.group_ids]
        message: Message = response(throttle_time_ms=0, groups=groups)
        return message

    return answer


def _share_state(
    response: type[Any], topic: type[Any], partition: type[Struct]
) -> Callable[[Any, Refusal], Message]:
    """Name the partitions whose state was asked for."""

    def answer(asked: Any, refusal: Refusal) -> Message:
        message: Message = response(
            results=[
                topic(
                    topic_id=each.topic_id,
                    partitions=[
                        refusal.of(partition, partition=entry.partition)
                        for entry in each.partitions
                    ],
                )
                for each in asked.topics
            ]
        )
        return message

    return answer


_WITHOUT_AN_ERROR_OF_THEIR_OWN: Final = (
    Refusable(security.CreateAclsResponse, security.CreateAclsRequest, _create_acls),
    Refusable(security.DeleteAclsResponse, security.DeleteAclsRequest, _delete_acls),
    Refusable(security.AlterClientQuotasResponse, security.AlterClientQuotasRequest, _alter_quotas),
    Refusable(
        security.AlterUserScramCredentialsResponse,
        security.AlterUserScramCredentialsRequest,
        _alter_scram,
    ),
    Refusable(
        cluster_admin.AlterReplicaLogDirsResponse,
        cluster_admin.AlterReplicaLogDirsRequest,
        _alter_dirs,
    ),
    Refusable(
        cluster_admin.ElectLeadersResponse, cluster_admin.ElectLeadersRequest, _elect_leaders
    ),
    Refusable(
        newer_groups.DescribeShareGroupOffsetsResponse,
        newer_groups.DescribeShareGroupOffsetsRequest,
        _share_offsets,
    ),
    *(
        Refusable(response, request, _describe_groups(response, group))
        for request, response, group in (
            (
                newer_groups.ConsumerGroupDescribeRequest,
                newer_groups.ConsumerGroupDescribeResponse,
                newer_groups.DescribedGroup,
            ),
            (
                newer_groups.ShareGroupDescribeRequest,
                newer_groups.ShareGroupDescribeResponse,
                newer_groups.DescribedGroup,
            ),
            (
                newer_groups.StreamsGroupDescribeRequest,
                newer_groups.StreamsGroupDescribeResponse,
                newer_groups.DescribedStreamsGroup,
            ),
        )
    ),
    *(
        Refusable(response, request, _share_state(response, topic, partition))
        for request, response, topic, partition in share_group_state.OPERATIONS
    ),
)


def _responses_of(modules: Iterable[Any]) -> list[type[Message]]:
    return [
        value
        for module in modules
        for name, value in vars(module).items()
        if name.endswith("Response") and issubclass(value, Message)
    ]


REFUSABLE: Final[dict[int, Refusable]] = {
    response.api_key: Refusable(response)
    for response in _responses_of((between_brokers, cluster_admin, newer_groups, security))
} | {each.response.api_key: each for each in _WITHOUT_AN_ERROR_OF_THEIR_OWN}
"""By the key of the operation."""


def find(api_key: int, version: int) -> Refusable | None:
    """How a request is refused; None if its layout is not known."""
    refusable = REFUSABLE.get(api_key)
    if refusable is None or version not in refusable.response.versions:
        return None
    return refusable
