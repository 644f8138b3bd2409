"""Names of files, folders and topics."""

import pytest

from seglog.broker.storage.errors import InvalidDirectoryNameError, InvalidTopicNameError
from seglog.broker.storage.files.layout import (
    DirectoryState,
    check_topic_name,
    colliding_topic,
    collision_key,
    marked_directory_name,
    parse_partition_directory,
    parse_segment_file_name,
    partition_directory_name,
    segment_path,
)
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import TopicPartition

UNIQUE = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("00000000000000000042.log", (42, ".log", "")),
        ("00000000000000000000.index", (0, ".index", "")),
        ("00000000000000000042.timeindex.swap", (42, ".timeindex", ".swap")),
        ("09223372036854775807.txnindex.cleaned", (2**63 - 1, ".txnindex", ".cleaned")),
        ("00000000000000000042.snapshot.deleted", (42, ".snapshot", ".deleted")),
        ("leader-epoch-checkpoint", None),
        ("42.log", None),
        ("0000000000000000004x.log", None),
        ("00000000000000000042.log.bak", None),
        ("00000000000000000042.txt", None),
        ("00000000000000000042", None),
        ("partition.metadata", None),
    ],
)
def test_segment_file_is_taken_for_another(
    name: str, expected: tuple[int, str, str] | None
) -> None:
    assert parse_segment_file_name(name) == expected
    if expected is not None:
        assert segment_path("d", expected[0], expected[1] + expected[2]) == f"d/{name}"


@pytest.mark.parametrize("topic", ["a", "a-1", "a.b", "x" * 249, "-", "a-delete"])
def test_live_folder_is_not_found_again(topic: str) -> None:
    """C043: "a-1" and partition 1 of "a" never share a folder."""
    partition = TopicPartition(topic, 12)
    parsed = parse_partition_directory(partition_directory_name(partition))
    assert parsed == (partition, DirectoryState.LIVE)


@pytest.mark.parametrize(
    "state", [DirectoryState.DELETED, DirectoryState.STRAY, DirectoryState.FUTURE]
)
def test_marked_folder_is_not_found_again(state: DirectoryState) -> None:
    name = marked_directory_name(TopicPartition("my.topic-x", 3), state, UNIQUE)
    assert name == f"my.topic-x-3.{UNIQUE}{state.value}"
    assert parse_partition_directory(name) == (TopicPartition("my.topic-x", 3), state)


def test_topic_with_a_long_name_cannot_be_deleted() -> None:
    """MGR-4: the name is cut to what a file system takes."""
    name = marked_directory_name(TopicPartition("t" * 249, 11), DirectoryState.DELETED, UNIQUE)
    assert len(name) == 255
    assert name.endswith(f"t-11.{UNIQUE}-delete")
    assert parse_partition_directory(name).state is DirectoryState.DELETED


@pytest.mark.parametrize(
    "name",
    ["topic", "-0", "topic-", "topic-x", "topic-2147483648", "topic--1", "topic-1-delete",
     "topic.1-delete", "t opic-1.x-delete", "topic-x.abc-stray", "lost+found",
     "topic-01", "topic-00"],
)  # fmt: skip
def test_foreign_folder_is_taken_for_a_partition(name: str) -> None:
    if name == "topic--1":
        assert parse_partition_directory(name).topic_partition == TopicPartition("topic-", 1)
        return
    with pytest.raises(InvalidDirectoryNameError, match="is not the folder of a partition"):
        parse_partition_directory(name)


@pytest.mark.parametrize(
    "topic", ["", ".", "..", "a/b", "../x", "a b", "a\0b", "x" * 250, "ä", "a\n", "a:b"]
)
def test_illegal_topic_name_is_accepted(topic: str) -> None:
    """C043."""
    with pytest.raises(InvalidTopicNameError, match="illegal") as caught:
        check_topic_name(topic)
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("topic", ["a", "A", "a.b_c-9", "...", "x" * 249, "__consumer_offsets"])
def test_legal_topic_name_is_refused(topic: str) -> None:
    check_topic_name(topic)


def test_metric_names_of_two_topics_become_one() -> None:
    """C043."""
    assert collision_key("a.b") == collision_key("a_b") != collision_key("a-b")
    assert colliding_topic("a_b", ["x", "a.b"]) == "a.b"
    assert colliding_topic("a.b", ["a.b", "a-b", "A.b"]) is None
