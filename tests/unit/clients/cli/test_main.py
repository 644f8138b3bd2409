"""The program as a whole: options, errors and exit statuses, against a small broker in memory."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from seglog.clients.cli.command_tree import LazyGroup
from seglog.clients.cli.main import main
from seglog.protocol import api
from seglog.protocol.errors import ErrorCode
from support.fake_broker import SILENCE, FakeBroker


def run(*arguments: str, text: str | bytes | None = None, server: str = "") -> Result:
    environment = {"SEGLOG_BOOTSTRAP_SERVER": server or None}
    return CliRunner().invoke(main, list(arguments), input=text, env=environment)


def walk(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(command, click.Group):
        return [path]
    context = click.Context(command)
    found = [path]
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        assert child is not None
        found += walk(child, (*path, name))
    return found


@pytest.mark.parametrize("path", walk(main), ids=" ".join)
def test_a_command_has_no_help(path: tuple[str, ...]) -> None:
    result = run(*path, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: ")
    assert "\x08" not in result.stdout
    assert "  " + "None" not in result.stdout


def test_the_list_of_commands_imports_them() -> None:
    code = (
        "import sys; from seglog.clients.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'asyncio', 'socket', 'seglog.clients.errors', 'seglog.protocol.api',"
        " 'importlib.metadata'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_a_command_in_the_table_is_missing() -> None:
    assert isinstance(main, LazyGroup)
    assert main.get_command(click.Context(main), "nothing") is None
    assert run("nothing").exit_code == 2


def test_nobody_says_where_the_broker_was_expected() -> None:
    result = run("topics", "list", "--bootstrap-server", "127.0.0.1:1")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == "seglog: 127.0.0.1:1: cannot connect: Connection refused\n"


def test_the_place_of_an_option_changes_its_meaning(threaded_broker: FakeBroker) -> None:
    threaded_broker.create("flights")
    address = threaded_broker.address
    for arguments in (
        ("--bootstrap-server", address, "topics", "list"),
        ("topics", "list", "--bootstrap-server", address),
        ("--bootstrap-server", "127.0.0.1:1", "topics", "list", "--bootstrap-server", address),
        ("topics", "list", "-X", f"bootstrap.servers={address}"),
    ):
        assert run(*arguments, server="127.0.0.1:1").stdout == "flights\n"
    assert run("topics", "list", server=address).stdout == "flights\n"


def test_properties_are_not_taken_from_a_file(threaded_broker: FakeBroker, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        f"\ufeffbootstrap.servers = {threaded_broker.address}\n\n# comment\n"
        "linger.ms=5\nrequest.timeout.ms=0\n"
    )
    # The single property wins over the file, wherever it stands.
    result = run("topics", "list", "-X", "request.timeout.ms=500", "--command-config", str(file))
    assert (result.exit_code, result.stdout) == (0, "")
    assert run("topics", "list", "--command-config", str(file)).exit_code == 2


def test_a_file_of_properties_is_read_as_java_reads_it(
    threaded_broker: FakeBroker, tmp_path: Path
) -> None:
    """U23"""
    threaded_broker.create("flights")
    host, _, port = threaded_broker.address.rpartition(":")
    file = tmp_path / "client.properties"
    file.write_text(
        f"bootstrap.servers: {host}:\\\n    {port}\n! comment\nrequest.timeout.ms 5000\n"
        "client.id=\\u0061\n"
    )
    result = run("topics", "list", "--command-config", str(file), server="127.0.0.1:1")
    assert (result.stdout, result.stderr) == ("flights\n", "")


@pytest.mark.parametrize(
    ("typed", "likes"),
    [
        (("topcis", "list"), "Error: No such command 'topcis'. Did you mean 'topics'?"),
        (("topics", "lsit"), "Error: No such command 'lsit'. Did you mean 'list'?"),
        (("xyzzy",), "Error: No such command 'xyzzy'.\n"),
    ],
)
def test_a_mistyped_command_is_answered_with_its_likes(typed: tuple[str, ...], likes: str) -> None:
    """U22"""
    result = run(*typed)
    assert result.exit_code == 2
    assert likes in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("t", "0:4"), "t-0: offset 4 is out of range, there are 0 to 3"),
        (("t", "0:5000", "1:0"), "t-0: offset 5000 is out of range, there are 0 to 3"),
    ],
)
def test_a_dry_run_refuses_what_the_run_refuses(
    threaded_broker: FakeBroker, arguments: tuple[str, ...], words: str
) -> None:
    """U21: it said 0 and "5000"."""
    threaded_broker.create("t", 2)
    run("produce", "t", "--partition", "0", text="a\nb\nc\n", server=threaded_broker.address)
    result = run("delete-records", *arguments, "--dry-run", server=threaded_broker.address)
    assert (result.exit_code, result.stdout) == (1, "")
    assert words in result.stderr
    kept = run("delete-records", "t", "0:3", "--dry-run", "--json", server=threaded_broker.address)
    assert json.loads(kept.stdout)[0]["log_start_offset"] == 3
    assert not threaded_broker.requests_of(api.DeleteRecordsRequest)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("no equals sign", "there is no client property 'no'"),
        ("linger.ms=\\u12", "line 1: \\u must be followed by four hexadecimal digits"),
        ("no.such.thing=1", "there is no client property 'no.such.thing'"),
        ("request.timeout.ms=soon", "request.timeout.ms=soon: expected an integer"),
    ],
)
def test_a_wrong_property_is_passed_over(line: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(line + "\n")
    result = run("topics", "list", "--command-config", str(file))
    assert result.exit_code == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("command", [("produce", "t"), ("bench", "produce", "t")])
def test_a_command_takes_a_transactional_id_over(
    threaded_broker: FakeBroker, command: tuple[str, ...]
) -> None:
    """It would shut its owner out, and then refuse every record: no transaction is open."""
    threaded_broker.create("t")
    result = run(*command, "-X", "transactional.id=x", server=threaded_broker.address)
    assert result.exit_code == 2
    assert result.stderr.endswith(
        "Error: transactional.id=x: this command sends no transactions; leave the property out, "
        "or send from a program, with Producer(transactional_id=...)\n"
    )
    assert not threaded_broker.requests_of(api.InitProducerIdRequest)


def test_what_the_broker_refuses_ends_in_a_traceback(threaded_broker: FakeBroker) -> None:
    def refuse(request: object) -> object:
        if isinstance(request, api.CreateTopicsRequest):
            return api.CreateTopicsResponse(
                [api.CreateTopicResult("t", ErrorCode.INVALID_PARTITIONS, "no more of them")]
            )
        return None

    threaded_broker.script = refuse
    address = threaded_broker.address
    result = run("topics", "create", "t", server=address)
    assert result.exit_code == 1
    assert result.stderr == f"seglog: {address}: topic t: no more of them\n"


@pytest.mark.parametrize(
    ("error", "trouble", "words"),
    [
        (ErrorCode.NONE, None, None),
        (ErrorCode.NONE, "has no room for records", "has no room for records"),
        (ErrorCode.KAFKA_STORAGE_ERROR, "is offline: worn out", "is offline: worn out"),
        (ErrorCode.KAFKA_STORAGE_ERROR, None, "is offline: KAFKA_STORAGE_ERROR"),
    ],
)
def test_a_broker_is_well_although_it_takes_no_records(
    threaded_broker: FakeBroker, error: ErrorCode, trouble: str | None, words: str | None
) -> None:
    def answer(request: object) -> object:
        if isinstance(request, api.DescribeLogDirsRequest):
            return api.DescribeLogDirsResponse(
                [api.LogDirDescription("/data", error, [], trouble=trouble)]
            )
        if isinstance(request, api.DescribePartitionsRequest):
            return api.DescribePartitionsResponse([])
        return None

    threaded_broker.script = answer
    result = run("health", server=threaded_broker.address)
    first, *others = result.stdout.splitlines()
    if words is None:
        assert (result.exit_code, " is well: " in first, others) == (0, True, [])
    else:
        assert (result.exit_code, " is not well: " in first) == (1, True)
        assert others == [f"the data directory /data {words}"]


def test_the_first_line_of_health_is_silent_about_a_log_that_cannot_be_compacted(
    threaded_broker: FakeBroker,
) -> None:
    """U4: it said "is well" and nothing else, for whoever reads one line."""

    def answer(request: object) -> object:
        if isinstance(request, api.DescribeLogDirsRequest):
            return api.DescribeLogDirsResponse([])
        if isinstance(request, api.DescribePartitionsRequest):
            described = api.PartitionDescription("t", 0, uncleanable_reason="00.log is corrupt")
            return api.DescribePartitionsResponse([described])
        return None

    threaded_broker.script = answer
    result = run("health", server=threaded_broker.address)
    first, *others = result.stdout.splitlines()
    assert (result.exit_code, " is well, with 1 warning: " in first) == (0, True)
    assert others == ["partition t-0 cannot be compacted: 00.log is corrupt"]


def test_health_and_describe_name_damaged_records(threaded_broker: FakeBroker) -> None:
    threaded_broker.create("t")
    damage = "00.log is corrupt: the records from offset 6 on are damaged"

    def answer(request: object) -> object:
        if isinstance(request, api.DescribeLogDirsRequest):
            return api.DescribeLogDirsResponse([])
        if isinstance(request, api.DescribePartitionsRequest):
            return api.DescribePartitionsResponse([api.PartitionDescription("t", 0, damage=damage)])
        return None

    threaded_broker.script = answer
    result = run("health", server=threaded_broker.address)
    first, *others = result.stdout.splitlines()
    assert (result.exit_code, " is not well: " in first) == (1, True)
    assert others == [f"partition t-0 has damaged records: {damage}"]
    result = run("partitions", "describe", "t", server=threaded_broker.address)
    assert result.stdout.splitlines()[1].endswith(f"  damaged: {damage}")


def test_a_tombstone_or_a_header_is_lost_on_its_way(threaded_broker: FakeBroker) -> None:
    (log,) = threaded_broker.create("t")
    address = threaded_broker.address
    result = run(
        *("produce", "t", "-K", ":", "-Z", "NULL", "-H", "h=v", "--timestamp", "@5"),
        text="a:1\nb:NULL\n",
        server=address,
    )
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("2 records stored in t (")
    records = [record for batch in log.batches for record in batch.records()]
    assert [(record.key, record.value, record.timestamp_ms) for record in records] == [
        (b"a", b"1", 5),
        (b"b", None, 5),
    ]
    assert {record.headers for record in records} == {(("h", b"v"),)}


def test_lines_before_a_bad_one_are_dropped(threaded_broker: FakeBroker) -> None:
    (log,) = threaded_broker.create("t")
    result = run("produce", "t", "-K", ":", text="a:1\nb\nc:3\n", server=threaded_broker.address)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[0].startswith("1 record stored in t (")
    assert result.stderr.splitlines()[1] == "seglog: line 2 has no key separator ':'"
    assert log.next_offset == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("produce", "t", "-K", ":", "-k", "x"),
        ("produce", "t", "--whole", "--json"),
        ("produce", "t", "--keep-partition"),
        ("produce", "t", "-D", ""),
        ("produce", "t", "--reader-property", "parse.keys=true"),
        ("consume", "t", "--last", "3", "--from", "earliest"),
        ("consume", "t", "--json", "--raw"),
        ("consume", "t", "--format", "%q"),
        ("consume", "t", "--formatter-property", "print.everything=true"),
        ("consume", "t", "u", "--from", "5"),
        ("topics", "list", "--bootstrap-server", ""),
        ("topics", "list", "--bootstrap-server", "PLAINTEXT://127.0.0.1:9092"),
        ("delete-records",),
        ("delete-records", "t"),
        ("delete-records", "t", "0:1", "--to-latest"),
        ("delete-records", "t", "0:1", "-p", "0"),
        ("topics", "alter", "t"),
        ("topics", "alter", "t", "--config", "a=1", "--delete-config", "a"),
        ("configs", "alter", "topic", "t"),
        ("configs", "describe", "topic", "t", "--default"),
        ("bench", "produce", "t", "--num-records", "5", "--warmup-records", "5"),
        ("groups", "list", "--state", "asleep"),
        ("groups", "describe", "g", "--all-groups"),
        ("groups", "describe", "--members", "--state"),
        ("groups", "delete"),
        ("groups", "delete-offsets", "g"),
        ("groups", "delete-offsets", "--topic", "t"),
        ("groups", "reset-offsets", "--all-topics", "--to-latest"),
        ("groups", "reset-offsets", "g", "--to-latest"),
        ("groups", "reset-offsets", "g", "--topic", "t"),
        ("groups", "reset-offsets", "g", "--topic", "t", "--all-topics", "--to-latest"),
        ("groups", "reset-offsets", "g", "--topic", "t", "--to-latest", "--shift-by", "0"),
        ("groups", "reset-offsets", "g", "--topic", "t", "--to-offset", "-1"),
        ("groups", "reset-offsets", "g", "--topic", "t", "--to-datetime", "@9223372036854775807"),
        ("groups", "reset-offsets", "g", "--topic", "t", "--to-latest", "--execute", "--dry-run"),
        ("groups", "reset-offsets", "g", "--topic", "t", "--to-latest", "--export", "--json"),
        ("groups", "reset-offsets", "g", "--topic", "t", "--from-file", "-"),
    ],
    ids=" ".join,
)
def test_a_command_line_that_cannot_be_right_is_carried_out(arguments: tuple[str, ...]) -> None:
    result = run(*arguments, server="127.0.0.1:1", text="")
    assert result.exit_code == 2, result.stderr
    assert "127.0.0.1:1" not in result.stderr


def test_a_broker_that_has_just_started_looks_as_if_it_had_no_groups(
    threaded_broker: FakeBroker,
) -> None:
    """While groups are being read they are asked for again."""
    answers = [
        api.ListGroupsResponse([], ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        api.ListGroupsResponse([api.ListedGroup("g", "consumer", "Stable")]),
    ]

    def script(request: object) -> object:
        return answers.pop(0) if isinstance(request, api.ListGroupsRequest) else None

    threaded_broker.script = script
    result = run("groups", "list", server=threaded_broker.address)
    assert (result.exit_code, result.stdout) == (0, "g\n")


def test_kafkas_words_for_input_and_output_are_unknown(threaded_broker: FakeBroker) -> None:
    threaded_broker.create("t")
    address = threaded_broker.address
    sent = run(
        *("produce", "t", "--property", "parse.key=true", "--property", "key.separator=;"),
        text="k;v\n",
        server=address,
    )
    assert sent.exit_code == 0, sent.stderr
    read = run(
        *("consume", "t", "--from-beginning", "--max-messages", "1"),
        *("--property", "print.key=true", "--property", "key.separator=;"),
        server=address,
    )
    assert (read.exit_code, read.stdout) == (0, "k;v\n")


def test_an_end_that_was_not_reached_looks_like_success(threaded_broker: FakeBroker) -> None:
    threaded_broker.create("t")
    address = threaded_broker.address
    quiet = ("--timeout", "0.05")
    assert run("consume", "t", *quiet, server=address).exit_code == 0
    assert run("consume", "t", "--max-records", "1", *quiet, server=address).exit_code == 1
    ended = run("consume", "t", "--until-end", *quiet, server=address)
    assert (ended.exit_code, ended.stderr) == (0, "0 records\n")


def test_a_wrong_file_of_offsets_is_carried_out(tmp_path: Path) -> None:
    file = tmp_path / "offsets.json"
    for content, words in (
        ({"partitions": [{"topic": "t", "partition": 0}]}, "'offset' is missing"),
        ({"partitions": [{"topic": "t", "partition": "0", "offset": 1}]}, "of the wrong type"),
        ({"partitions": [{"topic": "t", "partition": 0, "offset": 1}] * 2}, "given twice"),
        ([], "list indices"),
    ):
        file.write_text(json.dumps(content))
        result = run("delete-records", "--offset-json-file", str(file))
        assert result.exit_code == 2
        assert words in result.stderr


def test_ctrl_c_in_the_middle_is_loud(threaded_broker: FakeBroker) -> None:
    threaded_broker.create("t")
    run("produce", "t", text="a\n", server=threaded_broker.address)
    command = [sys.executable, "-m", "seglog.clients.cli", "consume", "t", "--from-beginning"]
    environment = {**os.environ, "SEGLOG_BOOTSTRAP_SERVER": threaded_broker.address}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"a\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
        assert process.stderr.read() == b"1 record\n"


def test_ctrl_c_waits_for_a_broker_that_hangs(threaded_broker: FakeBroker) -> None:
    threaded_broker.create("t")
    asked = threading.Event()

    def hang(request: object) -> object:
        if not isinstance(request, api.ProduceRequest):
            return None
        asked.set()
        return SILENCE

    threaded_broker.script = hang
    environment = {**os.environ, "SEGLOG_BOOTSTRAP_SERVER": threaded_broker.address}
    with subprocess.Popen(
        [sys.executable, "-m", "seglog.clients.cli", "produce", "t"],
        env=environment,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"line\n")
        process.stdin.flush()
        assert asked.wait(20)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        lines = process.stderr.read().decode().splitlines()
    assert lines[0] == "1 record given up, not acknowledged"
    assert lines[-1].startswith("0 records stored in t (")


def test_a_reader_that_goes_away_is_a_failure(threaded_broker: FakeBroker) -> None:
    threaded_broker.create("t")
    run("produce", "t", text="line\n" * 200_000, server=threaded_broker.address)
    command = [sys.executable, "-m", "seglog.clients.cli", "consume", "t", "--until-end"]
    environment = {**os.environ, "SEGLOG_BOOTSTRAP_SERVER": threaded_broker.address}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"line\n"
        process.stdout.close()
        assert process.wait(10) == 0
        assert process.stderr.read() == b""


def test_a_line_of_a_slow_pipe_waits_for_the_next(threaded_broker: FakeBroker) -> None:
    threaded_broker.create("t")
    command = [sys.executable, "-m", "seglog.clients.cli", "produce", "t"]
    environment = {**os.environ, "SEGLOG_BOOTSTRAP_SERVER": threaded_broker.address}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b"first\n")
        process.stdin.flush()
        read = run("consume", "t", "--from-beginning", "-c", "1", server=threaded_broker.address)
        assert read.stdout == "first\n"
        process.stdin.close()
        assert process.wait(10) == 0
