"""The table of a member's states."""

import pytest

from seglog.clients.group.states import (
    TRANSITIONS,
    WITH_HEARTBEATS,
    MemberEvent,
    MemberState,
    next_state,
)


def reachable(start):
    found = {start}
    while True:
        more = {after for (before, _), after in TRANSITIONS.items() if before in found} - found
        if not more:
            return found
        found |= more


def test_every_state_can_be_reached_and_left():
    assert reachable(MemberState.UNJOINED) == set(MemberState)
    for state in set(MemberState) - {MemberState.CLOSED}:
        assert MemberState.CLOSED in reachable(state)


def test_every_state_but_the_last_two_leads_back_to_a_new_join():
    for state in set(MemberState) - {MemberState.CLOSED, MemberState.FAILED}:
        assert MemberState.UNJOINED in reachable(state)


def test_every_event_leads_somewhere():
    assert {event for _, event in TRANSITIONS} == set(MemberEvent)


def test_a_member_that_failed_is_only_closed():
    for state in (MemberState.FAILED, MemberState.CLOSED):
        assert [event for before, event in TRANSITIONS if before is state] == [MemberEvent.CLOSE]


def test_what_is_not_in_the_table_is_a_bug():
    with pytest.raises(AssertionError, match="ADOPTED while JOINING"):
        next_state(MemberState.JOINING, MemberEvent.ADOPTED)


def test_a_member_whose_request_waits_at_the_broker_need_not_say_that_it_lives():
    assert MemberState.JOINING not in WITH_HEARTBEATS
    assert MemberState.SYNCING not in WITH_HEARTBEATS
