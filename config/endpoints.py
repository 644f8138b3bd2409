"""Listeners: ``NAME://host:port``, and which security protocol a listener's name stands for."""

from itertools import combinations
from typing import Final, NamedTuple

from seglog.config.values import INT32_MAX, parse_integer, parse_list

PLAINTEXT: Final = "PLAINTEXT"
SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_PORT_MAX = 65535


class Endpoint(NamedTuple):
    """A named address; an empty host means every interface, port 0 lets the system choose."""

    listener_name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener_name}://{host}:{self.port}"


class HostPort(NamedTuple):
    """An address without a name."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class NamedValue(NamedTuple):
    """One ``name:value`` part of a map such as ``listener.security.protocol.map``."""

    name: str
    value: str

    def __str__(self) -> str:
        return f"{self.name}:{self.value}"


def parse_endpoints(text: str) -> tuple[Endpoint, ...]:
    """Read a list of endpoints; names and ports (other than 0) must differ.

    Raises:
        ValueError: with a short reason.
    """
    endpoints = tuple(_parse_endpoint(part) for part in parse_list(text))
    if not endpoints:
        raise ValueError("it is empty")
    names = [endpoint.listener_name for endpoint in endpoints]
    if len(set(names)) != len(names):
        raise ValueError("two listeners have the same name")
    for one, other in combinations(endpoints, 2):
        if one.port and one.port == other.port and not are_families_apart(one, other):
            raise ValueError("two listeners have the same port")
    return endpoints


def are_families_apart(one: Endpoint, other: Endpoint) -> bool:
    """Whether one is an IPv4 address and the other an IPv6 one: they may share a port (KIP-797)."""
    return {_address_version(one.host), _address_version(other.host)} == {4, 6}


def _address_version(host: str) -> int | None:
    """4 or 6 for an address, None for a name and for all interfaces."""
    if ":" in host:
        return 6
    return 4 if host and not host.strip("0123456789.") else None


def parse_advertised_endpoints(text: str) -> tuple[Endpoint, ...]:
    """Read the endpoints that clients are told; several may share a port behind one proxy."""
    endpoints = tuple(_parse_endpoint(part) for part in parse_list(text))
    names = [endpoint.listener_name for endpoint in endpoints]
    if len(set(names)) != len(names):
        raise ValueError("two listeners have the same name")
    for endpoint in endpoints:
        if endpoint.host in ("", "0.0.0.0", "::"):  # noqa: S104 - refused, not bound
            raise ValueError(f"a client cannot connect to the host of {endpoint}")
    return endpoints


def parse_host_port(text: str) -> HostPort | None:
    """Read ``host:port``; the empty text gives None, which switches the listener off."""
    stripped = text.strip()
    if not stripped:
        return None
    host, port = _split_address(stripped)
    return HostPort(host, port)


def parse_protocol_map(text: str) -> tuple[NamedValue, ...]:
    """Read ``NAME:PROTOCOL,...``; each name once, each protocol one of Kafka's four."""
    pairs = _parse_pairs(text)
    for pair in pairs:
        if pair.value not in SECURITY_PROTOCOLS:
            raise ValueError(f"{pair.value!r} is not a security protocol")
    return tuple(NamedValue(pair.name.upper(), pair.value) for pair in pairs)


def parse_limits_by_host(text: str) -> tuple[NamedValue, ...]:
    """Read ``host:count,...``, the counts being whole numbers of at least 0."""
    pairs = _parse_pairs(text)
    for pair in pairs:
        if not 0 <= parse_integer(pair.value) <= INT32_MAX:
            raise ValueError(f"{pair.value!r} is out of range")
    return pairs


def _parse_pairs(text: str) -> tuple[NamedValue, ...]:
    pairs = []
    for part in parse_list(text):
        name, colon, value = part.rpartition(":")
        if not colon or not name.strip() or not value.strip():
            raise ValueError(f"{part!r} is not of the form name:value")
        pairs.append(NamedValue(name.strip(), value.strip()))
    if len({pair.name for pair in pairs}) != len(pairs):
        raise ValueError("it names something twice")
    return tuple(pairs)


def _parse_endpoint(text: str) -> Endpoint:
    name, separator, address = text.partition("://")
    if not separator or not name.strip():
        raise ValueError(f"{text!r} is not of the form NAME://host:port")
    host, port = _split_address(address.strip())
    return Endpoint(name.strip().upper(), host, port)


def _split_address(text: str) -> tuple[str, int]:
    host, colon, port_text = text.rpartition(":")
    if not colon:
        raise ValueError(f"{text!r} has no port")
    port = parse_integer(port_text)
    if not 0 <= port <= _PORT_MAX:
        raise ValueError(f"port {port} is not from 0 to {_PORT_MAX}")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r}: an IPv6 address must stand in brackets")
    return host, port
