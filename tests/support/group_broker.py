"""A broker without sockets that coordinates groups, its timers driven by hand."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seglog.broker.coordinator.coordination import Coordination
from seglog.broker.requests.context import Pending, RequestContext
from seglog.protocol.api import (
    DescribeGroupsRequest,
    GroupDescription,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeavingMember,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetFetchGroup,
    OffsetFetchPartition,
    OffsetFetchRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka.codec import encode_versioned
from seglog.protocol.kafka.messages.consumer_protocol import ConsumerProtocolSubscription
from support.broker_parts import CONTEXT, NOW_MS, BrokerParts
from support.fake_clock import FakeClock, ManualScheduler

QUICK_SETTINGS = {"group.min.session.timeout.ms": "10", "offsets.topic.num.partitions": "4"}


def subscription(*topics: str, owned: bytes | None = None) -> bytes:
    """What a consumer says when it joins; ``owned`` makes equal subscriptions differ in bytes."""
    return encode_versioned(
        ConsumerProtocolSubscription(
            topics=list(topics),
            user_data=owned,
            owned_partitions=[],
            generation_id=-1,
            rack_id=None,
        ),
        3,
    )


def join_request(
    member_id: str = "",
    *,
    group: str = "g",
    metadata: bytes = b"",
    protocols: Sequence[tuple[str, bytes]] | None = None,
    instance: str | None = None,
    session_ms: int = 10_000,
    rebalance_ms: int = 60_000,
    **options: Any,
) -> JoinGroupRequest:
    """A join of a consumer."""
    return JoinGroupRequest(
        group,
        member_id,
        session_ms,
        rebalance_ms,
        options.pop("protocol_type", "consumer"),
        list(protocols) if protocols is not None else [("range", metadata or subscription("t"))],
        instance,
        **options,
    )


class GroupBroker:
    """``BrokerParts`` with everything that coordinates."""

    def __init__(self, parts: BrokerParts, clock: FakeClock) -> None:
        self.parts = parts
        self.clock = clock
        self.scheduler = ManualScheduler(clock)
        self.coordination = Coordination(parts.services, self.scheduler)
        self.coordination.register(parts.handlers)
        self.coordination.start()

    @classmethod
    async def start(
        cls,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        clock: FakeClock | None = None,
        **options: Any,
    ) -> "GroupBroker":
        clock = clock or FakeClock(NOW_MS)
        given = {**QUICK_SETTINGS, **(settings or {})}
        parts = await BrokerParts.start(folder, given, clock=clock, **options)
        return cls(parts, clock)

    async def stop(self, *, clean: bool = True) -> None:
        await self.coordination.stop(5)
        await self.parts.services.finish_works(5)
        await self.parts.stop(clean=clean)

    async def restarted(
        self, settings: Mapping[str, str] | None = None, *, clean: bool = True
    ) -> "GroupBroker":
        """Another broker over the same folder, by default with the groups read back."""
        await self.stop(clean=clean)
        successor = await GroupBroker.start(
            self.parts.log_dir.parent, settings, self.clock, log_dir=self.parts.log_dir
        )
        await successor.coordination.groups.loaded()
        return successor

    async def advance(self, milliseconds: int) -> None:
        """Let time pass, and everything happen that is due."""
        await self.scheduler.advance(milliseconds)
        await self.parts.quiet()

    def begin(self, request: object, context: RequestContext = CONTEXT) -> "asyncio.Future[Any]":
        """The answer to a request, as a future even if it is there at once."""
        response = self.parts.handlers.handle(request, context)
        if isinstance(response, Pending):
            return response.future
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.set_result(response)
        return future

    async def ask(self, request: object, context: RequestContext = CONTEXT) -> Any:
        return await asyncio.wait_for(self.begin(request, context), 10)

    # ---- members in short

    async def new_member_id(self, group: str = "g", **options: Any) -> str:
        """The id that a client gets with its first join."""
        response = await self.ask(join_request(group=group, **options))
        assert response.error == ErrorCode.MEMBER_ID_REQUIRED, response
        member_id: str = response.member_id
        return member_id

    async def begin_join(
        self, group: str = "g", **options: Any
    ) -> "tuple[str, asyncio.Future[Any]]":
        """A new member that joins with its id."""
        member_id = await self.new_member_id(group, **options)
        return member_id, self.begin(join_request(member_id, group=group, **options))

    async def sync(
        self,
        joined: JoinGroupResponse,
        assignments: Mapping[str, bytes] | None = None,
        group: str = "g",
    ) -> SyncGroupResponse:
        request = SyncGroupRequest(
            group, joined.generation_id, joined.member_id, assignments=dict(assignments or {})
        )
        response: SyncGroupResponse = await self.ask(request)
        return response

    async def only_member(self, group: str = "g", **options: Any) -> JoinGroupResponse:
        """A stable group of one."""
        _, joining = await self.begin_join(group, **options)
        joined: JoinGroupResponse = await joining
        assert joined.error == ErrorCode.NONE, joined
        synced = await self.sync(joined, {joined.member_id: b"all"}, group)
        assert synced.assignment == b"all", synced
        return joined

    async def heartbeat(self, joined: JoinGroupResponse, group: str = "g") -> ErrorCode:
        request = HeartbeatRequest(group, joined.generation_id, joined.member_id)
        error: ErrorCode = (await self.ask(request)).error
        return error

    async def leave(self, *member_ids: str, group: str = "g") -> list[ErrorCode]:
        request = LeaveGroupRequest(group, [LeavingMember(each) for each in member_ids])
        return [result.error for result in (await self.ask(request)).members]

    async def describe(self, group: str = "g") -> GroupDescription:
        (description,) = (await self.ask(DescribeGroupsRequest([group]))).groups
        assert isinstance(description, GroupDescription)
        return description

    # ---- offsets in short

    async def commit(
        self,
        offsets: Mapping[tuple[str, int], int],
        group: str = "g",
        member: JoinGroupResponse | None = None,
        **options: Any,
    ) -> list[ErrorCode]:
        entries = [
            OffsetCommitPartition(topic, number, offset, **options)
            for (topic, number), offset in offsets.items()
        ]
        request = OffsetCommitRequest(group, entries)
        if member is not None:
            request.generation_id, request.member_id = member.generation_id, member.member_id
        return [result.error for result in (await self.ask(request)).partitions]

    async def committed(
        self, places: Sequence[tuple[str, int]] | None = None, group: str = "g"
    ) -> dict[tuple[str, int], int]:
        """What was committed; None asks for everything."""
        asked = None if places is None else [OffsetFetchPartition(*place) for place in places]
        response = await self.ask(OffsetFetchRequest([OffsetFetchGroup(group, asked)]))
        (found,) = response.groups
        assert found.error == ErrorCode.NONE, found
        return {(result.topic, result.partition): result.offset for result in found.partitions}
