"""A member of a group over the raw Kafka dialect: every step by hand."""

from collections.abc import Mapping
from typing import Any

from seglog.protocol import api
from seglog.protocol.errors import ErrorCode
from support.wires import KafkaWire

JOIN, SYNC, HEARTBEAT, LEAVE, COMMIT, FETCH = 6, 4, 4, 4, 8, 8


class RawMember:
    """One member, on a connection of its own.

    Args:
        port: of the broker.
        group: its name.
        options: further fields of JoinGroup.
    """

    def __init__(self, port: int, group: str, **options: Any) -> None:
        self.wire = KafkaWire(port, timeout=30)
        self.group = group
        self.member_id = ""
        self.generation = -1
        self.instance_id: str | None = options.get("group_instance_id")
        self._options = {"session_timeout_ms": 6000, "rebalance_timeout_ms": 10_000, **options}

    def join(self) -> Any:
        """Join and sync, as a leader that gives each member nothing; the answer to the join."""
        answer = self.ask_join()
        if answer.error == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            answer = self.ask_join()
        self.take(answer)
        assert self.sync(answer) == ErrorCode.NONE
        return answer

    def take(self, answer: Any) -> None:
        """Be the member that an answer to a join makes of it."""
        assert answer.error == 0, answer
        self.member_id, self.generation = answer.member_id, answer.generation_id

    def sync(self, joined: Any = None) -> ErrorCode:
        """One SyncGroup; after the answer to a leader's join with a share for every member."""
        members = joined.members if joined is not None else ()
        request = api.SyncGroupRequest(
            self.group,
            self.generation,
            self.member_id,
            self.instance_id,
            assignments={member.member_id: b"share" for member in members},
        )
        answer = self.wire.ask(request, SYNC, api.SyncGroupResponse)
        return answer.error

    def ask_join(self) -> Any:
        """One JoinGroup."""
        self.send_join()
        return self.joined()

    def send_join(self) -> None:
        """One JoinGroup, whose answer ``joined`` waits for."""
        request = api.JoinGroupRequest(
            group_id=self.group,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[("range", b"m")],
            **self._options,
        )
        self.wire.send(request, JOIN)

    def joined(self) -> Any:
        """The answer to the JoinGroup that was sent."""
        return self.wire.receive(JOIN, api.JoinGroupResponse)

    def heartbeat(self) -> ErrorCode:
        """One Heartbeat."""
        request = api.HeartbeatRequest(
            self.group, self.generation, self.member_id, self.instance_id
        )
        return self.wire.ask(request, HEARTBEAT, api.HeartbeatResponse).error

    def commit(self, offsets: Mapping[tuple[str, int], Any]) -> dict[tuple[str, int], ErrorCode]:
        """Commit offsets, or pairs of offset and metadata, as this member."""
        return commit(
            self.wire, self.group, offsets, self.generation, self.member_id, self.instance_id
        )

    def leave(self) -> ErrorCode:
        """Leave the group; what is answered about the member."""
        member = api.LeavingMember(self.member_id, self.instance_id)
        request = api.LeaveGroupRequest(self.group, [member])
        answer = self.wire.ask(request, LEAVE, api.LeaveGroupResponse)
        assert answer.error == ErrorCode.NONE
        return answer.members[0].error

    def close(self) -> None:
        """Hang up, without leaving."""
        self.wire.close()


def commit(
    wire: KafkaWire,
    group: str,
    offsets: Mapping[tuple[str, int], Any],
    generation: int = -1,
    member_id: str = "",
    instance_id: str | None = None,
) -> dict[tuple[str, int], ErrorCode]:
    """Commit offsets, or pairs of offset and metadata; the code of each partition."""
    partitions = []
    for (topic, partition), value in offsets.items():
        offset, metadata = value if isinstance(value, tuple) else (value, "")
        partitions.append(api.OffsetCommitPartition(topic, partition, offset, metadata=metadata))
    request = api.OffsetCommitRequest(group, partitions, generation, member_id, instance_id)
    answer = wire.ask(request, COMMIT, api.OffsetCommitResponse)
    return {(each.topic, each.partition): each.error for each in answer.partitions}


def committed(wire: KafkaWire, group: str, *, require_stable: bool = False) -> dict[Any, int]:
    """All committed offsets of a group."""
    request = api.OffsetFetchRequest([api.OffsetFetchGroup(group)], require_stable)
    (found,) = wire.ask(request, FETCH, api.OffsetFetchResponse).groups
    assert found.error == ErrorCode.NONE, found
    return {
        (each.topic, each.partition): each.offset for each in found.partitions if each.offset >= 0
    }
