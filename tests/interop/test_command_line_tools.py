"""Command-line programs of others: kcat and rsyslog from Debian, Kafka's own console tools."""

import json
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from seglog.clients import Admin
from seglog.clients.testing import RunningBroker
from support.eventually import eventually
from support.foreign.programs import java_command, kafka_class_path, run_java
from support.foreign.shape import CODECS, UnavailableError
from support.wires import KafkaWire, read_batches, read_records

WAIT_SECONDS = 60


def need(program: str) -> str:
    """The path of a program of the system; skips where it is not installed."""
    found = shutil.which(program) or shutil.which(program, path="/usr/sbin")
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


def run(*command: str, given: str = "") -> str:
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def kafka_tool(main_class: str, *arguments: str, given: str | None = None) -> str:
    try:
        done = run_java(main_class, *arguments, given=given)
    except UnavailableError as error:
        pytest.skip(str(error))
    return done.stdout + done.stderr


def values_of(broker: RunningBroker, topic: str) -> list[bytes | None]:
    with KafkaWire(broker.port) as wire:
        return [each.value for each in read_records(wire, topic)]


# ---- kcat


@pytest.mark.parametrize("codec", CODECS)
def test_kcat_produces_and_consumes(broker: RunningBroker, admin: Admin, codec: str) -> None:
    """With keys and headers, every codec; what it prints is what it was given."""
    kcat = need("kcat")
    topic = f"kcat-{codec}"
    admin.create_topic(topic, partitions=1)
    lines = "".join(f"key{number}:{'value ' * 20}{number}\n" for number in range(200))
    run(
        kcat, "-P", "-b", broker.address, "-t", topic, "-p", "0", "-z", codec, "-K:",
        "-H", "origin=kcat", "-X", "linger.ms=50", given=lines,
    )  # fmt: skip
    printed = run(
        kcat, "-C", "-b", broker.address, "-t", topic, "-e", "-q", "-f", "%o %h %k:%s\n",
    )  # fmt: skip
    expected = [f"{i} origin=kcat {line}" for i, line in enumerate(lines.splitlines())]
    assert printed.splitlines() == expected
    with KafkaWire(broker.port) as wire:
        codecs = {each.header.codec.name.lower() for each in read_batches(wire, topic)}
    assert codec in codecs


def test_kcat_lists_seeks_by_time_and_joins_groups(broker: RunningBroker, admin: Admin) -> None:
    """Metadata, offsets for times, and the balanced consumer."""
    kcat = need("kcat")
    admin.create_topic("kcat-seen", partitions=3)
    run(kcat, "-P", "-b", broker.address, "-t", "kcat-seen", "-p", "1", given="a\nb\n")
    metadata = json.loads(run(kcat, "-L", "-J", "-b", broker.address, "-t", "kcat-seen"))
    assert [len(each["partitions"]) for each in metadata["topics"]] == [3]
    assert len(metadata["brokers"]) == 1
    assert "kcat-seen [1] offset 0" in run(
        kcat, "-Q", "-b", broker.address, "-t", "kcat-seen:1:1000000"
    )
    printed = run(
        kcat, "-b", broker.address, "-X", "auto.offset.reset=earliest", "-e", "-q",
        "-G", "kcat-group", "kcat-seen",
    )  # fmt: skip
    assert sorted(printed.split()) == ["a", "b"]
    again = run(
        kcat, "-b", broker.address, "-X", "auto.offset.reset=earliest", "-e", "-q",
        "-G", "kcat-group", "kcat-seen",
    )  # fmt: skip
    assert again.split() == [], "what it committed at its end was forgotten"


# ---- rsyslog

RSYSLOG = """
global(workDirectory="{folder}")
module(load="omkafka")
module(load="imudp")
input(type="imudp" address="127.0.0.1" port="{port}")
template(name="line" type="string" string="%msg:2:$%")
action(type="omkafka" broker=["{address}"] topic="syslog" template="line" partitions.auto="on"
       confParam=["compression.codec=snappy", "queue.buffering.max.ms=50"]
       action.resumeRetryCount="-1")
"""


