"""Properties files mean the same to clients, which know nothing of the broker's configuration."""

from hypothesis import given
from hypothesis import strategies as st

from seglog.clients.cli import properties as of_clients
from seglog.config import properties as of_broker

TEXTS = st.text(st.sampled_from("ab=: \t\f\\u00e1#!\n\r"), max_size=40) | st.text(max_size=40)


def entries(parse: object, text: str) -> object:
    try:
        return [tuple(entry)[:2] for entry in parse(text)]  # type: ignore[operator]  # either
    except ValueError as error:
        return str(error)


@given(TEXTS)
def test_a_file_means_something_else_to_a_client(text: str) -> None:
    """U23"""
    assert entries(of_clients.parse_properties, text) == entries(of_broker.parse_properties, text)
