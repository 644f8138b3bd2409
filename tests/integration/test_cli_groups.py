"""``seglog groups`` against a real broker, with members of its own and a foreign one."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from seglog.clients import Admin, Consumer, Producer
from seglog.clients.cli.main import main
from seglog.clients.testing import RunningBroker, running_broker
from support.eventually import eventually
from support.raw_group import RawMember

BASE_MS = 1_700_000_000_000
FLIGHTS = [("flights", number) for number in range(3)]


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    """Topic flights: three partitions with ten records each, one a second; planes: five records."""
    with running_broker(configs={"auto.create.topics.enable": False}) as running:
        with Admin(running.address) as admin, Producer(running.address) as producer:
            admin.create_topic("flights", partitions=3, configs={"retention.ms": -1})
            admin.create_topic("planes", partitions=1)
            for _, number in FLIGHTS:
                items = [(None, b"%d" % n, BASE_MS + 1000 * n) for n in range(10)]
                producer.send_many("flights", items, partition=number)
            producer.send_many("planes", [(None, b"x", None)] * 5)
        yield running


@pytest.fixture(autouse=True)
def _log_of_the_library() -> Iterator[None]:
    """A command takes over the library's log for its process, which is that of the other tests."""
    logger = logging.getLogger("seglog.clients")
    handlers, propagate = list(logger.handlers), logger.propagate
    yield
    logger.handlers, logger.propagate = handlers, propagate


@pytest.fixture
def admin(broker: RunningBroker) -> Iterator[Admin]:
    with Admin(broker.address) as client:
        yield client


@pytest.fixture
def run(broker: RunningBroker) -> Any:
    def run_groups(*arguments: str, text: str | None = None) -> Result:
        environment = {"SEGLOG_BOOTSTRAP_SERVER": broker.address}
        return CliRunner().invoke(main, ["groups", *arguments], input=text, env=environment)

    return run_groups


@pytest.fixture
def table(run: Any) -> Any:
    """Run a command that has to work; the cells of its rows under their columns."""

    def rows_of(*arguments: str) -> list[dict[str, str]]:
        result = run(*arguments)
        assert result.exit_code == 0, result.stderr
        columns, *rows = [line.split() for line in result.stdout.splitlines()]
        return [dict(zip(columns, row, strict=True)) for row in rows]

    return rows_of


def member_of(broker: RunningBroker, group: str, **options: Any) -> Consumer:
    consumer = Consumer(broker.address, "flights", group=group, auto_commit=False, **options)
    eventually(lambda: (consumer.read(timeout=0.05), len(consumer.assignment))[1] == 3)
    return consumer


