"""Random members of a classic group, against what must hold for any of them.

Clients behave like real ones when they are let: they join, sync, send heartbeats and join again
when they are told to. In between they fall silent, hang up, leave, come back as another process,
change their subscription; writes to the log take a while or fail.
"""

import contextlib
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from seglog.broker.coordinator.groups.state import GroupState, Outcome
from seglog.broker.errors import RequestError
from seglog.protocol.api import JoinGroupResponse, SyncGroupResponse
from seglog.protocol.errors import ErrorCode
from support.examples import examples
from support.group_broker import subscription
from support.group_model import GroupDriver

SESSION_MS = 6000
REBALANCE_MS = 9000
CLIENTS = 4


@dataclass
class ClientModel:
    """What one client believes."""

    name: str
    instance: str | None = None
    member_id: str = ""
    generation: int = -1
    leads: list[str] | None = None
    ticket: str | None = None
    assignment: bytes | None = None
    topics: str = "t"


class World:
    """A group, its clients and the log."""

    def __init__(self, delay_ms: int) -> None:
        self.driver = GroupDriver(delay_ms)
        self.driver.stores = False
        self.clients: dict[int, ClientModel] = {}
        self.abandoned: set[str] = set()
        self.asked: dict[str, ClientModel] = {}
        self.unwritten: list[int] = []
        self.highest_generation = 0
        self.leaders: dict[int, str] = {}
        self.given: dict[tuple[int, str], bytes] = {}
        self.brought: dict[int, dict[str, bytes]] = {}
        self.joined: set[tuple[int, str]] = set()
        self.written: set[int] = set()
        self._serial = 0

    # ---- what clients do

    def join(self, number: int, client: ClientModel) -> None:
        ticket = self._ticket(client, number, "join")
        try:
            self.driver.join(
                ticket,
                client.member_id,
                instance=client.instance,
                metadata=subscription(client.topics),
                session_ms=SESSION_MS,
                rebalance_ms=REBALANCE_MS,
            )
        except RequestError as error:
            self._refused(client, ticket, error.code)
        self.settle()

    def sync(self, number: int, client: ClientModel) -> None:
        assignments = {each: f"{client.generation}:{each}".encode() for each in client.leads or ()}
        ticket = self._ticket(client, number, "sync")
        generation = client.generation
        group = self.driver.group
        was_storing = group._is_storing
        try:
            self.driver.sync(
                ticket, client.member_id, generation=generation, assignments=assignments
            )
        except RequestError as error:
            self._refused(client, ticket, error.code)
        if group._is_storing and not was_storing:
            self.brought[generation] = assignments
        self.settle()

    def _ticket(self, client: ClientModel, number: int, what: str) -> str:
        self._serial += 1
        ticket = f"{what}-{number}-{self._serial}"
        client.ticket = ticket
        self.asked[ticket] = client
        return ticket

    def _refused(self, client: ClientModel, ticket: str, code: ErrorCode) -> None:
        client.ticket = None
        self.abandoned.add(ticket)
        self._told(client, code)

    def _told(self, client: ClientModel, code: ErrorCode) -> None:
        client.generation, client.leads, client.assignment = -1, None, None
        if code in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}:
            client.member_id = ""

    def heartbeat(self, client: ClientModel) -> None:
        try:
            code = self.driver.heartbeat(client.member_id, client.generation)
        except RequestError as error:
            code = error.code
        if code is not ErrorCode.NONE:
            self._told(client, code)

    def hang_up(self, client: ClientModel) -> None:
        if client.ticket is not None:
            self.abandoned.add(client.ticket)
            self.driver.abandon(client.ticket)
            client.ticket = None

    def leave(self, number: int) -> None:
        client = self.clients.pop(number)
        self.hang_up(client)
        with contextlib.suppress(RequestError):
            self.driver.leave(client.member_id, client.instance)
        self.settle()

    def step(self, number: int) -> None:
        """What a well-behaved client does next."""
        client = self.clients.setdefault(number, ClientModel(f"c{number}"))
        if client.ticket is not None:
            return
        if client.generation < 0:
            self.join(number, client)
        elif client.assignment is None:
            self.sync(number, client)
        else:
            self.heartbeat(client)

    # ---- the world goes on

    def write(self, *, fails: bool) -> None:
        """The oldest write to the log comes to its end."""
        group = self.driver.group
        if not self.unwritten:
            return
        generation = self.unwritten.pop(0)
        if not fails:
            self.written.add(generation)
        outcome = (
            group.store_failed(generation, ErrorCode.COORDINATOR_NOT_AVAILABLE, self.driver.now)
            if fails
            else group.stored(generation, self.driver.now)
        )
        self.driver.take(outcome)
        self.settle()

    def settle(self) -> None:
        """Hand answers to those who wait, and check what must hold now."""
        for ticket, answer in list(self.driver.answers.items()):
            if isinstance(answer, JoinGroupResponse) and answer.error is ErrorCode.NONE:
                self.joined.add((answer.generation_id, answer.member_id))
            client = self.asked.pop(ticket, None)
            if client is None or ticket in self.abandoned:
                continue
            assert client.ticket == ticket
            client.ticket = None
            self._answered(client, answer)
        self.check()

    def _answered(self, client: ClientModel, answer: JoinGroupResponse | SyncGroupResponse) -> None:
        if isinstance(answer, JoinGroupResponse):
            if answer.error is ErrorCode.MEMBER_ID_REQUIRED:
                client.member_id = answer.member_id
            elif answer.error is not ErrorCode.NONE:
                self._told(client, answer.error)
            else:
                self._joined(client, answer)
        elif answer.error is not ErrorCode.NONE:
            self._told(client, answer.error)
        else:
            client.assignment = answer.assignment
            key = (client.generation, client.member_id)
            assert self.given.setdefault(key, answer.assignment) == answer.assignment

    def _joined(self, client: ClientModel, answer: JoinGroupResponse) -> None:
        assert answer.generation_id >= client.generation
        client.member_id, client.generation = answer.member_id, answer.generation_id
        client.assignment = None
        client.leads = None
        if answer.leader_id == answer.member_id and not answer.skip_assignment:
            client.leads = [each.member_id for each in answer.members]
            leader = self.leaders.setdefault(answer.generation_id, answer.member_id)
            assert leader == answer.member_id, "two leaders in one generation"

    def check(self) -> None:
        group = self.driver.group
        assert group.generation >= self.highest_generation, "the generation went back"
        self.highest_generation = group.generation
        members = list(group.members)
        if group.state in {GroupState.STABLE, GroupState.COMPLETING_REBALANCE}:
            assert members
            assert all(member.join_ticket is None for member in members)
            generation = group.generation
            assert (generation, group.members.leader_id) in self.joined, "an absent leader"
            for member in members:
                if member.instance_id is None:
                    assert (generation, member.member_id) in self.joined, "was never asked to join"
        if group.state is GroupState.EMPTY:
            assert not members
        if group.state is GroupState.STABLE:
            assert group.generation in self.written, "assignments that are not stored"
            assert all(member.sync_ticket is None for member in members)
            brought = self.brought[group.generation]
            for member in members:
                if member.instance_id is None:
                    assert member.assignment == brought.get(member.member_id, b"")
        if members:
            assert group.members.leader_id in group.members
        instances = [member.instance_id for member in members if member.instance_id]
        assert len(instances) == len(set(instances)), "two members of one instance"


