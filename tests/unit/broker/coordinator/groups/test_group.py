"""The membership of classic groups: C059, C060."""

import pytest

from seglog.broker.coordinator.groups.members import Member
from seglog.broker.coordinator.groups.state import (
    TRANSITIONS,
    ClockReading,
    GroupState,
    Outcome,
)
from seglog.broker.errors import RequestError
from seglog.protocol.errors import ErrorCode
from support.group_broker import join_request, subscription
from support.group_model import CLIENT, GroupDriver


@pytest.fixture
def driver() -> GroupDriver:
    return GroupDriver()


def refusal(driver: GroupDriver, ticket: str = "x", member_id: str = "", **options: object) -> str:
    with pytest.raises(RequestError) as caught:
        driver.join(ticket, member_id, **options)
    return caught.value.code.name


# ---- first joins


def test_a_client_is_let_in_without_the_id_that_it_has_to_learn_first(driver: GroupDriver) -> None:
    """MEMBER_ID_REQUIRED: a client that repeats a lost join must not become two members."""
    driver.join("first")
    answer = driver.joined("first")
    assert answer.error is ErrorCode.MEMBER_ID_REQUIRED
    assert len(driver.group.members) == 0
    driver.join("second", answer.member_id)
    assert driver.joined("second").error is ErrorCode.NONE


def test_an_old_client_is_given_an_error_that_it_does_not_know(driver: GroupDriver) -> None:
    """JoinGroup below version 4 joins at once."""
    driver.join("old", knows_member_id_required=False)
    assert driver.joined("old").error is ErrorCode.NONE
    assert driver.joined("old").member_id


def test_the_only_member_waits_for_others(driver: GroupDriver) -> None:
    """group.initial.rebalance.delay.ms 0: the first join is answered within the call."""
    member_id = driver.new_id()
    driver.join("j", member_id)
    answer = driver.joined("j")
    assert (answer.generation_id, answer.leader_id, answer.protocol_name) == (1, member_id, "range")
    assert [each.member_id for each in answer.members] == [member_id]
    assert driver.group.state is GroupState.COMPLETING_REBALANCE


def test_a_new_group_starts_before_its_delay_is_over() -> None:
    """Each newcomer extends the delay, at most to the rebalance timeout."""
    driver = GroupDriver(delay_ms=3000)
    ids = [driver.new_id() for _ in range(3)]
    for number, member_id in enumerate(ids):
        driver.join(f"j{number}", member_id)
        driver.advance(2000)
        assert f"j{number}" not in driver.answers
    driver.advance(1001)
    assert [driver.joined(f"j{number}").generation_id for number in range(3)] == [1, 1, 1]
    assert len(driver.joined("j0").members) == 3
    assert driver.joined("j1").members == []


def test_newcomers_put_the_start_of_a_group_off_for_ever() -> None:
    driver = GroupDriver(delay_ms=3000)
    ids = [driver.new_id(rebalance_ms=5000) for _ in range(4)]
    for number, member_id in enumerate(ids):
        driver.join(f"j{number}", member_id, rebalance_ms=5000)
        driver.advance(1700)
    assert driver.joined("j0").generation_id == 1


def test_a_client_that_never_comes_back_keeps_its_id(driver: GroupDriver) -> None:
    """Pending ids go after the session timeout, and nobody waits for them longer."""
    member_id = driver.new_id(session_ms=6000)
    assert driver.group.has_pending_members
    driver.advance(6000)
    assert not driver.group.has_pending_members
    assert refusal(driver, member_id=member_id) == "UNKNOWN_MEMBER_ID"


# ---- refusals


def test_members_without_a_common_protocol_are_mixed(driver: GroupDriver) -> None:
    driver.stable(1, protocols=[("range", b""), ("sticky", b"")])
    assert refusal(driver, protocols=[("roundrobin", b"")]) == "INCONSISTENT_GROUP_PROTOCOL"
    assert refusal(driver, protocol_type="connect") == "INCONSISTENT_GROUP_PROTOCOL"
    assert refusal(driver, protocols=[]) == "INCONSISTENT_GROUP_PROTOCOL"
    assert refusal(driver, protocol_type="") == "INCONSISTENT_GROUP_PROTOCOL"
    assert driver.group.state is GroupState.STABLE


