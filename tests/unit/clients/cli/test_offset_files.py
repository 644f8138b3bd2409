"""Files of offsets: Kafka's form, or refused with the line."""

from pathlib import Path

import click
import pytest

from seglog.clients.cli.group_choices import topic_partitions
from seglog.clients.cli.offset_files import offset_lines, read_targets


def test_a_file_says_something_else_than_was_written(tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    one = {"g": {("t", 0): 5, ("t", 1): 0}}
    several = {**one, 'with "quotes", and commas': {("t.x-y_z", 2): 2**63 - 1}}
    file.write_text("\n".join(offset_lines(one)))
    assert read_targets(file) == {None: one["g"]}
    file.write_text("\n".join(offset_lines(several)) + "\n\n")
    assert read_targets(file) == several
    # As an editor on Windows, or a person, leaves it.
    file.write_bytes(b"t, 0, 5\r\n\r\nt,1,0\r\n")
    assert read_targets(file) == {None: one["g"]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "there is no offset in it"),
        ("t,0", "line 1: expected TOPIC,PARTITION,OFFSET"),
        ("t,0,1\ng,t,0,1,2", "line 2: expected TOPIC,PARTITION,OFFSET"),
        ("topic,partition,offset", "line 1: 'partition' is no number"),
        ("t,0,-1", "line 1: '-1' is no number from 0 to 9223372036854775807"),
        ("t,0,9223372036854775808", "is no number from 0 to 9223372036854775807"),
        ("t,2147483648,1", "is no number from 0 to 2147483647"),
        ("t,0,1\nt,0,1", "line 2: t-0 is there twice"),
        ("t,0,1\ng,t,1,1", "some lines name a group and some do not"),
        ("t,0,\N{ARABIC-INDIC DIGIT TWO}", "is no number"),
        (b"t,0,\xff", "can't decode"),
    ],
)
def test_a_wrong_file_is_carried_out(content: str | bytes, words: str, tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(click.UsageError, match=words) as caught:
        read_targets(file)
    assert caught.value.message.startswith(str(file))


def test_partitions_of_a_topic_are_misread() -> None:
    assert topic_partitions("a.b-c_d") == ("a.b-c_d", ())
    assert topic_partitions("t:2,0,2") == ("t", (0, 2))


@pytest.mark.parametrize("text", ["", ":0", "t:", "t:a", "t:0,", "t:-1", "t:0:1", "t:2147483648"])
def test_something_else_is_taken_for_a_topic_with_partitions(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not TOPIC or TOPIC:PARTITION"):
        topic_partitions(text)
