"""What holds of every assignment, whoever is in the group and whatever they have."""

from hypothesis import given
from hypothesis import strategies as st

from seglog.clients.group.assignors import ASSIGNORS, MemberSubscription
from seglog.protocol.types import TopicPartition

TOPICS = ["a", "b", "c", "d"]
COOPERATIVE = ASSIGNORS["cooperative-sticky"]
STICKY = ASSIGNORS["sticky"]

counts_of_topics = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9), min_size=1)


@st.composite
def groups(draw, is_uniform=None, is_fresh=False):
    """Members and partition counts; what they own does not overlap within a generation."""
    counts = draw(counts_of_topics)
    uniform = draw(st.booleans()) if is_uniform is None else is_uniform
    everything = frozenset(draw(st.sets(st.sampled_from(TOPICS), min_size=1)))
    names = draw(st.lists(st.integers(0, 99), min_size=1, max_size=6, unique=True))
    partitions = [TopicPartition(topic, n) for topic in counts for n in range(counts[topic] + 1)]
    owners = {p: draw(st.sampled_from([None, *names])) for p in partitions}
    members = [
        MemberSubscription(
            f"m{name}",
            everything
            if uniform
            else frozenset(draw(st.sets(st.sampled_from(TOPICS), min_size=1))),
            draw(st.sampled_from([None, f"i{name}"])),
            () if is_fresh else tuple(p for p in partitions if owners[p] == name),
            4,
        )
        for name in names
    ]
    return members, counts


def loads(assignment):
    return [len(partitions) for partitions in assignment.values()]


def with_owned(members, assignment, generation=5):
    return [
        MemberSubscription(
            member.member_id,
            member.topics,
            member.instance_id,
            tuple(assignment.get(member.member_id, ())),
            generation,
        )
        for member in members
    ]


def check_complete(members, counts, assignment):
    """Each partition that somebody wants goes to exactly one who does."""
    assert assignment.keys() == {member.member_id for member in members}
    topics = {member.member_id: member.topics for member in members}
    given_out = [(p, member_id) for member_id, each in assignment.items() for p in each]
    assert all(partition.topic in topics[member_id] for partition, member_id in given_out)
    wanted = {topic for member in members for topic in member.topics} & counts.keys()
    expected = sorted(TopicPartition(t, n) for t in wanted for n in range(counts[t]))
    assert sorted(partition for partition, _ in given_out) == expected


def check_even(members, assignment):
    """No partition can move to a member that has two fewer."""
    for donor in members:
        for partition in assignment[donor.member_id]:
            for taker in members:
                if partition.topic in taker.topics:
                    has = len(assignment[taker.member_id])
                    assert has + 1 >= len(assignment[donor.member_id])


@given(groups(), st.sampled_from(["range", "roundrobin", "sticky"]))
def test_every_partition_has_one_reader_that_wants_it(group, name):
    members, counts = group
    check_complete(members, counts, ASSIGNORS[name].assign(members, counts))


@given(groups(), st.sampled_from(sorted(ASSIGNORS)), st.randoms())
def test_the_order_of_the_members_does_not_matter(group, name, rng):
    members, counts = group
    shuffled = rng.sample(members, len(members))
    before = ASSIGNORS[name].assign(members, counts)
    assert ASSIGNORS[name].assign(shuffled, counts) == before


@given(groups(is_uniform=True))
def test_members_with_equal_wishes_differ_by_one_partition_at_most(group):
    members, counts = group
    for name in ("roundrobin", "sticky"):
        each = loads(ASSIGNORS[name].assign(members, counts))
        assert max(each) - min(each) <= 1
    by_range = ASSIGNORS["range"].assign(members, counts)
    for topic in counts:
        each = [sum(p.topic == topic for p in owned) for owned in by_range.values()]
        assert max(each) - min(each) <= 1


@given(groups())
def test_a_sticky_assignment_is_even_and_stays_as_it_is(group):
    members, counts = group
    assignment = STICKY.assign(members, counts)
    check_even(members, assignment)
    assert STICKY.assign(with_owned(members, assignment), counts) == assignment


@given(groups(is_uniform=True), st.data())
def test_when_members_leave_the_others_keep_all_they_have(group, data):
    members, counts = group
    assignment = STICKY.assign(members, counts)
    left = data.draw(st.lists(st.sampled_from(members), min_size=1, unique=True))
    after = STICKY.assign(with_owned(left, assignment), counts)
    for member in left:
        assert set(assignment[member.member_id]) <= set(after[member.member_id])


@given(groups(is_uniform=True))
def test_when_a_member_joins_no_more_moves_than_its_share(group):
    members, counts = group
    assignment = STICKY.assign(members, counts)
    newcomer = MemberSubscription("new", members[0].topics)
    after = STICKY.assign([*with_owned(members, assignment), newcomer], counts)
    moved = sum(
        len(set(assignment[member.member_id]) - set(after[member.member_id])) for member in members
    )
    assert moved == len(after["new"])


@given(groups())
def test_a_cooperative_assignor_gives_nobody_what_another_still_has(group):
    members, counts = group
    assignment = COOPERATIVE.assign(members, counts)
    for member in members:
        for other in members:
            if other is not member:
                assert not set(assignment[member.member_id]) & set(other.owned)


@given(groups(is_uniform=True))
def test_two_cooperative_rebalances_reach_an_even_end(group):
    """One to give up, one to take; then nothing moves any more."""
    members, counts = group
    for _ in range(2):
        assignment = COOPERATIVE.assign(members, counts)
        members = with_owned(members, assignment)
    check_complete(members, counts, assignment)
    check_even(members, assignment)
    assert COOPERATIVE.assign(members, counts) == assignment


@given(groups())
def test_cooperative_rebalances_come_to_an_end_where_wishes_differ(group):
    members, counts = group
    assignment = None
    for _ in range(6):
        before, assignment = assignment, COOPERATIVE.assign(members, counts)
        members = with_owned(members, assignment)
    assert assignment == before
    check_complete(members, counts, assignment)
    check_even(members, assignment)


@given(groups(), st.data())
def test_two_that_claim_the_same_partition_do_not_both_keep_it(group, data):
    """A member that missed a rebalance says it has what was given to another meanwhile."""
    members, counts = group
    stale = MemberSubscription(
        "stale", members[0].topics, None, members[0].owned, data.draw(st.sampled_from([3, 4]))
    )
    for assignor in (STICKY, COOPERATIVE):
        assignment = assignor.assign([*members, stale], counts)
        taken = [p for partitions in assignment.values() for p in partitions]
        assert len(taken) == len(set(taken))
    if stale.generation < members[0].generation:
        again = COOPERATIVE.assign([*members, stale], counts)
        assert not set(again["stale"]) & set(members[0].owned)
