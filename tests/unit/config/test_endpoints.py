"""Listener addresses."""

import pytest

from seglog.config.endpoints import (
    Endpoint,
    HostPort,
    NamedValue,
    parse_advertised_endpoints,
    parse_endpoints,
    parse_host_port,
    parse_limits_by_host,
    parse_protocol_map,
)


def test_listeners_are_misread() -> None:
    assert parse_endpoints("PLAINTEXT://:9092, inner://[::1]:0,Outer://h.example:0") == (
        Endpoint("PLAINTEXT", "", 9092),
        Endpoint("INNER", "::1", 0),
        Endpoint("OUTER", "h.example", 0),
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("localhost:9092", "NAME://host:port"),
        ("A://h", "no port"),
        ("A://h:70000", "65535"),
        ("A://h:x", "whole number"),
        ("A://::1:9092", "brackets"),
        ("A://h:1,B://g:1", "same port"),
        ("A://h:1,A://h:2", "same name"),
    ],
)
def test_a_wrong_listener_is_taken(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_endpoints(text)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]"])
def test_clients_are_told_an_address_they_cannot_reach(host: str) -> None:
    with pytest.raises(ValueError, match="cannot connect"):
        parse_advertised_endpoints(f"A://{host}:9092")


def test_an_ipv4_and_an_ipv6_address_may_share_a_port() -> None:
    assert len(parse_endpoints("A://0.0.0.0:9092,B://[::]:9092")) == 2
    assert len(parse_endpoints("A://127.0.0.1:9092,B://[::1]:9092")) == 2


def test_two_advertised_listeners_behind_one_proxy_are_refused() -> None:
    assert len(parse_advertised_endpoints("A://h:1,B://h:1")) == 2


def test_the_metrics_listener_cannot_be_switched_off() -> None:
    assert parse_host_port(" ") is None
    assert parse_host_port("0.0.0.0:1") == HostPort("0.0.0.0", 1)
    assert str(HostPort("::1", 5)) == "[::1]:5"


def test_maps_are_misread() -> None:
    assert parse_protocol_map("a:PLAINTEXT, B:SSL") == (
        NamedValue("A", "PLAINTEXT"),
        NamedValue("B", "SSL"),
    )
    assert parse_limits_by_host("::1:5,10.0.0.1:0") == (
        NamedValue("::1", "5"),
        NamedValue("10.0.0.1", "0"),
    )


@pytest.mark.parametrize("text", ["A", "A:", ":SSL", "A:TLS", "A:SSL,A:SSL"])
def test_a_wrong_protocol_map_is_taken(text: str) -> None:
    with pytest.raises(ValueError, match=r"form|protocol|twice"):
        parse_protocol_map(text)


@pytest.mark.parametrize("text", ["h:-1", "h:x", "h"])
def test_a_wrong_limit_is_taken(text: str) -> None:
    with pytest.raises(ValueError, match=r"range|whole number|form"):
        parse_limits_by_host(text)
