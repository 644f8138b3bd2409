"""A group with one member at a time, for the fake broker: every join begins a new generation."""

from typing import Any

from seglog.protocol import api
from seglog.protocol.errors import ErrorCode
from support.fake_broker import FakeBroker

NONE = ErrorCode.NONE


class FakeGroup:
    """Answers what members ask; put ``answer`` into the script of a fake broker.

    Whatever is in ``refusals`` for a kind of request is answered first, one by one.
    """

    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker
        self.generation = 0
        self.member_id = ""
        self.others: list[api.JoinedMember] = []
        self.given_to_others: dict[str, bytes] = {}
        self.offsets: dict[tuple[str, int], api.OffsetFetchResult] = {}
        self.commits: list[api.OffsetCommitRequest] = []
        self.refusals: dict[type, list[Any]] = {}
        self.heartbeat = NONE
        broker.script = self.answer

    def refuse(self, kind: type, *answers: Any) -> None:
        """Answer the next requests of a kind so."""
        self.refusals.setdefault(kind, []).extend(answers)

    def answer(self, request: Any) -> Any:
        waiting = self.refusals.get(type(request))
        if waiting:
            return waiting.pop(0)
        match request:
            case api.FindCoordinatorRequest():
                here = api.Coordinator(request.keys[0], 0, self._broker.host, self._broker.port)
                return api.FindCoordinatorResponse([here])
            case api.JoinGroupRequest():
                return self._join(request)
            case api.SyncGroupRequest():
                self.given_to_others = request.assignments
                return api.SyncGroupResponse(
                    assignment=request.assignments.get(request.member_id, b"")
                )
            case api.HeartbeatRequest():
                return api.HeartbeatResponse(self.heartbeat)
            case api.LeaveGroupRequest():
                return api.LeaveGroupResponse([])
            case api.OffsetCommitRequest():
                return self._commit(request)
            case api.OffsetFetchRequest():
                return self._fetch(request)
        return None

    def _join(self, request: api.JoinGroupRequest) -> api.JoinGroupResponse:
        if not request.member_id and request.group_instance_id is None:
            return api.JoinGroupResponse("m1", ErrorCode.MEMBER_ID_REQUIRED)
        self.generation += 1
        self.heartbeat = NONE
        self.member_id = request.member_id or f"static-{self.generation}"
        name, metadata = request.protocols[0]
        me = api.JoinedMember(self.member_id, request.group_instance_id, metadata)
        return api.JoinGroupResponse(
            self.member_id,
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name=name,
            leader_id=self.member_id,
            members=[me, *self.others],
        )

    def _commit(self, request: api.OffsetCommitRequest) -> api.OffsetCommitResponse:
        self.commits.append(request)
        results = []
        for item in request.partitions:
            place = (item.topic, item.partition)
            self.offsets[place] = api.OffsetFetchResult(*place, item.offset, -1, item.metadata)
            results.append(api.OffsetCommitResult(*place))
        return api.OffsetCommitResponse(results)

    def _fetch(self, request: api.OffsetFetchRequest) -> api.OffsetFetchResponse:
        (group,) = request.groups
        if group.partitions is None:
            results = list(self.offsets.values())
        else:
            results = [
                self.offsets.get(
                    (item.topic, item.partition), api.OffsetFetchResult(item.topic, item.partition)
                )
                for item in group.partitions
            ]
        return api.OffsetFetchResponse([api.OffsetFetchGroupResult(group.group_id, results)])
