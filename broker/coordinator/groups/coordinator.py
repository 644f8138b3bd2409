"""GroupCoordinator: joins, syncs, heartbeats and departures of group members.

A group decides (``ClassicGroup``), the coordinator carries out: it keeps the futures of waiting
requests, writes the group to the log before assignments are given out, and wakes the group when its
next deadline has come. There is one timer for each group, at its earliest deadline; a deadline that
moved away is noticed when the timer runs.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, Final, TypeVar
from uuid import uuid4

from seglog.broker.coordinator.groups.records import (
    group_record,
    group_tombstone,
    offset_tombstone,
)
from seglog.broker.coordinator.groups.state import Answer, Client, GroupState, Outcome
from seglog.broker.coordinator.groups.store import OffsetStore
from seglog.broker.coordinator.groups.table import Group, GroupTable
from seglog.broker.coordinator.internal_topics.answers import coordinator_error
from seglog.broker.errors import RequestError
from seglog.broker.requests.context import Pending, RequestContext
from seglog.broker.requests.services import Services
from seglog.broker.runtime.scheduler import Scheduler
from seglog.protocol.api import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeaveGroupResult,
    SyncGroupRequest,
    SyncGroupResponse,
)
from seglog.protocol.errors import ErrorCode, SeglogError

logger = logging.getLogger(__name__)

GROUP_TIMER: Final = "group-timer"

_ANSWERS_PER_TURN: Final = 64
_PREFIX_CHARACTERS_MAX: Final = 1_000
_UNAVAILABLE: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE

ResponseT = TypeVar("ResponseT")


def random_member_id(prefix: str) -> str:
    """A member id as Kafka's brokers give it.

    Of a very long prefix it has the beginning: a member id has to fit into its field.
    """
    return f"{prefix[:_PREFIX_CHARACTERS_MAX]}-{uuid4()}"


class GroupCoordinator:
    """The coordinator of all groups.

    Args:
        services: of the broker.
        scheduler: for the deadlines of groups.
        table: the groups.
        store: where they are stored.
        new_member_id: makes an id of the name of a client.
    """

    def __init__(
        self,
        services: Services,
        scheduler: Scheduler,
        table: GroupTable,
        store: OffsetStore,
        new_member_id: Callable[[str], str] = random_member_id,
    ) -> None:
        self._services = services
        self._scheduler = scheduler
        self._table = table
        self._store = store
        self._new_member_id = new_member_id
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopping = False
        table.restored_listener = self._arm

    # ---- operations

    def join(
        self, request: JoinGroupRequest, context: RequestContext
    ) -> JoinGroupResponse | Pending[JoinGroupResponse]:
        """Answers JoinGroup: when the rebalance that it takes part in has ended."""
        try:
            self._table.check(request.group_id)
            self._check_session(request)
            group = self._table.find(request.group_id)
            if group is None and not request.member_id:
                group = self._table.new(request.group_id)
            elif group is None:
                return JoinGroupResponse(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
            ticket: asyncio.Future[JoinGroupResponse] = asyncio.get_running_loop().create_future()
            membership = group.membership
            membership.limits = self._table.limits()
            outcome = membership.join(
                request,
                Client(context.client_id, client_host(context.peer)),
                ticket,
                self._table.now(),
                self._new_member_id(request.group_instance_id or context.client_id),
            )
        except RequestError as error:
            return JoinGroupResponse(request.member_id, error.code)
        self._table.add(group)
        # The end of the rebalance has to be stored: what takes time may begin now.
        self._store.prepare()
        self._carry_out(group, outcome)
        return self._answer_of(group, ticket)

    def sync(
        self, request: SyncGroupRequest, _context: RequestContext
    ) -> SyncGroupResponse | Pending[SyncGroupResponse]:
        """Answers SyncGroup: when the leader has brought the assignments and they are stored."""
        try:
            group = self._member_group(request.group_id)
            ticket: asyncio.Future[SyncGroupResponse] = asyncio.get_running_loop().create_future()
            outcome = group.membership.sync(request, ticket, self._table.now())
        except RequestError as error:
            if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                # Rebalances are not stored, so the one that it is part of is over. Clients do not
                # expect the true reason here.
                return SyncGroupResponse(ErrorCode.REBALANCE_IN_PROGRESS)
            return SyncGroupResponse(error.code)
        self._carry_out(group, outcome)
        return self._answer_of(group, ticket)

    def heartbeat(self, request: HeartbeatRequest, _context: RequestContext) -> HeartbeatResponse:
        """Answers Heartbeat.

        While groups are being read every member is believed, as Kafka does it: clients do not
        expect to be told, and aiokafka's consumer ends over it.
        """
        try:
            group = self._member_group(request.group_id)
            return HeartbeatResponse(group.membership.heartbeat(request, self._table.now()))
        except RequestError as error:
            if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return HeartbeatResponse()
            return HeartbeatResponse(error.code)

    def leave(self, request: LeaveGroupRequest, _context: RequestContext) -> LeaveGroupResponse:
        """Answers LeaveGroup at once: the client need not wait for the rebalance that follows."""
        try:
            self._table.check(request.group_id)
        except RequestError as error:
            return LeaveGroupResponse([], error.code)
        results = []
        for leaving in request.members:
            result = LeaveGroupResult(leaving.member_id, leaving.group_instance_id)
            results.append(result)
            try:
                group = self._member_group(request.group_id)
                outcome = group.membership.leave(leaving, self._table.now())
            except RequestError as error:
                result.error = error.code
            else:
                self._carry_out(group, outcome)
        return LeaveGroupResponse(results)

    def delete(self, group_id: str) -> "asyncio.Future[None] | None":
        """Remove a group that has no members, with its offsets.

        Returns:
            What an acknowledgement has to wait for, None if it may be given at once.

        Raises:
            RequestError: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, or it could not be written.
        """
        self._table.check(group_id, may_be_nameless=True)
        group = self._table.get(group_id, ErrorCode.GROUP_ID_NOT_FOUND)
        state = group.membership.state
        if state is not GroupState.EMPTY:
            raise RequestError(
                ErrorCode.NON_EMPTY_GROUP, f"group {group_id!r} has members, its state is {state}"
            )
        acknowledgement = self.drop(group)
        self._table.counters.deleted_offsets += len(group.offsets)
        return acknowledgement

    def drop(self, group: Group) -> "asyncio.Future[None] | None":
        """Remove an empty group with all that the log has of it; returns as ``delete`` does.

        Raises:
            RequestError: it could not be written; the group stays.
        """
        records = [offset_tombstone(group.group_id, place) for place in group.places]
        if group.membership.generation > 0:
            records.append(group_tombstone(group.group_id))
        acknowledgement = None
        if records and self._store.exists:
            try:
                acknowledgement = self._store.append_all(group.group_id, records)
            except SeglogError as error:
                raise coordinator_error(error) from error
        group.membership.die(self._table.now())
        self._table.remove(group)
        return acknowledgement

    # ---- life cycle

    def send_away(self) -> None:
        """The broker is about to stop: answer all waiting members, let no member wait any more.

        Nothing of the groups changes by that: after the next start they are as they were.
        """
        self._is_stopping = True
        for group in self._table:
            self._dismiss_all(group)

    async def stop(self, deadline_seconds: float) -> None:
        """Stop; pending writes come to their end, unless that takes long."""
        self.send_away()
        if self._tasks:
            _, late = await asyncio.wait(set(self._tasks), timeout=deadline_seconds)
            for task in late:
                task.cancel()
        for group in self._table:
            self._table.remove(group)

    def _dismiss_all(self, group: Group) -> None:
        dismissed = group.membership.dismiss_all(_UNAVAILABLE, self._table.now())
        self._give(dismissed.answers)

    # ---- carrying out what a group decides

    def _carry_out(self, group: Group, outcome: Outcome) -> None:
        if outcome.must_store:
            self._store_group(group, outcome)
        else:
            self._give(outcome.answers)
        self._arm(group)

    def _store_group(self, group: Group, outcome: Outcome) -> None:
        generation = group.membership.generation
        if group.membership.state is GroupState.COMPLETING_REBALANCE:
            self._table.counters.rebalances += 1
        if not self._store.exists:
            self._spawn(self._create_and_store(group, outcome, generation))
            return
        try:
            acknowledgement = self._store.append(group.group_id, [group_record(group.membership)])
        except SeglogError as error:
            self._not_stored(group, outcome, generation, error)
            return
        if acknowledgement is None:
            self._stored(group, outcome, generation)
        else:
            self._spawn(self._store_durably(group, outcome, generation, acknowledgement))

    async def _create_and_store(self, group: Group, outcome: Outcome, generation: int) -> None:
        try:
            await self._store.ensure()
        except SeglogError as error:
            self._not_stored(group, outcome, generation, error)
            return
        if group.membership.state in {GroupState.PREPARING_REBALANCE, GroupState.DEAD}:
            # It has gone on meanwhile; what comes out of that is stored then.
            self._give(outcome.answers)
        else:
            self._store_group(group, outcome)

    async def _store_durably(
        self,
        group: Group,
        outcome: Outcome,
        generation: int,
        acknowledgement: "asyncio.Future[None]",
    ) -> None:
        try:
            await asyncio.shield(acknowledgement)
        except SeglogError as error:
            self._not_stored(group, outcome, generation, error)
        else:
            self._stored(group, outcome, generation)

    def _stored(self, group: Group, outcome: Outcome, generation: int) -> None:
        self._give(outcome.answers)
        self._carry_out(group, group.membership.stored(generation, self._table.now()))

    def _not_stored(
        self, group: Group, outcome: Outcome, generation: int, error: SeglogError
    ) -> None:
        refusal = coordinator_error(error)
        logger.warning("event=group-not-stored group=%r error=%s", group.group_id, error)
        self._give([(ticket, _refused(answer, refusal.code)) for ticket, answer in outcome.answers])
        failed = group.membership.store_failed(generation, refusal.code, self._table.now())
        self._carry_out(group, failed)

    def _give(self, answers: list[Answer]) -> None:
        """Answer those that wait: a few at once, many in turns.

        Each answer is encoded and sent in a callback of its own, and the loop runs all callbacks
        that are due before it looks at any socket: ten thousand at once hold everyone up.
        """
        _answer(answers[:_ANSWERS_PER_TURN])
        if len(answers) > _ANSWERS_PER_TURN:
            self._spawn(_answer_in_turns(answers[_ANSWERS_PER_TURN:]))

    def _answer_of(
        self, group: Group, ticket: "asyncio.Future[ResponseT]"
    ) -> ResponseT | Pending[ResponseT]:
        if self._is_stopping:
            self._dismiss_all(group)
        if ticket.done():
            return ticket.result()
        ticket.add_done_callback(partial(self._look_for_hangup, group))
        return Pending(ticket)

    def _look_for_hangup(self, group: Group, ticket: "asyncio.Future[Any]") -> None:
        if ticket.cancelled():
            group.membership.abandon(ticket, self._table.now())
            self._arm(group)

    # ---- deadlines

    def _arm(self, group: Group) -> None:
        """See to it that the group is woken at its next deadline, or before."""
        membership = group.membership
        deadline_ms = membership.next_deadline_ms()
        if deadline_ms is None or membership.state is GroupState.DEAD or self._table.is_stopped:
            if group.timer is not None:
                group.timer.cancel()
                group.timer = None
            return
        if group.timer is not None:
            if group.timer_ms <= deadline_ms:
                return
            group.timer.cancel()
        delay_ms = max(0, deadline_ms - self._table.now().monotonic_ms)
        group.timer_ms = deadline_ms
        group.timer = self._scheduler.schedule(GROUP_TIMER, partial(self._wake, group), delay_ms)

    def _wake(self, group: Group) -> None:
        group.timer = None
        membership = group.membership
        if membership.state is GroupState.DEAD:
            return
        before = len(membership.members)
        self._carry_out(group, membership.expire(self._table.now()))
        if len(membership.members) < before:
            logger.info(
                "event=members-expired group=%r members=%d left=%d generation=%d",
                group.group_id,
                before - len(membership.members),
                len(membership.members),
                membership.generation,
            )
        if group.is_unused and membership.generation == 0:
            self._table.remove(group)

    # ---- helpers

    def _member_group(self, group_id: str) -> Group:
        self._table.check(group_id)
        return self._table.get(group_id, ErrorCode.UNKNOWN_MEMBER_ID)

    def _check_session(self, request: JoinGroupRequest) -> None:
        config = self._services.config
        low, high = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
        if not low <= request.session_timeout_ms <= high:
            raise RequestError(
                ErrorCode.INVALID_SESSION_TIMEOUT,
                f"a session of {request.session_timeout_ms} ms; allowed are {low} to {high}",
            )

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _answer(answers: Iterable[Answer]) -> None:
    for ticket, response in answers:
        assert isinstance(ticket, asyncio.Future)
        # The client may have hung up in this very moment.
        if not ticket.done():
            ticket.set_result(response)


async def _answer_in_turns(answers: list[Answer]) -> None:
    for start in range(0, len(answers), _ANSWERS_PER_TURN):
        await asyncio.sleep(0)
        _answer(answers[start : start + _ANSWERS_PER_TURN])


def client_host(peer: str) -> str:
    """The address of a client as Kafka writes it: ``/127.0.0.1`` for ``127.0.0.1:50000``."""
    host, separator, _ = peer.rpartition(":")
    return f"/{host if separator else peer}".replace("[", "").replace("]", "")


def _refused(
    answer: JoinGroupResponse | SyncGroupResponse, error: ErrorCode
) -> JoinGroupResponse | SyncGroupResponse:
    """The same answer as a failure, unless it is one already."""
    if answer.error is not ErrorCode.NONE:
        return answer
    if isinstance(answer, JoinGroupResponse):
        return JoinGroupResponse(answer.member_id, error)
    return SyncGroupResponse(error)
