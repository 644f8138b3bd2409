"""Members of all clients understand each other."""

import pytest
from aiokafka.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)

from seglog.clients.group.assignors import ASSIGNORS
from seglog.clients.group.wire import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_assignments,
    encode_subscription,
)
from seglog.protocol.errors import ProtocolError
from seglog.protocol.types import TopicPartition

OWNED = (TopicPartition("t", 0), TopicPartition("t", 3), TopicPartition("u", 1))


@pytest.mark.parametrize("assignor", sorted(ASSIGNORS))
def test_a_subscription_comes_back_as_it_was(assignor):
    data = encode_subscription(assignor, ["u", "t"], OWNED, 7)
    member = decode_subscription(assignor, "m", "i", data)
    assert (member.member_id, member.instance_id) == ("m", "i")
    assert member.topics == {"t", "u"}
    if "sticky" in assignor:
        assert (member.owned, member.generation) == (OWNED, 7)
    else:
        assert (member.owned, member.generation) == ((), -1)


@pytest.mark.parametrize("assignor", sorted(ASSIGNORS))
def test_others_read_our_subscriptions(assignor):
    theirs = ConsumerProtocolMemberMetadata.decode(
        encode_subscription(assignor, ["t", "u"], OWNED, 7)
    )
    assert theirs.subscription == ["t", "u"]


def test_we_read_the_subscriptions_of_others():
    old = ConsumerProtocolMemberMetadata(0, ["t"], b"").encode()
    for assignor in ASSIGNORS:
        member = decode_subscription(assignor, "m", None, old)
        assert (member.topics, member.owned, member.generation) == ({"t"}, (), -1)


def test_an_assignment_is_read_by_others_and_theirs_by_us():
    theirs = ConsumerProtocolMemberAssignment.decode(encode_assignment(OWNED))
    assert theirs.assignment == [("t", [0, 3]), ("u", [1])]
    other = ConsumerProtocolMemberAssignment(0, [("t", [0, 3]), ("u", [1])], b"")
    assert decode_assignment(other.encode()) == list(OWNED)
    assert decode_assignment(b"") == []
    assert decode_assignment(encode_assignments({"m": OWNED})["m"]) == list(OWNED)


def test_the_sticky_assignors_of_kafka_python_and_ours_read_each_other():
    """Its user data is that of the Java client: the previous assignment and its generation."""
    sticky = pytest.importorskip("kafka.coordinator.assignors.sticky.sticky_assignor")
    kafka = pytest.importorskip("kafka")
    theirs = sticky.StickyPartitionAssignor()
    theirs.member_assignment = [kafka.TopicPartition(*each) for each in OWNED]
    theirs.generation = 7
    data = theirs.metadata({"t", "u"})
    data = data if isinstance(data, bytes) else data.encode()
    member = decode_subscription("sticky", "m", None, data)
    assert (member.owned, member.generation) == (OWNED, 7)


def test_old_sticky_members_state_no_generation():
    new = encode_subscription("sticky", ["t"], OWNED, 7)
    assert new.endswith((7).to_bytes(4, "big") + bytes(4) + b"\xff\xff\xff\xff\xff\xff")


def test_what_is_no_subscription_is_refused():
    for data in (b"", b"\x00", b"\x00\x00\x00\x00\x00\x09"):
        with pytest.raises(ProtocolError):
            decode_subscription("range", "m", None, data)