def test_a_group_grows_beyond_its_bound() -> None:
    """group.max.size counts ids that were given out, too; who is in may come again."""
    driver = GroupDriver(max_size=2)
    first = driver.new_id()
    driver.new_id()
    assert refusal(driver) == "GROUP_MAX_SIZE_REACHED"
    driver.join("j", first)
    assert driver.joined("j").error is ErrorCode.NONE


def test_a_stranger_is_taken_for_a_member(driver: GroupDriver) -> None:
    driver.stable(1)
    assert refusal(driver, member_id="stranger") == "UNKNOWN_MEMBER_ID"
    with pytest.raises(RequestError) as caught:
        driver.heartbeat("stranger")
    assert caught.value.code is ErrorCode.UNKNOWN_MEMBER_ID


# ---- rebalances


def test_a_newcomer_gets_nothing_because_the_others_are_not_asked(driver: GroupDriver) -> None:
    """The old member hears of the rebalance with its heartbeat and joins again."""
    (first,) = driver.stable(1)
    second = driver.new_id()
    driver.join("second", second)
    assert "second" not in driver.answers
    assert driver.heartbeat(first) is ErrorCode.REBALANCE_IN_PROGRESS
    driver.join("first", first)
    assert driver.joined("first").generation_id == driver.joined("second").generation_id == 2


def test_one_member_that_does_not_rejoin_holds_the_others_up_for_ever(driver: GroupDriver) -> None:
    """C059: it is removed when the rebalance timeout is over, once, and then rejoins as new."""
    slow, other = driver.stable(2, rebalance_ms=10_000, session_ms=30_000)
    third = driver.new_id(rebalance_ms=10_000)
    driver.join("third", third, rebalance_ms=10_000)
    driver.join("other", other, rebalance_ms=10_000)
    generation = driver.group.generation
    driver.advance(9_999)
    assert "third" not in driver.answers
    driver.advance(1)
    assert driver.joined("third").generation_id == generation + 1
    assert slow not in driver.group.members
    with pytest.raises(RequestError) as caught:
        driver.heartbeat(slow, generation)
    assert caught.value.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_dead_leader_still_leads(driver: GroupDriver) -> None:
    leader, other = driver.stable(2)
    driver.leave(leader)
    driver.join("other", other)
    assert driver.joined("other").leader_id == other
    assert [each.member_id for each in driver.joined("other").members] == [other]


def test_a_follower_that_missed_its_answer_disturbs_the_group(driver: GroupDriver) -> None:
    """An unchanged follower gets the current generation; a leader that rejoins asks for a new one.

    Clients rely on the latter when the partitions of a topic have changed.
    """
    leader, follower = driver.stable(2)
    generation = driver.group.generation
    driver.join("again", follower)
    assert driver.joined("again").generation_id == generation
    assert driver.group.state is GroupState.STABLE
    driver.join("leader", leader)
    assert driver.group.state is GroupState.PREPARING_REBALANCE


def test_a_changed_subscription_is_not_noticed(driver: GroupDriver) -> None:
    """Cooperative assignors rejoin with other metadata to have the next step made."""
    _, follower = driver.stable(2)
    driver.join("changed", follower, metadata=subscription("t", owned=b"1"))
    assert driver.group.state is GroupState.PREPARING_REBALANCE


def test_a_member_in_the_second_phase_cannot_repeat_its_join(driver: GroupDriver) -> None:
    member_id = driver.new_id()
    driver.join("one", member_id)
    driver.join("two", member_id)
    assert driver.joined("one") == driver.joined("two")


