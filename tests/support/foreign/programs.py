"""Clients in other languages: where their packages come from, and how their programs are driven.

Packages are brought by the ordinary tools, ``npm`` and ``mvn``, into a cache folder outside the
repository. Where a tool or its registry is not there, ``UnavailableError`` says so and the tests
are skipped.
"""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from support.foreign.shape import CODECS, Read, Sent, UnavailableError

KAFKA_VERSION = "4.4.0"
NPM_PACKAGES = (
    "kafkajs@2.2.4", "kafkajs-snappy@1.1.0", "lz4-napi@2.10.0", "zstd-codec@0.1.5",
)  # fmt: skip
PROGRAMS = Path(__file__).parents[2] / "interop" / "programs"
INSTALL_SECONDS = 240
ANSWER_SECONDS = 90.0

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>seglog.tests</groupId><artifactId>kafka-tools</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
      <version>{version}</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId>
      <version>{version}</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId>
      <version>1.7.36</version></dependency>
  </dependencies>
</project>
"""


def cache_folder() -> Path:
    """Where packages are kept between runs; ``INTEROP_CACHE`` names another place."""
    default = Path(tempfile.gettempdir()) / f"seglog-test-cache-{os.getuid()}"
    return Path(os.environ.get("INTEROP_CACHE", default))


@cache
def kafka_class_path() -> str:
    """The class path of Kafka with its tools.

    Raises:
        UnavailableError: Java, Maven or what it needs is not there.
    """
    _need("java", "javac", "mvn")
    folder = cache_folder() / f"kafka-{KAFKA_VERSION}"
    if not (folder / ".complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pom.xml").write_text(_POM.format(version=KAFKA_VERSION))
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies"]
        _install([*command, f"-DoutputDirectory={folder / 'lib'}"], folder)
        (folder / ".complete").touch()
    return f"{folder / 'lib'}/*"


@cache
def java_classes() -> str:
    """The class path with our own program, compiled."""
    libraries = kafka_class_path()
    source = PROGRAMS / "KafkaClient.java"
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    folder = cache_folder() / f"classes-{KAFKA_VERSION}-{digest}"
    if not folder.exists():
        unfinished = folder.with_suffix(f".{os.getpid()}")
        _install(["javac", "-cp", libraries, "-d", str(unfinished), str(source)], source.parent)
        unfinished.rename(folder)
    return f"{folder}:{libraries}"


@cache
def node_modules() -> Path:
    """The folder with kafkajs and the codecs that it leaves to others.

    Raises:
        UnavailableError: node, npm or its registry is not there.
    """
    _need("node", "npm")
    digest = hashlib.sha256(" ".join(NPM_PACKAGES).encode()).hexdigest()[:16]
    folder = cache_folder() / f"node-{digest}"
    if not (folder / ".complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}')
        _install(["npm", "install", "--no-audit", "--no-fund", *NPM_PACKAGES], folder)
        (folder / ".complete").touch()
    return folder / "node_modules"


def run_java(
    main_class: str, *arguments: str, seconds: float = 120, given: str | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run one of Kafka's own tools; a status other than 0 fails the test."""
    command = [*java_command(), "-cp", kafka_class_path(), main_class, *arguments]
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=seconds, check=False
    )
    assert done.returncode == 0, f"{main_class}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done