def test_the_columns_are_not_those_that_scripts_know(
    broker: RunningBroker, admin: Admin, run: Any, table: Any
) -> None:
    admin.alter_group_offsets("columns", {FLIGHTS[0]: 4, FLIGHTS[1]: 10})
    with member_of(broker, "columns", client_id="reader", group_instance_id="first") as consumer:
        rows = table("describe", "columns")
        assert list(rows[0]) == [
            *("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
            *("CONSUMER-ID", "HOST", "CLIENT-ID"),
        ]
        assert [tuple(row.values())[:6] for row in rows] == [
            ("columns", "flights", "0", "4", "10", "6"),
            ("columns", "flights", "1", "10", "10", "0"),
            ("columns", "flights", "2", "-", "10", "-"),
        ]
        assert {(row["HOST"], row["CLIENT-ID"]) for row in rows} == {("/127.0.0.1", "reader")}
        (found,) = table("describe", "--group", "columns", "--members", "--verbose")
        assert list(found) == [
            *("GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID"),
            *("#PARTITIONS", "ASSIGNMENT"),
        ]
        assert found["GROUP-INSTANCE-ID"] == "first"
        assert (found["#PARTITIONS"], found["ASSIGNMENT"]) == ("3", "flights:0,1,2")
        assert found["CONSUMER-ID"] == rows[0]["CONSUMER-ID"]
        state = run("describe", "columns", "--state").stdout.splitlines()
        assert state[0].split() == [
            *("GROUP", "COORDINATOR", "(ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
        ]
        assert state[1].split() == ["columns", broker.address, "(0)", "range", "Stable", "1"]
        (whole,) = json.loads(run("describe", "columns", "--json").stdout)
        assert (whole["state"], whole["assignor"], whole["lag"]) == ("Stable", "range", 6)
        assert whole["offsets"][2]["current_offset"] is None
        assert whole["members"][0]["partitions"] == [
            {"topic": "flights", "partition": number} for number in range(3)
        ]
        assert "offsets" not in json.loads(run("describe", "--members", "--json").stdout)[0]
        assert len(consumer.assignment) == 3


def test_a_group_is_listed_without_what_it_is_doing(
    broker: RunningBroker, admin: Admin, run: Any, table: Any
) -> None:
    admin.alter_group_offsets("idle", {("planes", 0): 1})
    with member_of(broker, "busy"):
        assert {"busy", "idle"} <= set(run("list").stdout.split())
        states = {row["GROUP"]: row["STATE"] for row in table("list", "--state")}
        assert (states["busy"], states["idle"]) == ("Stable", "Empty")
        assert "idle" not in {row["GROUP"] for row in table("list", "--state", "stable")}
        listed = json.loads(run("list", "--state", "Empty,Dead", "--json").stdout)
        assert {"group": "idle", "state": "Empty", "protocol_type": "", "type": "classic"} in listed
        wrong = run("list", "--state", "asleep")
        assert wrong.exit_code == 2
        assert "there are Empty, PreparingRebalance" in wrong.stderr
        everyone = {row["GROUP"] for row in table("describe", "--all-groups")}
        assert everyone == {row["GROUP"] for row in table("describe")} >= {"busy", "idle"}
        assert run("describe", "idle").stderr == "group idle has no active members\n"


def test_a_reader_on_the_command_line_forgets_how_far_it_was(
    broker: RunningBroker, table: Any
) -> None:
    def consume(*arguments: str) -> Result:
        command = ["consume", "flights", "-p", "0", "-g", "reader", "-e", *arguments]
        return CliRunner().invoke(main, [*command, "--bootstrap-server", broker.address])

    assert consume("-c", "4").stdout.split() == ["0", "1", "2", "3"]
    assert [row["LAG"] for row in table("describe", "reader")] == ["6"]
    assert consume("--from-beginning", "-X", "enable.auto.commit=false").stdout.split() == [
        *["4", "5", "6", "7", "8", "9"]
    ]
    assert [row["LAG"] for row in table("describe", "reader")] == ["6"]


def test_a_member_without_partitions_or_words_is_not_seen(broker: RunningBroker, run: Any) -> None:
    """A raw member whose assignment nobody can read, as those of other kinds of clients."""
    member = RawMember(broker.port, "strange")
    member.join()
    result = run("describe", "strange")
    assert result.stdout.splitlines()[1].split()[:7] == ["strange", *["-"] * 5, member.member_id]
    assert result.stderr == "group strange has no committed offsets\n"
    assert run("describe", "strange", "--members").exit_code == 0
    member.leave()
    member.close()


def test_a_deleted_topic_that_a_member_has_hides_the_rest(
    broker: RunningBroker, admin: Admin, table: Any
) -> None:
    """A member has its partitions until it has noticed; the lag of the others is asked for."""
    admin.create_topic("brief", partitions=1)
    topics = ["brief", "planes"]
    with Consumer(broker.address, topics, group="holder", metadata_max_age_ms=300_000) as consumer:
        eventually(lambda: (consumer.read(timeout=0.05), len(consumer.assignment))[1] == 2)
        broker_side = admin.describe_groups(["holder"])["holder"].members[0].partitions
        admin.delete_topic("brief")
        rows = {row["TOPIC"]: row for row in table("describe", "holder")}
        assert ("brief", 0) in broker_side
        assert rows["planes"]["LOG-END-OFFSET"] == "5"
        assert (rows["brief"]["LOG-END-OFFSET"], rows["brief"]["LAG"]) == ("-", "-")


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("--to-earliest", 0),
        ("--to-latest", 10),
        ("--to-current", 5),
        ("--to-offset 7", 7),
        ("--to-offset 70", 10),
        ("--shift-by -2", 3),
        ("--shift-by 2", 7),
        (f"--to-datetime @{BASE_MS + 3000}", 3),
        ("--to-datetime 2023-11-14T22:13:24Z", 4),
        ("--to-datetime 2099-01-01", 10),
        ("--by-duration PT1H", 10),
        ("--by-duration P9999999D", 0),
    ],
)
def test_a_rule_sets_another_offset_than_it_says(
    admin: Admin, run: Any, table: Any, rule: str, expected: int
) -> None:
    """The plan is what is done, and is only done when told to."""
    admin.alter_group_offsets("rule", {FLIGHTS[1]: 5})
    command = ("reset-offsets", "rule", "--topic", "flights:1", *rule.split())
    planned = table(*command)
    assert [tuple(row) for row in planned] == [
        ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET", "OLD-OFFSET")
    ]
    assert tuple(planned[0].values()) == ("rule", "flights", "1", str(expected), "5")
    assert run(*command, "--dry-run").stderr.endswith("nothing is changed; --execute does it\n")
    assert admin.list_group_offsets("rule")[FLIGHTS[1]].offset == 5
    assert table(*command, "--execute") == planned
    assert admin.list_group_offsets("rule")[FLIGHTS[1]].offset == expected