def _note_writes(world: World) -> None:
    """Let the driver remember what has to be written instead of doing it."""
    take = world.driver.take

    def remember(outcome: Outcome) -> None:
        if outcome.must_store:
            world.unwritten.append(world.driver.group.generation)
        take(outcome)

    world.driver.take = remember  # type: ignore[method-assign]


NUMBERS = st.integers(0, CLIENTS - 1)
ACTIONS = st.one_of(
    st.tuples(st.just("step"), NUMBERS),
    st.tuples(st.just("step"), NUMBERS),
    st.tuples(st.just("round"), NUMBERS),
    st.tuples(st.just("round"), NUMBERS),
    st.tuples(st.just("static"), NUMBERS),
    st.tuples(st.just("hang_up"), NUMBERS),
    st.tuples(st.just("vanish"), NUMBERS),
    st.tuples(st.just("leave"), NUMBERS),
    st.tuples(st.just("topics"), NUMBERS),
    st.tuples(st.just("write"), NUMBERS),
    st.tuples(st.just("write"), NUMBERS),
    st.tuples(st.just("write_fails"), NUMBERS),
    st.tuples(st.just("advance"), st.sampled_from([1, 500, 2000, 3000, 6000, 9000])),
)


def act(world: World, action: str, value: int) -> None:
    """Let one thing happen; ``value`` is a client, or milliseconds."""
    client = world.clients.get(value)
    if action == "step":
        world.step(value)
    elif action == "round":
        for number in list(world.clients):
            world.step(number)
    elif action in {"write", "write_fails"}:
        world.write(fails=action == "write_fails")
    elif action == "advance":
        world.driver.advance(value)
        world.settle()
    elif action == "static":
        if client is not None:
            world.hang_up(client)
        # A new process of the same instance: it knows nothing of the old one.
        world.clients[value] = ClientModel(f"c{value}", instance=f"i{value}")
        world.step(value)
    elif client is not None:
        act_as_client(world, action, value, client)


def act_as_client(world: World, action: str, number: int, client: ClientModel) -> None:
    """What only a client can do that is there."""
    if action == "leave":
        world.leave(number)
    elif action == "topics":
        client.topics = "u" if client.topics == "t" else "t"
        if client.ticket is None:
            world.join(number, client)
    else:
        world.hang_up(client)
        client.generation = -1
        if action == "vanish":
            del world.clients[number]


@settings(max_examples=examples(150), deadline=None)
@given(
    delay_ms=st.sampled_from([0, 3000]),
    actions=st.lists(ACTIONS, min_size=15, max_size=80),
)
def test_a_group_breaks_under_members_that_come_and_go(
    delay_ms: int, actions: list[tuple[str, int]]
) -> None:
    """Generations never go back, one leader each, answers once; afterwards peace returns."""
    world = World(delay_ms)
    _note_writes(world)
    for action, value in actions:
        act(world, action, value)
    # Peace: whoever is left behaves, nobody else comes, the log works.
    for _ in range(40):
        for number in list(world.clients):
            world.step(number)
            world.write(fails=False)
        world.driver.advance(1000)
        world.settle()
    group = world.driver.group
    if not world.clients:
        assert group.state is GroupState.EMPTY
        return
    assert group.state is GroupState.STABLE
    alive = {client.member_id for client in world.clients.values()}
    assert {member.member_id for member in group.members} == alive
    assert all(client.generation == group.generation for client in world.clients.values())
    # Whoever asked and did not hang up has been answered, or is about to send a heartbeat.
    assert not [ticket for ticket in world.asked if ticket not in world.abandoned]