def test_the_same_member_waits_twice(driver: GroupDriver) -> None:
    """Whoever waits on the old connection is let go, or it would wait for ever."""
    first, second = driver.stable(2)
    driver.leave(first)
    driver.group.limits = driver.group.limits._replace(initial_rebalance_delay_ms=5000)
    third = driver.new_id()
    driver.join("old", third)
    driver.join("new", third)
    assert driver.joined("old").error is ErrorCode.REBALANCE_IN_PROGRESS
    driver.join("second", second)
    assert driver.joined("new").error is ErrorCode.NONE


def test_the_most_wanted_protocol_is_not_chosen(driver: GroupDriver) -> None:
    """Each member votes for its first protocol that all support."""
    ids = [driver.new_id() for _ in range(3)]
    wishes = (["only-a", "x", "y"], ["y", "x"], ["y", "x"])
    for member_id, names in zip(ids, wishes, strict=True):
        driver.join(f"j-{member_id}", member_id, protocols=[(name, b"") for name in names])
    driver.join("again", ids[0], protocols=[(name, b"") for name in wishes[0]])
    driver.join("again1", ids[1], protocols=[(name, b"") for name in wishes[1]])
    assert driver.group.protocol_name == "y"


# ---- assignments


def test_assignments_are_given_out_before_they_are_stored(driver: GroupDriver) -> None:
    """A member that works on an assignment which a crash forgets would not be fenced."""
    leader, follower = driver.stable(2)
    driver.stores = False
    driver.join("leader", leader)
    driver.join("follower", follower)
    driver.sync("f", follower)
    driver.sync("l", leader, assignments={leader: b"1", follower: b"2"})
    assert not {"f", "l"} & driver.answers.keys()
    assert driver.group.state is GroupState.COMPLETING_REBALANCE
    driver.take(driver.group.stored(driver.group.generation, driver.now))
    assert driver.synced("f").assignment == b"2"
    assert driver.synced("l").assignment == b"1"
    assert driver.group.state is GroupState.STABLE


def test_members_hang_when_assignments_cannot_be_stored(driver: GroupDriver) -> None:
    (leader,) = driver.stable(1)
    driver.stores = False
    driver.join("leader", leader)
    driver.sync("l", leader, assignments={leader: b"1"})
    failed = driver.group.store_failed(
        driver.group.generation, ErrorCode.COORDINATOR_NOT_AVAILABLE, driver.now
    )
    driver.take(failed)
    assert driver.synced("l").error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.group.state is GroupState.PREPARING_REBALANCE


def test_an_answer_of_the_disk_comes_for_a_generation_that_is_over(driver: GroupDriver) -> None:
    leader, follower = driver.stable(2)
    driver.stores = False
    driver.join("leader", leader)
    driver.join("follower", follower)
    generation = driver.group.generation
    driver.sync("l", leader, assignments={leader: b"1"})
    driver.leave(follower)
    assert driver.synced("l").error is ErrorCode.REBALANCE_IN_PROGRESS
    driver.take(driver.group.stored(generation, driver.now))
    assert driver.group.state is GroupState.PREPARING_REBALANCE


def test_a_member_that_the_leader_forgot_waits_for_ever(driver: GroupDriver) -> None:
    leader, follower = driver.stable(2)
    driver.join("leader", leader)
    driver.join("follower", follower)
    driver.sync("l", leader, assignments={leader: b"1"})
    driver.sync("f", follower)
    assert driver.synced("f").assignment == b""