def java_command(heap_megabytes: int = 256) -> list[str]:
    """How Java is started here: small, and quick to start."""
    return ["java", f"-Xmx{heap_megabytes}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


def _need(*programs: str) -> None:
    for each in programs:
        if shutil.which(each) is None:
            raise UnavailableError(f"{each} is not installed")


def _install(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_SECONDS,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"{command[0]} did not answer in {INSTALL_SECONDS} s") from error
    if done.returncode != 0:
        lines = (done.stdout + done.stderr).strip().splitlines()
        raise UnavailableError(f"{command[0]} failed: {' '.join(lines[-3:])[:500]}")


class ProgramError(Exception):
    """What the program says went wrong."""


class ProgramClient:
    """A client library of another language, behind a program that obeys JSON commands."""

    codecs = CODECS
    null_header_values = True
    static_members = True

    def __init__(self, name: str, command: Sequence[str], **options: Any) -> None:
        self.name = name
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options
        )
        self._lock = threading.Lock()
        self._members = 0

    def ask(self, do: str, **arguments: Any) -> Any:
        """Give a command; its result."""
        line = json.dumps({"do": do, **arguments})
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            watchdog = threading.Timer(ANSWER_SECONDS, self._process.kill)
            watchdog.start()
            try:
                self._process.stdin.write(line + "\n")
                self._process.stdin.flush()
                answer = self._process.stdout.readline()
            finally:
                watchdog.cancel()
        assert answer, f"{self.name} ended, or gave no answer to {do} in {ANSWER_SECONDS} s"
        found = json.loads(answer)
        if "error" in found:
            raise ProgramError(found["error"])
        return found["result"]

    def admin(self, what: str, **arguments: Any) -> Any:
        """Ask the admin client."""
        return self.ask("admin", what=what, **arguments)

    def produce(
        self,
        topic: str,
        records: Sequence[Sent],
        *,
        codec: str = "none",
        partition: int = 0,
        **options: Any,
    ) -> list[int]:
        """Send records in order with acks=all; their offsets."""
        texts = to_texts(records)
        offsets: list[int] = self.ask(
            "produce", topic=topic, records=texts, codec=codec, partition=partition, **options
        )
        return offsets

    def begin_stream(self, topic: str, records: Sequence[Sent], **settings: str) -> None:
        """Send records to partition 0 without waiting, idempotently."""
        dotted = {key.replace("_", "."): value for key, value in settings.items()}
        texts = to_texts(records)
        self.ask("stream", topic=topic, records=texts, settings=dotted)

    def finish_stream(self) -> list[int]:
        """Wait for everything that was sent so; the offsets."""
        offsets: list[int] = self.ask("finish_stream")
        return offsets

    def consume(
        self,
        topic: str,
        count: int,
        *,
        partition: int = 0,
        start: int = 0,
        isolation: str = "read_uncommitted",
    ) -> list[Read]:
        """Read ``count`` records from an offset on."""
        found = self.ask(
            "consume", topic=topic, count=count, partition=partition, start=start,
            settings={"isolation.level": isolation},
        )  # fmt: skip
        return [_to_read(each) for each in found]

    def offset_at(self, topic: str, timestamp_ms: int, *, partition: int = 0) -> int | None:
        """Offset of the first record at or after a time."""
        offset: int | None = self.ask(
            "offset_at", topic=topic, time=timestamp_ms, partition=partition
        )
        return offset

    def member(self, group: str, topic: str, **options: Any) -> "ProgramMember":
        """Join a group."""
        self._members += 1
        timeout = options.get("session_timeout_ms", 6000)
        settings = {
            "group.id": group, "session.timeout.ms": timeout, "heartbeat.interval.ms": 200,
            "fetch.max.wait.ms": 100,
        }  # fmt: skip
        if "instance_id" in options:
            settings["group.instance.id"] = options["instance_id"]
        if "strategy" in options:
            settings["partition.assignment.strategy"] = options["strategy"]
        name = f"member-{self._members}"
        self.ask(
            "join", member=name, topic=topic, group=group, sessionTimeout=timeout,
            settings=settings,
        )  # fmt: skip
        return ProgramMember(self, name)

    def close(self) -> None:
        """End the program."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


class ProgramMember:
    """A consumer in a group, inside the program."""

    def __init__(self, client: ProgramClient, name: str) -> None:
        self._client = client
        self._name = name

    def seen(self) -> list[Read]:
        """What was delivered so far."""
        return [_to_read(each) for each in self._client.ask("seen", member=self._name)]

    def assigned(self) -> set[int]:
        """The partitions that it has now."""
        return set(self._client.ask("assigned", member=self._name))

    def joins(self) -> int:
        """How many times it was assigned anything."""
        count: int = self._client.ask("joins", member=self._name)
        return count

    def commit(self) -> None:
        """Commit what was delivered."""
        self._client.ask("commit", member=self._name)

    def close(self) -> None:
        """Leave the group."""
        self._client.ask("leave", member=self._name)


def java_client(address: str) -> ProgramClient:
    """The Java client, in a process of its own."""
    command = [*java_command(), "-cp", java_classes(), "KafkaClient", address]
    return ProgramClient("java", command)


def kafkajs_client(address: str) -> ProgramClient:
    """kafkajs, in a process of its own."""
    environment = {**os.environ, "NODE_PATH": str(node_modules())}
    program = str(PROGRAMS / "kafkajs_client.js")
    client = ProgramClient("kafkajs", ["node", "--no-warnings", program, address], env=environment)
    client.static_members = client.null_header_values = False
    return client


def to_texts(records: Sequence[Sent]) -> list[dict[str, Any]]:
    """Records as the programs want them."""
    return [_from_sent(each) for each in records]


def _from_sent(record: Sent) -> dict[str, Any]:
    return {
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[name, _text(value)] for name, value in record.headers],
        "timestamp": record.timestamp_ms,
    }


def _to_read(found: dict[str, Any]) -> Read:
    return Read(
        found["partition"],
        found["offset"],
        found["timestamp"],
        _bytes(found["key"]),
        _bytes(found["value"]),
        tuple((name, _bytes(value)) for name, value in found["headers"]),
    )


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else base64.b64decode(value)
