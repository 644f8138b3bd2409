"""The work of the member that leads: dividing the partitions of its group."""

import logging

from seglog.clients.group.assignors import ASSIGNORS, MemberSubscription
from seglog.clients.group.topics import SubscribedTopics
from seglog.clients.group.wire import decode_subscription, encode_assignments
from seglog.protocol.api import JoinedMember, JoinGroupResponse
from seglog.protocol.errors import ProtocolError

_logger = logging.getLogger("seglog.clients")


class Division:
    """Divides, and knows when that would turn out otherwise now.

    Args:
        topics: knows how many partitions there are.
    """

    def __init__(self, topics: SubscribedTopics) -> None:
        self._topics = topics
        self._names: frozenset[str] = frozenset()
        self._counts: dict[str, int] | None = None

    def forget(self) -> None:
        """Another member may lead from now on."""
        self._counts = None

    @property
    def is_outdated(self) -> bool:
        """Whether topics of the group have got other partitions since this member divided them."""
        return self._counts is not None and self._topics.known_counts(self._names) != self._counts

    async def divide(self, joined: JoinGroupResponse) -> dict[str, bytes]:
        """The assignments of all members, for the broker to give out.

        Raises:
            ClientError: the topics of the group could not be asked for.
        """
        assignor = joined.protocol_name or ""
        members = [self._subscription_of(assignor, member) for member in joined.members]
        self._names = frozenset().union(*(member.topics for member in members))
        counts = await self._topics.count(self._names)
        self._counts = counts
        return encode_assignments(ASSIGNORS[assignor].assign(members, counts))

    def _subscription_of(self, assignor: str, member: JoinedMember) -> MemberSubscription:
        try:
            return decode_subscription(
                assignor, member.member_id, member.group_instance_id, member.metadata
            )
        except ProtocolError as error:
            _logger.warning(
                "member %s wants something unreadable and gets nothing: %s", member.member_id, error
            )
            return MemberSubscription(member.member_id, frozenset(), member.group_instance_id)