def test_an_offset_is_changed_in_silence_because_it_is_not_there(admin: Admin, run: Any) -> None:
    admin.alter_group_offsets("clamped", {FLIGHTS[0]: 5})
    result = run("reset-offsets", "clamped", "--all-topics", "--shift-by", "-6", "--json")
    assert json.loads(result.stdout)[0]["new_offset"] == 0
    assert "flights-0: -1 is before the first record, 0 is taken" in result.stderr
    result = run("reset-offsets", "clamped", "--all-topics", "--to-offset", "11")
    assert "flights-0: 11 is beyond the end, 10 is taken" in result.stderr


def test_topics_and_partitions_that_were_not_named_are_reset(admin: Admin, table: Any) -> None:
    admin.alter_group_offsets("chosen", dict.fromkeys((*FLIGHTS, ("planes", 0)), 5))
    reset = ("reset-offsets", "chosen", "--to-earliest", "--execute")
    named = ("--topic", "flights:0,2")
    assert [row["PARTITION"] for row in table(*reset, *named)] == ["0", "2"]
    offsets = admin.list_group_offsets("chosen")
    assert [offsets[place].offset for place in FLIGHTS] == [0, 5, 0]
    assert len(table(*reset, "--topic", "flights:1", "--topic", "planes")) == 2
    assert len(table(*reset, "--all-topics")) == 4
    # A partition of which nothing is committed has an offset afterwards.
    admin.alter_group_offsets("partly", {FLIGHTS[0]: 5})
    rows = table("reset-offsets", "partly", "--topic", "flights", "--to-current")
    assert [(row["NEW-OFFSET"], row["OLD-OFFSET"]) for row in rows] == [
        *[("5", "5"), ("10", "-"), ("10", "-")]
    ]


def test_offsets_move_under_a_group_that_is_at_work(
    broker: RunningBroker, admin: Admin, run: Any
) -> None:
    """Refused before any of several groups is changed, with who is in the way and the way out."""
    admin.alter_group_offsets("asleep", {FLIGHTS[0]: 5})
    with member_of(broker, "awake", client_id="worker") as consumer:
        consumer.commit({FLIGHTS[0]: 3})
        reset = ("reset-offsets", "asleep", "awake", "--topic", "flights:0", "--to-earliest")
        refused = run(*reset, "--execute")
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert refused.stderr == (
            f"seglog: {broker.address}: group awake has 1 member (worker at /127.0.0.1), so its "
            "offsets cannot be set now; stop them, or wait until their sessions are over "
            "('seglog groups describe --members' shows them)\n"
        )
        assert admin.list_group_offsets("asleep")[FLIGHTS[0]].offset == 5
        planned = run(*reset)
        assert planned.exit_code == 0
        assert "group awake has 1 member" in planned.stderr
        export = run("reset-offsets", "awake", "--all-topics", "--to-current", "--export")
        assert (export.stdout, export.stderr) == ("flights,0,3\n", "")
        for command in (("delete", "awake"), ("delete-offsets", "awake", "--topic", "flights")):
            refused = run(*command)
            assert refused.exit_code == 1
            assert "stop them" in refused.stderr
        assert admin.list_group_offsets("awake")[FLIGHTS[0]].offset == 3
    assert run(*reset, "--execute").exit_code == 0
    assert admin.list_group_offsets("awake")[FLIGHTS[0]].offset == 0


