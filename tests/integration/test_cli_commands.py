"""Both programs as people run them: processes, pipes and files, against a real broker."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from seglog.clients import Admin, Consumer
from seglog.clients.testing import RunningBroker, running_broker

SEGLOG = [sys.executable, "-m", "seglog.clients.cli"]
SEGLOGD = [sys.executable, "-m", "seglog.broker"]


@pytest.fixture(scope="module")
def shared_broker() -> Iterator[RunningBroker]:
    with running_broker(configs={"auto.create.topics.enable": False}) as running:
        yield running


@pytest.fixture
def address(shared_broker: RunningBroker) -> str:
    return shared_broker.address


def run(
    address: str, *arguments: str, data: bytes = b"", program: list[str] = SEGLOG
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*program, *arguments],
        input=data,
        capture_output=True,
        env={**os.environ, "SEGLOG_BOOTSTRAP_SERVER": address},
        timeout=60,
    )


def checked(address: str, *arguments: str, data: bytes = b"") -> str:
    result = run(address, *arguments, data=data)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout.decode()


def test_lines_are_lost_or_change_places_on_a_pipe(address: str) -> None:
    checked(address, "topics", "create", "pipe")
    lines = b"".join(b"%d %s\n" % (number, b"x" * (number % 300)) for number in range(50_000))
    checked(address, "produce", "pipe", "-z", "zstd", data=lines)
    assert checked(address, "consume", "pipe", "-e").encode() == lines


def test_bytes_are_changed_on_their_way(address: str, tmp_path: Path) -> None:
    checked(address, "topics", "create", "bytes")
    content = bytes(range(256)) * 300
    file = tmp_path / "content.bin"
    file.write_bytes(content)
    checked(address, "produce", "bytes", "--whole", "--file", str(file))
    result = run(address, "consume", "bytes", "--raw", "-c", "1", "--from-beginning")
    assert result.stdout == content
    back = json.loads(checked(address, "consume", "bytes", "--json", "--last", "1", "-e"))
    assert "value" not in back
    assert back["value_base64"].startswith("AAECAw")


def test_a_key_goes_elsewhere_than_kafkas_clients_send_it(address: str) -> None:
    """The partition of these keys among 3 is murmur2's, as Kafka's default partitioner has it."""
    checked(address, "topics", "create", "keyed", "--partitions", "3")
    checked(address, "produce", "keyed", "-K", ":", data=b"UA1545:1\nAA1141:2\nUA1545:3\n")
    found = checked(address, "consume", "keyed", "-e", "--format", r"%k %p %s\n").splitlines()
    assert sorted(found) == ["AA1141 2 2", *sorted(each for each in found if "UA1545" in each)]
    assert len({each.split()[1] for each in found if each.startswith("UA1545")}) == 1


@pytest.mark.slow
def test_deletion_before_a_time_takes_more_or_less(address: str) -> None:
    checked(address, "topics", "create", "times", "--config", "retention.ms=-1")
    for day in ("2013-07-03", "2013-07-04", "2013-07-05"):
        stamp = f"{day}T00:00Z"
        checked(address, "produce", "times", "--timestamp", stamp, data=f"{day}\n".encode())
    question = ("offsets", "times", "--time", "2013-07-04T00:00Z", "--json")
    (answer,) = json.loads(checked(address, *question))
    assert answer["offset"] == 1
    checked(address, "delete-records", "times", "--before", "2013-07-04T00:00Z")
    assert checked(address, "consume", "times", "-e") == "2013-07-04\n2013-07-05\n"
    out = run(address, "delete-records", "times", "0:99")
    assert out.returncode == 1
    assert b"99" in out.stderr
    assert address.encode() in out.stderr
    below = run(address, "consume", "times", "--from", "0", "-c", "1")
    assert below.returncode == 1
    assert b"offset 0 is out of range" in below.stderr
    checked(address, "delete-records", "times", "--before", "2020-01-01T00:00Z")
    (row,) = json.loads(checked(address, "offsets", "times", "--json"))
    assert (row["earliest"], row["latest"]) == (3, 3)


@pytest.mark.slow
def test_retention_says_no_reason(address: str) -> None:
    """RET: a dry run deletes nothing and says why each segment would go."""
    checked(address, "topics", "create", "old", "-c", "retention.ms=1000")
    checked(address, "produce", "old", "--timestamp", "2013-07-04T00:00Z", data=b"a\n")
    (finding,) = json.loads(checked(address, "retention", "run", "old", "--dry-run", "--json"))
    assert (finding["topic"], finding["base_offset"]) == ("old", 0)
    assert "retention.ms" in finding["reason"]
    assert checked(address, "consume", "old", "-e") == "a\n"
    assert len(json.loads(checked(address, "retention", "run", "old", "--json"))) == 1
    assert checked(address, "consume", "old", "-e") == ""


@pytest.mark.slow
def test_compaction_on_demand_shows_nothing(address: str) -> None:
    checked(address, "topics", "create", "compacted", "-c", "cleanup.policy=compact")
    lines = b"".join(b"k%d:%d\n" % (number % 5, number) for number in range(1000))
    checked(address, "produce", "compacted", "-K", ":", data=lines)
    (dirty,) = json.loads(checked(address, "partitions", "describe", "compacted", "--json"))
    assert dirty["first_dirty_offset"] == 0
    (result,) = json.loads(checked(address, "clean", "compacted", "--roll", "--wait", "--json"))
    assert result["state"] == "done"
    assert result["size_after"] < result["size_before"]
    found = checked(address, "consume", "compacted", "-e", "-f", r"%o %k %s\n").splitlines()
    assert found == [f"{number} k{number % 5} {number}" for number in range(995, 1000)]
    (clean,) = json.loads(checked(address, "topics", "describe", "compacted", "--json"))
    assert clean["partitions"][0]["first_dirty_offset"] == 1000
    refused = run(address, "clean", "old")
    assert refused.returncode == 1


@pytest.mark.slow
def test_benchmarks_print_other_lines_than_kafkas(address: str) -> None:
    checked(address, "topics", "create", "bench", "--partitions", "2")
    produced = run(
        address,
        *("bench", "produce", "bench", "--num-records", "2000", "--record-size", "50"),
        *("--throughput", "10000", "--warmup-records", "100", "--reporting-interval", "50"),
    )
    assert produced.returncode == 0, produced.stderr.decode()
    assert re.fullmatch(
        rb"1900 records sent, [\d.]+ records/sec \([\d.]+ MB/sec\), [\d.]+ ms avg latency, "
        rb"[\d.]+ ms max latency, \d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99\.9th\.\n",
        produced.stdout,
    )
    assert re.match(rb"\d+ records sent, .* ms max latency\.\n", produced.stderr)
    header, row = checked(address, "bench", "fetch", "bench").splitlines()
    assert header.startswith("start.time, end.time, data.consumed.in.MB, MB.sec, ")
    values = row.split(", ")
    assert len(values) == len(header.split(", ")) == 10
    assert values[4] == "2000"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}", values[0])
    short = run(address, "bench", "fetch", "bench", "--num-records", "3000", "--timeout", "300")
    assert short.returncode == 1
    detailed = checked(address, "bench", "fetch", "bench", "--show-detailed-stats")
    assert detailed.splitlines()[0].startswith("time, threadId, data.consumed.in.MB, ")
    figures = json.loads(checked(address, "bench", "fetch", "bench", "--json"))
    assert (figures["records"], figures["bytes"]) == (2000, 100_000)


def test_a_reader_that_has_gone_is_served_until_the_next_record(address: str) -> None:
    """``seglog consume topic | head -1``: with nothing to write a pipe does not tell."""
    checked(address, "topics", "create", "quiet")
    checked(address, "produce", "quiet", data=b"1\n2\n")
    with subprocess.Popen(
        [*SEGLOG, "consume", "quiet", "--from-beginning"],
        env={**os.environ, "SEGLOG_BOOTSTRAP_SERVER": address},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        process.stdout.close()
        assert process.wait(10) == 0


@pytest.mark.parametrize(
    "closed",
    [
        *(pytest.param(stream, marks=pytest.mark.slow) for stream in ("<&-", ">&-", "2>&-")),
        "<&- >&- 2>&-",
    ],
)
def test_a_closed_standard_stream_ends_in_an_abort(address: str, closed: str) -> None:
    """As cron jobs and daemons have it: the next socket got the number of the stream."""
    checked(address, "topics", "create", "streams", "--if-not-exists")
    for command in ("topics list", "produce streams", "consume streams -e"):
        line = f"{sys.executable} -m seglog.clients.cli {command} {closed}"
        result = run(address, "-c", line, program=["/bin/sh"])
        assert result.returncode == 0, (command, result.stderr)
        assert b"Traceback" not in result.stderr


@pytest.mark.slow
def test_names_that_are_no_text_end_in_a_traceback_or_never(address: str) -> None:
    r"""Bytes that are no UTF-8 are ``\udc..`` in Python; a value takes them as they are."""
    checked(address, "topics", "create", "names")
    odd = os.fsdecode(b"\xff")
    for arguments in (
        ("topics", "create", odd),
        ("produce", "names", "-H", f"{odd}=value"),
        ("consume", "names", "-e", "-g", odd),
    ):
        result = run(address, *arguments, data=b"line\n")
        assert result.returncode == 2, result.stderr
        assert b"no text that can be sent" in result.stderr
        assert b"Traceback" not in result.stderr
    checked(address, "produce", "names", "-H", f"name={odd}", data=b"line\n")
    (header,) = json.loads(checked(address, "consume", "names", "-e", "--json"))["headers"]
    assert header == {"name": "name", "value_base64": "/w=="}


@pytest.mark.slow
def test_a_terminated_reader_has_printed_what_it_does_not_commit(address: str) -> None:
    """``timeout``, systemd and containers end a program by SIGTERM."""
    checked(address, "topics", "create", "ended")
    checked(address, "produce", "ended", data=b"1\n2\n")
    with subprocess.Popen(
        [*SEGLOG, "consume", "ended", "-g", "ended", "--from-beginning"],
        env={**os.environ, "SEGLOG_BOOTSTRAP_SERVER": address},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == [b"1\n", b"2\n"]
        process.terminate()
        assert process.wait(20) == 0
    with Admin(address) as admin:
        assert admin.describe_groups(["ended"])["ended"].state == "Empty"
        assert admin.group_lag("ended")["ended", 0].lag == 0
    with subprocess.Popen(
        [*SEGLOG, "produce", "ended"],
        env={**os.environ, "SEGLOG_BOOTSTRAP_SERVER": address},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"3\n")
        process.stdin.flush()
        with Consumer(address, {("ended", 0): 2}) as consumer:
            assert len(consumer.read(1, 20)) == 1
        process.terminate()
        assert process.wait(20) == 143
        assert process.stderr.read().startswith(b"1 record stored in ended")


@pytest.mark.slow
def test_what_is_not_there_is_passed_over_in_silence(address: str) -> None:
    checked(address, "topics", "create", "beyond")
    checked(address, "produce", "beyond", data=b"1\n")
    gone = run(address, "topics", "describe", "nowhere")
    assert gone.stderr == b"seglog: %s: topic nowhere does not exist\n" % address.encode()
    result = run(address, "consume", "beyond", "-e", "--from", "99")
    assert result.returncode == 1
    assert b"offset 99 is out of range, there are 0 to 1" in result.stderr
    assert checked(address, "consume", "beyond", "-e", "--from", "1") == ""


def test_a_full_disk_ends_in_a_traceback(address: str) -> None:
    line = f"{sys.executable} -m seglog.clients.cli topics list --json > /dev/full"
    result = run(address, "-c", line, program=["/bin/sh"])
    assert (result.returncode, result.stderr) == (1, b"seglog: No space left on device\n")


def test_a_broker_that_hangs_is_waited_for_without_end() -> None:
    with running_broker() as broker:
        broker.pause()
        result = run(broker.address, "topics", "list", "-X", "connect.timeout.ms=300")
        assert result.returncode == 1
        assert result.stdout == b""
        (line,) = result.stderr.decode().splitlines()
        assert line.startswith("seglog: ")
        assert broker.address in line


@pytest.mark.slow
def test_a_consumer_ends_with_the_broker_it_reads_from() -> None:
    with running_broker() as broker:
        checked(broker.address, "topics", "create", "t")
        checked(broker.address, "produce", "t", data=b"before\n")
        command = [*SEGLOG, "consume", "t", "--from-beginning", "-c", "2"]
        environment = {**os.environ, "SEGLOG_BOOTSTRAP_SERVER": broker.address}
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"before\n"
            broker.kill()
            broker.start()
            checked(broker.address, "produce", "t", data=b"after\n")
            assert process.stdout.readline() == b"after\n"
            assert process.wait(20) == 0


def test_the_variable_of_the_command_line_stops_the_daemon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SEGLOG_BOOTSTRAP_SERVER", "127.0.0.1:1")
    with running_broker() as broker, Admin(broker.address) as admin:
        assert admin.list_topics() == []


@pytest.mark.slow
def test_files_that_are_written_to_have_faults(tmp_path: Path) -> None:
    """The tools beside a broker that appends, rolls, compacts and is killed at last."""
    with running_broker(folder=tmp_path) as broker:
        settings = ("-c", "segment.bytes=100000", "-c", "cleanup.policy=compact")
        checked(broker.address, "topics", "create", "busy", *settings)
        data = str(broker.data_directory)
        load = [*SEGLOG, "bench", "produce", "busy", "--num-records", "100000"]
        with subprocess.Popen(
            [*load, "--record-key-range", "100", "--throughput", "40000"],
            env={**os.environ, "SEGLOG_BOOTSTRAP_SERVER": broker.address},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            for _ in range(3):
                checked(broker.address, "clean", "busy")
                result = run("", "verify", data, program=SEGLOGD)
                assert result.returncode == 0, result.stdout.decode()
                assert b"a broker is running on it" in result.stdout
            broker.kill()
            process.kill()
        killed = run("", "verify", data, program=SEGLOGD)
        assert killed.returncode == 0, killed.stdout.decode()
        assert b"did not stop in order" in killed.stdout
        broker.start()
        broker.stop()
        stopped = run("", "verify", data, program=SEGLOGD)
        assert stopped.returncode == 0, stopped.stdout.decode()
        files = [str(path) for path in (broker.data_directory / "busy-0").iterdir()]
        dumped = run("", "dump-log", "--verify", *files, program=SEGLOGD)
        assert dumped.returncode == 0, dumped.stdout.decode()
        assert dumped.stdout.count(b": whole, ") == len(files)
