"""Offsets that are committed in transactions: C052, C060, TXN-3."""

import asyncio
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from seglog.broker.coordinator.coordination import OFFSET_EXPIRY_TASK
from seglog.broker.coordinator.groups.offsets import GroupOffsets
from seglog.broker.coordinator.groups.store import OFFSETS_TOPIC
from seglog.broker.errors import RequestError
from seglog.broker.requests.context import Pending
from seglog.protocol.api import (
    DeleteGroupsRequest,
    JoinGroupResponse,
    OffsetCommitPartition,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    OffsetFetchPartition,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
)
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records.control import ControlType, build_marker
from support.broker_parts import CONTEXT, NOW_MS
from support.group_broker import GroupBroker, join_request

P0, P1 = ("t", 0), ("t", 1)
NONE = ErrorCode.NONE
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


class Transactions:
    """A transaction coordinator that admits everyone, and its producers."""

    verifies = True

    def __init__(self, broker: GroupBroker) -> None:
        self.broker = broker
        self.admitted: list[tuple[Any, ...]] = []
        self.refusal: ErrorCode | None = None
        self.acknowledgement: asyncio.Future[None] | None = None
        coordination = broker.coordination
        self.offsets = GroupOffsets(
            broker.parts.services, coordination.groups, coordination._store, self
        )

    def admit(self, *asked: Any, may_add: bool) -> "asyncio.Future[None] | None":
        self.admitted.append((*asked, may_add))
        if self.refusal is not None:
            raise RequestError(self.refusal, "no")
        return self.acknowledgement

    async def restarted(self, *, clean: bool = True, settings: Any = None) -> "Transactions":
        return Transactions(await self.broker.restarted(settings, clean=clean))

    async def commit(
        self,
        offsets: Mapping[tuple[str, int], int],
        producer_id: int = 7,
        group: str = "g",
        **options: Any,
    ) -> list[ErrorCode]:
        """The results of a TxnOffsetCommit."""
        entries = [OffsetCommitPartition(*place, offset) for place, offset in offsets.items()]
        request = TxnOffsetCommitRequest("t-id", group, producer_id, 0, entries, **options)
        response = self.offsets.transactional_commit(request, CONTEXT)
        if isinstance(response, Pending):
            response = await asyncio.wait_for(response.future, 10)
        return [result.error for result in response.partitions]

    def end(self, outcome: ControlType, producer_id: int = 7, group: str = "g") -> None:
        """Write the marker, as the transaction coordinator does."""
        number = self.broker.coordination._store.partition_of(group)
        marker = build_marker(
            outcome,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=NOW_MS,
        )
        self.broker.parts.append_marker(OFFSETS_TOPIC, number, marker)
        is_commit = outcome is ControlType.COMMIT
        self.offsets.transaction_ended(number, producer_id, is_commit=is_commit)

    async def stable(self, *places: tuple[str, int]) -> list[tuple[int, ErrorCode]]:
        """What a read_committed consumer is told; no places ask for all."""
        asked = [OffsetFetchPartition(*place) for place in places] or None
        request = OffsetFetchRequest([OffsetFetchGroup("g", asked)], require_stable=True)
        (group,) = (await self.broker.ask(request)).groups
        return [(result.offset, result.error) for result in group.partitions]


@pytest.fixture
def transactions(broker: GroupBroker) -> Transactions:
    return Transactions(broker)


@pytest.mark.parametrize("outcome", [ControlType.COMMIT, ControlType.ABORT])
@pytest.mark.parametrize("restart", ["never", "clean", "kill"])
async def test_an_offset_counts_before_its_transaction_has_ended(
    transactions: Transactions, outcome: ControlType, restart: str
) -> None:
    """It is seen by nobody before, whether the broker was restarted in between or not (C052)."""
    await transactions.broker.commit({P0: 5})
    assert await transactions.commit({P0: 6, P1: 7}, may_add=True) == [NONE, NONE]
    number = transactions.broker.coordination._store.partition_of("g")
    assert transactions.admitted == [("t-id", 7, 0, [(OFFSETS_TOPIC, number)], True)]
    if restart != "never":
        transactions = await transactions.restarted(clean=restart == "clean")
    broker = transactions.broker
    assert await broker.committed([P0, P1]) == {P0: 5, P1: -1}
    assert await transactions.stable(P0, P1) == [(-1, UNSTABLE), (-1, UNSTABLE)]
    assert await transactions.stable() == [(-1, UNSTABLE)]
    transactions.end(outcome)
    committed = {P0: 6, P1: 7} if outcome is ControlType.COMMIT else {P0: 5}
    for _ in range(2):
        assert await transactions.broker.committed() == committed
        assert [offset for offset, _ in await transactions.stable()] == list(committed.values())
        transactions = await transactions.restarted(clean=False)
    await transactions.broker.stop()