def test_rsyslog_forwards_messages(broker: RunningBroker, admin: Admin, tmp_path: Path) -> None:
    """Lines sent to syslog arrive in the topic."""
    rsyslogd = need("rsyslogd")
    if not list(Path("/usr/lib").rglob("rsyslog/omkafka.so")):
        pytest.skip("rsyslog has no Kafka output (Debian: rsyslog-kafka)")
    admin.create_topic("syslog", partitions=1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = tmp_path / "rsyslog.conf"
    config.write_text(RSYSLOG.format(folder=tmp_path, port=port, address=broker.address))
    command = [rsyslogd, "-n", "-f", str(config), "-i", str(tmp_path / "pid")]
    with (tmp_path / "output").open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    lines = [b"line %d" % number for number in range(50)]

    def arrived() -> bool:
        # Datagrams sent before it listens are lost: send until the first line is there.
        if b"hello" in values_of(broker, "syslog"):
            return True
        send(port, [b"hello"])
        time.sleep(0.2)
        return False

    try:
        eventually(arrived, timeout=20)
        send(port, lines)
        eventually(lambda: values_of(broker, "syslog")[-50:] == lines, timeout=20)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def send(port: int, lines: list[bytes]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for line in lines:
            sender.sendto(b"<13>Oct 11 22:14:15 host app: " + line, ("127.0.0.1", port))


# ---- Kafka's own tools

CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"


def test_the_console_tools_write_and_read(broker: RunningBroker, admin: Admin) -> None:
    """kafka-console-producer and kafka-console-consumer, with keys, headers and a group."""
    admin.create_topic("console", partitions=1)
    given = "".join(f"h:1\tk{number}\tv{number}\n" for number in range(20))
    kafka_tool(
        CONSOLE_PRODUCER, "--bootstrap-server", broker.address, "--topic", "console",
        "--reader-property", "parse.key=true", "--reader-property", "parse.headers=true",
        given=given,
    )  # fmt: skip
    printed = kafka_tool(
        CONSOLE_CONSUMER, "--bootstrap-server", broker.address, "--topic", "console",
        "--from-beginning", "--max-messages", "20", "--group", "console-readers",
        "--formatter-property", "print.key=true", "--formatter-property", "print.headers=true",
        "--timeout-ms", "20000",
    )  # fmt: skip
    assert [line for line in printed.splitlines() if line.startswith("h:1")] == given.splitlines()


def test_the_administrative_tools_understand_the_broker(broker: RunningBroker) -> None:
    """kafka-topics, kafka-configs, kafka-get-offsets, kafka-consumer-groups, kafka-broker-api."""
    server = ("--bootstrap-server", broker.address)
    topics = "org.apache.kafka.tools.TopicCommand"
    kafka_tool(topics, *server, "--create", "--topic", "tooled", "--partitions", "2")
    described = kafka_tool(topics, *server, "--describe", "--topic", "tooled")
    assert "PartitionCount: 2" in described
    kafka_tool(
        "org.apache.kafka.tools.ConfigCommand", *server, "--alter", "--entity-type", "topics",
        "--entity-name", "tooled", "--add-config", "retention.ms=1000000",
    )  # fmt: skip
    described = kafka_tool(
        "org.apache.kafka.tools.ConfigCommand", *server, "--describe", "--entity-type", "topics",
        "--entity-name", "tooled",
    )  # fmt: skip
    assert "retention.ms=1000000" in described
    offsets = kafka_tool("org.apache.kafka.tools.GetOffsetShell", *server, "--topic", "tooled")
    assert set(offsets.split()) >= {"tooled:0:0", "tooled:1:0"}
    groups = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    kafka_tool(
        groups, *server, "--group", "tooled-group", "--topic", "tooled", "--reset-offsets",
        "--to-earliest", "--execute",
    )  # fmt: skip
    assert "tooled-group" in kafka_tool(groups, *server, "--list")
    listed = kafka_tool(groups, *server, "--describe", "--group", "tooled-group", "--offsets")
    assert "tooled" in listed
    versions = kafka_tool("org.apache.kafka.tools.BrokerApiVersionsCommand", *server)
    assert "Produce(0): 0 to 13" in versions


def test_the_performance_tools_run(broker: RunningBroker, admin: Admin) -> None:
    """kafka-producer-perf-test and kafka-consumer-perf-test move 20,000 records."""
    admin.create_topic("perf", partitions=2)
    sent = kafka_tool(
        "org.apache.kafka.tools.ProducerPerformance", "--topic", "perf", "--num-records", "20000",
        "--record-size", "100", "--throughput", "-1",
        "--producer-props", f"bootstrap.servers={broker.address}", "compression.type=lz4",
    )  # fmt: skip
    assert "20000 records sent" in sent
    read = kafka_tool(
        "org.apache.kafka.tools.ConsumerPerformance", "--bootstrap-server", broker.address,
        "--topic", "perf", "--num-records", "20000",
    )  # fmt: skip
    assert "20000" in read


def test_the_verifiable_producer_and_consumer_agree(broker: RunningBroker, admin: Admin) -> None:
    """Kafka's system-test programs: what one acknowledges, the other reads."""
    admin.create_topic("verified", partitions=1)
    written = kafka_tool(
        "org.apache.kafka.tools.VerifiableProducer", "--bootstrap-server", broker.address,
        "--topic", "verified", "--max-messages", "500", "--acks", "-1",
    )  # fmt: skip
    assert written.count('"producer_send_success"') == 500
    command = [
        *java_command(), "-cp", kafka_class_path(),
        "org.apache.kafka.tools.VerifiableConsumer", "--bootstrap-server", broker.address,
        "--topic", "verified", "--group-id", "verifiers", "--max-messages", "500",
        "--reset-policy", "earliest", "--group-protocol", "classic", "--verbose",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('"record_data"') == 500