def test_a_sync_of_another_generation_or_protocol_is_answered(driver: GroupDriver) -> None:
    leader, _ = driver.stable(2)
    generation = driver.group.generation
    for options, code in (
        ({"generation": generation - 1}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": generation + 1}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ):
        with pytest.raises(RequestError) as caught:
            driver.sync("x", leader, **options)
        assert caught.value.code is code
    driver.leave(driver.group.members.leader_id or "")
    other = next(iter(driver.group.members)).member_id
    with pytest.raises(RequestError) as caught:
        driver.sync("x", other)
    assert caught.value.code is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_leader_that_never_syncs_blocks_the_group(driver: GroupDriver) -> None:
    """Who has not synced when the rebalance timeout is over is removed."""
    leader, follower = driver.stable(2, rebalance_ms=10_000, session_ms=60_000)
    driver.join("leader", leader, rebalance_ms=10_000, session_ms=60_000)
    driver.join("follower", follower, rebalance_ms=10_000, session_ms=60_000)
    driver.sync("f", follower)
    driver.advance(10_000)
    assert driver.synced("f").error is ErrorCode.REBALANCE_IN_PROGRESS
    assert leader not in driver.group.members
    driver.join("again", follower)
    assert driver.joined("again").leader_id == follower


# ---- signs of life


def test_a_silent_member_keeps_its_partitions(driver: GroupDriver) -> None:
    """C059: one that was killed is noticed after its session, one that lives is not touched."""
    first, second = driver.stable(2, session_ms=6000)
    for _ in range(3):
        driver.advance(2500)
        if first in driver.group.members and second in driver.group.members:
            driver.heartbeat(first)
    assert second not in driver.group.members
    assert driver.heartbeat(first) is ErrorCode.REBALANCE_IN_PROGRESS


def test_who_waits_for_a_slow_rebalance_is_thrown_out(driver: GroupDriver) -> None:
    """A member that waits for an answer cannot send heartbeats."""
    first, second = driver.stable(2, session_ms=6000, rebalance_ms=60_000)
    driver.join("first", first, metadata=subscription("u"), session_ms=6000)
    for _ in range(4):
        driver.advance(5000)
        driver.heartbeat(second)
    assert first in driver.group.members
    driver.join("second", second)
    assert driver.joined("first").error is ErrorCode.NONE


def test_a_member_whose_connection_broke_while_it_waited_lives_for_ever(
    driver: GroupDriver,
) -> None:
    first, second = driver.stable(2, session_ms=6000, rebalance_ms=60_000)
    driver.join("first", first, metadata=subscription("u"), session_ms=6000)
    driver.abandon("first")
    driver.advance(5999)
    driver.heartbeat(second)
    assert first in driver.group.members
    driver.advance(1)
    assert first not in driver.group.members


def test_huge_timeouts_wrap_to_small_ones(driver: GroupDriver) -> None:
    """C060: 2147483647 ms for session and rebalance."""
    limit = 2**31 - 1
    driver.now_ms = limit
    (first,) = driver.stable(1, session_ms=limit, rebalance_ms=limit)
    second = driver.new_id(session_ms=limit, rebalance_ms=limit)
    driver.join("second", second, session_ms=limit, rebalance_ms=limit)
    driver.advance(limit - 1)
    assert first in driver.group.members
    assert "second" not in driver.answers


def test_a_heartbeat_in_the_second_phase_is_an_error(driver: GroupDriver) -> None:
    """Clients begin to send them as soon as they have joined."""
    member_id = driver.new_id()
    driver.join("j", member_id)
    assert driver.heartbeat(member_id) is ErrorCode.NONE


# ---- leaving


def test_the_last_one_leaves_and_the_group_stays(driver: GroupDriver) -> None:
    (only,) = driver.stable(1)
    generation = driver.group.generation
    driver.leave(only)
    assert driver.group.state is GroupState.EMPTY
    assert driver.group.generation == generation + 1
    assert driver.group.protocol_type == "consumer"
    assert driver.stored[-1] == generation + 1
    assert driver.group.next_deadline_ms() is None


def test_who_leaves_while_it_waits_is_never_answered(driver: GroupDriver) -> None:
    first, _ = driver.stable(2)
    driver.join("first", first, metadata=subscription("u"))
    driver.leave(first)
    assert driver.joined("first").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_leaving_with_an_id_that_was_never_used_is_an_error(driver: GroupDriver) -> None:
    driver.leave(driver.new_id())
    assert not driver.group.has_pending_members
    with pytest.raises(RequestError):
        driver.leave("stranger")


def test_others_wait_for_a_newcomer_that_gave_up(driver: GroupDriver) -> None:
    (first,) = driver.stable(1)
    second = driver.new_id()
    driver.join("first", first)
    assert "first" not in driver.answers
    driver.leave(second)
    assert driver.joined("first").generation_id == driver.group.generation


# ---- static members


def test_a_static_member_that_comes_back_causes_a_rebalance(driver: GroupDriver) -> None:
    """Same instance, new process, same topics: it gets its assignment back, and leads as before."""
    driver.join("j", instance="i", metadata=subscription("t", owned=b"then"))
    old = driver.joined("j").member_id
    driver.sync("s", old, assignments={old: b"mine"})
    generation = driver.group.generation
    driver.join("back", instance="i", metadata=subscription("t", owned=b"now"))
    answer = driver.joined("back")
    assert driver.group.state is GroupState.STABLE
    assert (answer.generation_id, answer.leader_id) == (generation, answer.member_id)
    assert answer.skip_assignment
    assert answer.member_id != old
    driver.sync("sync", answer.member_id)
    assert driver.synced("sync").assignment == b"mine"
    assert driver.stored[-1] == generation


def test_an_old_client_that_comes_back_thinks_that_it_has_to_assign(driver: GroupDriver) -> None:
    """Below version 9 there is no skip_assignment: it is told that somebody else leads."""
    driver.join("j", instance="i")
    old = driver.joined("j").member_id
    driver.sync("s", old, assignments={old: b"mine"})
    driver.join("back", instance="i", knows_skip_assignment=False)
    answer = driver.joined("back")
    assert answer.leader_id == old
    assert not answer.members
    assert not answer.skip_assignment


def test_a_static_member_with_other_topics_keeps_its_old_partitions(driver: GroupDriver) -> None:
    driver.join("j", instance="i")
    old = driver.joined("j").member_id
    driver.sync("s", old, assignments={old: b"mine"})
    driver.join("back", instance="i", metadata=subscription("other"))
    assert driver.joined("back").generation_id == 2


def test_two_processes_share_an_instance_id(driver: GroupDriver) -> None:
    """The older one is fenced, whatever it does."""
    driver.join("j", instance="i")
    old = driver.joined("j").member_id
    driver.sync("s", old, assignments={old: b"mine"})
    driver.join("back", instance="i")
    assert refusal(driver, member_id=old, instance="i") == "FENCED_INSTANCE_ID"
    with pytest.raises(RequestError) as caught:
        driver.leave(old, "i")
    assert caught.value.code is ErrorCode.FENCED_INSTANCE_ID


def test_the_older_process_waits_while_the_newer_one_takes_over(driver: GroupDriver) -> None:
    (dynamic,) = driver.stable(1)
    driver.join("old", instance="i")
    assert "old" not in driver.answers
    driver.join("new", instance="i")
    assert driver.joined("old").error is ErrorCode.FENCED_INSTANCE_ID
    driver.join("dynamic", dynamic)
    assert driver.joined("new").error is ErrorCode.NONE


def test_a_static_member_that_restarts_slowly_is_removed_by_a_rebalance(
    driver: GroupDriver,
) -> None:
    """It stays until its session is over, even if it does not rejoin; somebody else leads then."""
    driver.join("j", instance="i", rebalance_ms=5000, session_ms=30_000)
    static = driver.joined("j").member_id
    driver.sync("s", static, assignments={static: b"all"})
    second = driver.new_id(rebalance_ms=5000, session_ms=30_000)
    driver.join("second", second, rebalance_ms=5000, session_ms=30_000)
    driver.advance(5000)
    answer = driver.joined("second")
    assert answer.leader_id == second
    assert {each.member_id for each in answer.members} == {static, second}
    driver.sync("s2", second, assignments={second: b"1", static: b"2"})
    driver.join("back", instance="i", rebalance_ms=5000, session_ms=30_000)
    assert driver.joined("back").generation_id == answer.generation_id


def test_a_group_of_missing_static_members_rebalances_without_end(driver: GroupDriver) -> None:
    """Nobody is there to lead: their sessions decide, then the group is empty."""
    for number in range(2):
        driver.join(f"j{number}", instance=f"i{number}", rebalance_ms=2000, session_ms=9000)
    assert driver.group.state is GroupState.PREPARING_REBALANCE
    driver.abandon("j1")
    driver.advance(8999)
    assert len(driver.group.members) == 2
    driver.advance(1)
    assert driver.group.state is GroupState.EMPTY


def test_missing_static_members_without_patience_do_not_keep_the_broker_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They asked not to be waited for; until their sessions end, that is no timer of zero."""
    driver = GroupDriver(delay_ms=3000)
    for number in range(2):
        driver.join(f"j{number}", instance=f"i{number}", session_ms=30_000)
    driver.advance(3000)
    ids = [driver.joined(f"j{number}").member_id for number in range(2)]
    for each in ids:
        driver.sync(f"s{each}", each)
    for number in range(2):
        driver.join(f"again{number}", instance=f"i{number}", session_ms=30_000, rebalance_ms=0)
    driver.leave("", "i0")
    looks = 0
    expire = driver.group.expire

    def counted(now: ClockReading) -> Outcome:
        nonlocal looks
        looks += 1
        return expire(now)

    monkeypatch.setattr(driver.group, "expire", counted)
    driver.advance(30_000)
    assert driver.group.state is GroupState.EMPTY
    assert looks <= 40


def test_a_static_member_leaves_by_its_instance_id(driver: GroupDriver) -> None:
    driver.join("j", instance="i")
    driver.leave("", "i")
    assert driver.group.state is GroupState.EMPTY
    with pytest.raises(RequestError) as caught:
        driver.leave("", "i")
    assert caught.value.code is ErrorCode.UNKNOWN_MEMBER_ID


# ---- its end, and its return


def test_an_answer_is_given_by_a_group_that_was_removed(driver: GroupDriver) -> None:
    driver.group.die(driver.now)
    assert refusal(driver) == "COORDINATOR_NOT_AVAILABLE"


def test_a_state_follows_another_that_it_must_not() -> None:
    """The table is the one of the protocol."""
    assert TRANSITIONS[GroupState.DEAD] == frozenset()
    assert GroupState.STABLE not in TRANSITIONS[GroupState.PREPARING_REBALANCE]
    assert all(GroupState.DEAD in following for following in list(TRANSITIONS.values())[:4])


def test_members_of_a_stored_group_live_on_without_being_heard_of(driver: GroupDriver) -> None:
    """After a restart they have one session to show themselves, and no rebalance before that."""
    group = driver.group
    driver.group = type(group).restored(
        "g",
        group.limits,
        driver.now,
        generation=7,
        protocol_type="consumer",
        protocol_name="range",
        leader_id="b",
        members=[
            Member(each, None, "app", "/host", 6000, 60_000, [("range", b"")], each.encode())
            for each in ("a", "b")
        ],
        changed_ms=5,
    )
    assert driver.group.members.leader_id == "b"
    driver.advance(5999)
    assert driver.heartbeat("a", 7) is ErrorCode.NONE
    driver.sync("s", "a", generation=7)
    assert driver.synced("s").assignment == b"a"
    driver.advance(1)
    assert "b" not in driver.group.members


def test_what_a_join_asks_for_is_not_what_a_member_gets(driver: GroupDriver) -> None:
    """Timeouts and protocols of a rejoin replace the old ones."""
    (member_id,) = driver.stable(1, session_ms=6000)
    request = join_request(member_id, session_ms=20_000, rebalance_ms=30_000)
    driver.take(driver.group.join(request, CLIENT, "j", driver.now, "unused"))
    member = driver.group.members.get(member_id)
    assert member is not None
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (20_000, 30_000)