def test_what_was_exported_cannot_be_read_back(admin: Admin, run: Any, tmp_path: Path) -> None:
    admin.alter_group_offsets("one", {FLIGHTS[0]: 1, ("planes", 0): 2})
    admin.alter_group_offsets("two, or so", {FLIGHTS[1]: 3})
    current = ("--all-topics", "--to-current", "--export")
    single = run("reset-offsets", "one", *current)
    assert single.stdout == "flights,0,1\nplanes,0,2\n"
    several = run("reset-offsets", "one", "two, or so", *current)
    assert several.stdout == 'one,flights,0,1\none,planes,0,2\n"two, or so",flights,1,3\n'
    # The offsets of one group for another one, which there is not yet.
    copied = run("reset-offsets", "copied", "--from-file", "-", "--execute", text=single.stdout)
    assert (copied.exit_code, copied.stderr) == (
        0,
        "there is no group copied yet; offsets make it\n",
    )
    assert admin.list_group_offsets("copied") == admin.list_group_offsets("one")
    file = tmp_path / "offsets.csv"
    file.write_text(several.stdout)
    admin.delete_groups(["one", "two, or so"])
    back = run("reset-offsets", "--from-file", str(file), "--execute")
    assert back.exit_code == 0, back.stderr
    assert admin.list_group_offsets("one") == admin.list_group_offsets("copied")
    assert admin.list_group_offsets("two, or so")[FLIGHTS[1]].offset == 3
    other = run("reset-offsets", "one", "--from-file", str(file))
    assert other.exit_code == 2
    assert "do not name the same groups: two, or so" in other.stderr


def test_what_cannot_work_has_no_reason(admin: Admin, run: Any) -> None:
    admin.alter_group_offsets("known", {FLIGHTS[0]: 1})
    for command, words in (
        (("describe", "ghost"), "there is no group 'ghost'; 'seglog groups list' shows"),
        (("delete", "ghost"), "there is no group 'ghost'; 'seglog groups list' shows"),
        (("delete-offsets", "ghost", "--topic", "flights"), "there is no group 'ghost'"),
        (("reset-offsets", "ghost", "--all-topics", "--to-latest"), "there is no group 'ghost'"),
        (("reset-offsets", "known", "--topic", "nil", "--to-latest"), "topic nil does not exist"),
        (("reset-offsets", "known", "--topic", "nil:1", "--to-latest"), "nil does not exist"),
        (
            ("reset-offsets", "known", "--topic", "flights:3", "--to-latest"),
            "topic flights has 3 partitions, no 3",
        ),
        (
            ("reset-offsets", "known", "--topic", "planes", "--shift-by", "1"),
            "nothing is committed to be shifted: planes-0; --all-topics shifts only",
        ),
        (("delete-offsets", "known", "--topic", "planes"), "no committed offset for planes"),
    ):
        result = run(*command)
        assert (result.exit_code, result.stdout) == (1, ""), command
        assert words in result.stderr
        assert result.stderr.count("\n") == 1


def test_a_group_or_an_offset_stays_after_its_deletion(admin: Admin, run: Any) -> None:
    admin.alter_group_offsets("gone", dict.fromkeys((*FLIGHTS, ("planes", 0)), 5))
    result = run("delete-offsets", "gone", "--topic", "flights:0,1", "--json")
    assert [
        (row["partition"], row["offset"], row["status"]) for row in json.loads(result.stdout)
    ] == [*[(0, 5, "deleted"), (1, 5, "deleted")]]
    assert set(admin.list_group_offsets("gone")) == {FLIGHTS[2], ("planes", 0)}
    assert run("delete-offsets", "--group", "gone", "--topic", "planes").exit_code == 0
    assert set(admin.list_group_offsets("gone")) == {FLIGHTS[2]}
    result = run("delete", "ghost", "gone", "--json")
    assert result.exit_code == 1
    errors = {each["group"]: each["error"] for each in json.loads(result.stdout)}
    assert errors["gone"] is None
    assert "there is no group" in errors["ghost"]
    assert run("delete", "gone", "--if-exists").stderr == "group gone does not exist\n"
    assert "gone" not in run("list").stdout.split()
