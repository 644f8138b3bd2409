"""Which address is tried next, and how long it may take."""

import pytest

from seglog.clients.config import Address
from seglog.clients.session.reaching import (
    FIRST_ROUND_S,
    Attempts,
    Reachability,
    hosts_of,
    share_s,
)

A, B, C = (Address(name, 9092) for name in "abc")


def test_each_attempt_leaves_time_for_those_behind_it() -> None:
    assert share_s(10.0, 19.0, 3) == 3.0
    assert share_s(13.0, 19.0, 1) == 6.0
    assert share_s(20.0, 19.0, 2) > 0


def test_the_addresses_of_a_name_are_tried_once_each() -> None:
    found = [(0, 0, 6, "", ("::1", 9092, 0, 0)), (0, 0, 6, "", ("127.0.0.1", 9092))] * 2
    assert hosts_of("localhost", found) == ["::1", "127.0.0.1"]
    with pytest.raises(OSError, match="nothing is known about nowhere"):
        hosts_of("nowhere", [])


def test_a_single_server_gets_the_whole_time() -> None:
    attempts = Attempts([A], 30.0)
    assert attempts.next(0.0) == (A, 30.0)
    attempts.failed(A, 30.0)
    assert attempts.next(30.0) is None


def test_no_server_is_waited_for_long_before_all_have_had_a_chance() -> None:
    attempts = Attempts([A, B], 30.0)
    assert attempts.next(0.0) == (A, FIRST_ROUND_S)
    attempts.failed(A, 1.0)
    assert attempts.next(1.0) == (B, FIRST_ROUND_S)
    attempts.failed(B, 2.0)
    assert attempts.next(2.0) == (A, 14.0)
    attempts.failed(A, 16.0)
    assert attempts.next(16.0) == (B, 14.0)
    attempts.failed(B, 30.0)
    assert attempts.next(30.0) is None


def test_a_server_that_refuses_is_not_tried_twice() -> None:
    attempts = Attempts([A, B, C], 30.0)
    for server, ended_at_s in ((A, 0.01), (B, 1.01), (C, 1.02)):
        attempt = attempts.next(ended_at_s)
        assert attempt is not None
        assert attempt[0] == server
        attempts.failed(server, ended_at_s + (1.0 if server == B else 0.0))
    assert attempts.next(2.03) == (B, pytest.approx(27.97))
    attempts.failed(B, 2.04)
    assert attempts.next(2.05) is None


def test_servers_that_did_not_answer_are_asked_last_and_in_turn() -> None:
    reachability = Reachability()
    reachability.failed(A)
    reachability.failed(B)
    assert reachability.in_order([A, B, C]) == [C, A, B]
    reachability.failed(A)
    assert reachability.in_order([A, B, C]) == [C, B, A]
    reachability.answered(A)
    assert reachability.in_order([A, B, C]) == [A, C, B]