_STEPS = ("plain", "first", "second", "commit first", "commit second", "abort first", "delete")


async def test_plain_and_transactional_commits_end_in_another_order_after_a_restart(
    transactions: Transactions,
) -> None:
    """The record that is last in the log counts; every order of four steps, live and replayed."""
    expected: dict[str, dict[tuple[str, int], int]] = {}
    for number, steps in enumerate(itertools.permutations(_STEPS, 4)):
        group = f"g{number}"
        pending: dict[str, tuple[int, int] | None] = {"first": None, "second": None}
        current: tuple[int, int] | None = None
        await transactions.broker.commit({P1: 1}, group)
        for position, step in enumerate(steps):
            verb, _, name = step.rpartition(" ")
            producer = 10 * number + (2 if name == "second" else 1)
            if step == "plain":
                await transactions.broker.commit({P0: position}, group)
                current = (position, position)
            elif step == "delete":
                await transactions.broker.ask(OffsetDeleteRequest(group, [P0]))
                current, pending = None, {"first": None, "second": None}
            elif not verb:
                assert await transactions.commit({P0: position}, producer, group) == [NONE]
                pending[name] = (position, position)
            else:
                outcome = ControlType.COMMIT if verb == "commit" else ControlType.ABORT
                transactions.end(outcome, producer, group)
                decided, pending[name] = pending[name], None
                if verb == "commit" and decided is not None:
                    current = decided if current is None else max(current, decided)
        expected[group] = {P1: 1} if current is None else {P0: current[1], P1: 1}
    for _ in range(2):
        for group, offsets in expected.items():
            assert await transactions.broker.committed(group=group) == offsets
        transactions = await transactions.restarted(clean=False)
    await transactions.broker.stop()


async def test_a_commit_in_a_transaction_is_judged_less_than_another(
    transactions: Transactions,
) -> None:
    """C060: 12 for p0, p1 stored, and fetched as stable after the transaction has ended."""
    limit = transactions.broker.parts.services.config.offset_metadata_max_bytes
    entries = [
        OffsetCommitPartition("t", 0, 5, metadata="m" * (limit + 1)),
        OffsetCommitPartition("t", 1, 6),
        OffsetCommitPartition("t", 1, -1),
        OffsetCommitPartition("t", 7, 6),
        OffsetCommitPartition("ghost", 0, 6),
    ]
    request = TxnOffsetCommitRequest("t-id", "g", 7, 0, entries)
    response = transactions.offsets.transactional_commit(request, CONTEXT)
    assert isinstance(response, Pending)
    assert [int(each.error) for each in (await response.future).partitions] == [12, 0, 1, 3, 3]
    assert await transactions.stable(P0, P1) == [(-1, NONE), (-1, UNSTABLE)]
    transactions.end(ControlType.COMMIT)
    assert await transactions.stable(P0, P1) == [(-1, NONE), (6, NONE)]


async def test_what_is_not_admitted_is_stored(transactions: Transactions) -> None:
    """Nothing of it is, and the coordinator is not asked for what is refused anyway."""
    transactions.refusal = ErrorCode.PRODUCER_FENCED
    assert await transactions.commit({P0: 5, P1: 6}) == [ErrorCode.PRODUCER_FENCED] * 2
    assert await transactions.commit({("ghost", 0): 5}) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert len(transactions.admitted) == 1
    assert await transactions.stable(P0, P1) == [(-1, NONE), (-1, NONE)]
    assert not len(transactions.broker.coordination.groups)


async def test_the_log_of_a_newer_producer_takes_an_older_one(transactions: Transactions) -> None:
    """The partition itself fences too, should the coordinator let a stale one through."""
    await transactions.commit({P0: 5})
    number = transactions.broker.coordination._store.partition_of("g")
    marker = build_marker(
        ControlType.ABORT,
        producer_id=7,
        producer_epoch=3,
        coordinator_epoch=0,
        timestamp_ms=NOW_MS,
    )
    transactions.broker.parts.append_marker(OFFSETS_TOPIC, number, marker)
    transactions.offsets.transaction_ended(number, 7, is_commit=False)
    assert await transactions.commit({P0: 6}) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert await transactions.stable(P0) == [(-1, NONE)]


