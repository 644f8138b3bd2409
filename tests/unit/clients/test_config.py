"""What the clients can be told."""

import dataclasses
import typing

import pytest

from seglog.clients import ConfigurationError
from seglog.clients import config as options
from seglog.clients.config import make_config, parse_addresses


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("localhost:9093", [("localhost", 9093)]),
        ("localhost", [("localhost", 9092)]),
        ("a:1, b:2 ,", [("a", 1), ("b", 2)]),
        (["a:1", "b"], [("a", 1), ("b", 9092)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("[::1]", [("::1", 9092)]),
        ("::1", [("::1", 9092)]),
    ],
)
def test_addresses_as_people_write_them(text, addresses):
    assert list(parse_addresses(text)) == addresses


@pytest.mark.parametrize(
    "text",
    ["", ",", [], ":9092", "host:0", "host:65536", "h:x", "[a", ["h", 9092], "PLAINTEXT://h:9092"],
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ConfigurationError, match="bootstrap_servers"):
        parse_addresses(text)


@pytest.mark.parametrize(
    ("kind", "hints"),
    [
        (options.ClientConfig, options.ClientOptions),
        (options.ProducerConfig, options.ProducerOptions),
        (options.ConsumerConfig, options.ConsumerOptions),
    ],
)
def test_type_checkers_know_every_option_and_its_type(kind, hints):
    """The same names stand in a dataclass and in a TypedDict: they must not drift apart."""
    fields = typing.get_type_hints(kind)
    assert {field.name: fields[field.name] for field in dataclasses.fields(kind)} == (
        typing.get_type_hints(hints)
    )


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (options.ProducerConfig, {"acks": 2}),
        (options.ProducerConfig, {"linger_ms": -1}),
        (options.ProducerConfig, {"linger_ms": 0.5}),
        (options.ProducerConfig, {"compression": "bzip2"}),
        (options.ProducerConfig, {"delivery_timeout_ms": 5, "linger_ms": 10}),
        (options.ProducerConfig, {"enable_idempotence": True, "acks": 1}),
        (options.ProducerConfig, {"enable_idempotence": "yes"}),
        (options.ConsumerConfig, {"offset_reset": "none"}),
        (options.ConsumerConfig, {"isolation": "serializable"}),
        (options.ConsumerConfig, {"client_id": None}),
        (options.ConsumerConfig, {"group": ""}),
        (options.ConsumerConfig, {"group": b"g"}),
        (options.ConsumerConfig, {"group_instance_id": "i"}),
        (options.ConsumerConfig, {"assignors": "range"}),
        (options.ConsumerConfig, {"assignors": []}),
        (options.ConsumerConfig, {"assignors": ["range", "range"]}),
        (options.ConsumerConfig, {"assignors": ["uniform"]}),
        (options.ConsumerConfig, {"session_timeout_ms": 2**31}),
        (options.ConsumerConfig, {"heartbeat_interval_ms": 45_000}),
        (options.ConsumerConfig, {"max_poll_interval_ms": 0}),
        (options.ConsumerConfig, {"auto_commit": "yes"}),
        (options.ConsumerConfig, {"auto_commit_interval_ms": 0}),
        (options.ConsumerConfig, {"fetch_max_wait_ms": 60_000}),
        (options.ClientConfig, {"reconnect_backoff_ms": 10}),
        (options.ClientConfig, {"linger_ms": 5}),
    ],
)
def test_a_wrong_option_is_named(kind, wrong):
    with pytest.raises(ConfigurationError) as caught:
        make_config(kind, wrong)
    assert next(iter(wrong)) in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_idempotence_is_on_unless_the_acks_rule_it_out():
    """As with Kafka's clients: only who asks for both is told that they do not fit."""
    for settings, is_on in (
        ({}, True),
        ({"acks": 1}, False),
        ({"enable_idempotence": False}, False),
    ):
        assert make_config(options.ProducerConfig, settings).is_idempotent is is_on


def test_acks_and_isolation_have_their_wire_form():
    assert make_config(options.ProducerConfig, {"acks": "all"}).wire_acks == -1
    assert make_config(options.ProducerConfig, {"acks": 0}).wire_acks == 0
    assert make_config(options.ProducerConfig, {"compression": None}).codec == 0
    read_committed = make_config(options.ConsumerConfig, {"isolation": "read_committed"})
    assert read_committed.isolation_level == 1
