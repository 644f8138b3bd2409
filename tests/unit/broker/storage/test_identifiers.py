"""Ids of topics, clusters and directories."""

import uuid

import pytest

from seglog.broker.storage.identifiers import RESERVED_IDS, id_text, parse_id, random_id


def test_a_random_id_is_no_uuid_or_looks_like_an_option() -> None:
    for _ in range(200):
        identifier = random_id()
        assert uuid.UUID(bytes=identifier).version == 4
        assert "-" not in id_text(identifier)
        assert len(id_text(identifier)) == 22
        assert parse_id(id_text(identifier)) == identifier
        assert identifier not in RESERVED_IDS


@pytest.mark.parametrize("text", ["", "AAAA", "A" * 23, "A" * 21 + "!", "\u00e9" * 22])
def test_other_text_is_taken_for_an_id(text: str) -> None:
    with pytest.raises(ValueError, match=r"no id|ASCII"):
        parse_id(text)