async def test_it_is_written_before_the_coordinator_has_stored_that_it_comes(
    transactions: Transactions,
) -> None:
    """A crash would leave an offset that no coordinator decides about."""
    await transactions.broker.commit({P1: 1})
    stored = transactions.acknowledgement = asyncio.get_running_loop().create_future()
    committing = asyncio.ensure_future(transactions.commit({P0: 5}))
    await transactions.broker.parts.quiet()
    assert not committing.done()
    assert await transactions.stable(P0) == [(-1, NONE)]
    transactions.acknowledgement = None
    stored.set_result(None)
    assert await committing == [NONE]
    assert await transactions.stable(P0) == [(-1, UNSTABLE)]
    refused = transactions.acknowledgement = asyncio.get_running_loop().create_future()
    refused.set_exception(RequestError(ErrorCode.KAFKA_STORAGE_ERROR, "full"))
    assert await transactions.commit({P0: 6}) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


async def test_a_stranger_commits_for_a_live_group(transactions: Transactions) -> None:
    """Members are told apart where the client says who it is; older clients do not."""
    broker = transactions.broker
    joined: JoinGroupResponse = await broker.ask(join_request(instance="i"))
    await broker.sync(joined, {joined.member_id: b"all"})

    async def commit(generation: int, member: str, instance: str | None = None) -> ErrorCode:
        named = {"generation_id": generation, "member_id": member, "group_instance_id": instance}
        (error,) = await transactions.commit({P0: 5}, **named)
        return error

    now, me = joined.generation_id, joined.member_id
    assert await commit(now, me, "i") is NONE
    assert await commit(now + 1, me, "i") is ErrorCode.ILLEGAL_GENERATION
    assert await commit(now, "other") is ErrorCode.UNKNOWN_MEMBER_ID
    assert await commit(now, "other", "i") is ErrorCode.FENCED_INSTANCE_ID
    assert await commit(-1, "") is NONE
    named = {"generation_id": 0, "member_id": "m"}
    errors = await transactions.commit({P0: 5}, group="unknown", **named)
    assert errors == [ErrorCode.ILLEGAL_GENERATION]


async def test_a_group_goes_while_a_transaction_has_offsets_for_it(tmp_path: Path) -> None:
    """Neither the group nor the offset about to be replaced expires; then both do (C057)."""
    settings = {"offsets.retention.ms": "2000", "offsets.retention.check.interval.ms": "500"}
    broker = await GroupBroker.start(tmp_path / "expiring", settings)
    await broker.parts.create_topic("t", 2)
    transactions = Transactions(broker)
    await broker.commit({P0: 5, P1: 6})
    await transactions.commit({P0: 7})
    await transactions.commit({P0: 7}, group="only pending")
    assert broker.scheduler.tasks(OFFSET_EXPIRY_TASK)
    await broker.advance(4000)
    assert await broker.committed() == {P0: 5}
    assert {group.group_id for group in broker.coordination.groups} == {"g", "only pending"}
    transactions.end(ControlType.ABORT)
    transactions.end(ControlType.ABORT, group="only pending")
    assert [group.group_id for group in broker.coordination.groups] == ["g"]
    await broker.advance(1000)
    assert not len(broker.coordination.groups)
    await broker.stop()


@pytest.mark.parametrize("way", ["offset", "group", "topic"])
async def test_what_was_deleted_comes_back_when_the_transaction_is_committed(
    transactions: Transactions, way: str
) -> None:
    """An undecided offset goes with the group, the topic or the offset that it would replace."""
    broker = transactions.broker
    await broker.commit({P1: 1})
    await transactions.commit({P0: 5})
    if way == "offset":
        response = await broker.ask(OffsetDeleteRequest("g", [P0]))
        assert [result.error for result in response.partitions] == [NONE]
    elif way == "group":
        (result,) = (await broker.ask(DeleteGroupsRequest(["g"]))).groups
        assert result.error is NONE
    else:
        await broker.parts.delete_topic("t")
        await broker.parts.create_topic("t", 2)
    transactions.end(ControlType.COMMIT)
    for _ in range(2):
        assert P0 not in await transactions.broker.committed()
        transactions = await transactions.restarted(clean=False)
    await transactions.broker.stop()


async def test_an_offset_of_a_topic_made_anew_comes_back(transactions: Transactions) -> None:
    """Deleted and made again at the worst time: the kill takes the tombstones, the id tells."""
    broker = transactions.broker
    await broker.commit({P0: 5})
    await transactions.commit({P1: 6})
    broker.parts.services.topics.deletion_listeners.clear()
    await broker.parts.delete_topic("t")
    await broker.parts.create_topic("t", 2)
    transactions = await transactions.restarted(clean=False)
    assert await transactions.broker.committed() == {}
    await transactions.broker.commit({P0: 1})
    transactions.end(ControlType.COMMIT)
    assert await transactions.broker.committed() == {P0: 1}
    transactions = await transactions.restarted(clean=False)
    assert await transactions.broker.committed() == {P0: 1}
    await transactions.broker.stop()
