"""What is built and installed: complete, without a compiler too, and without what is not meant."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from seglog.broker.version import VERSION
from support.checkout import (
    ROOT,
    WITHOUT_COMPILER,
    copy_checkout,
    files_of_checkout,
    install_into_new_environment,
    run,
)
from support.real_broker import free_port

PACKAGES = ("broker", "protocol", "clients", "config")
SPARK_HOOKS = ("pyspark_seglog", "pyspark_seglog_files")
INSTALL_SECONDS = 400
READY_SECONDS = 30


def expected_modules() -> set[str]:
    """Every module as a path below site-packages."""
    names = [name for name in files_of_checkout() if name.endswith((".py", ".pyi", "py.typed"))]
    modules = {"seglog/__init__.py", "seglog/__init__.pyi"} | {
        f"seglog/{name}" for name in names if name.split("/")[0] in PACKAGES
    }
    return modules | {name for name in names if name.split("/")[0] in SPARK_HOOKS}


def test_a_link_of_the_import_root_leads_elsewhere() -> None:
    """The four folders and the two hooks are the only packages, each by a relative link."""
    links = {
        path.relative_to(ROOT / ".src"): os.readlink(path)
        for path in (ROOT / ".src").rglob("*")
        if path.is_symlink()
    }
    assert links == {
        **{Path("seglog") / name: f"../../{name}" for name in PACKAGES},
        **{Path(name): f"../{name}" for name in SPARK_HOOKS},
    }
    files = (path for path in (ROOT / ".src/seglog").iterdir() if path.is_file())
    own = {path.name for path in files if not path.is_symlink()}
    assert own == {"__init__.py", "__init__.pyi"}


def test_a_package_has_no_types_for_others() -> None:
    for name in PACKAGES:
        assert (ROOT / name / "py.typed").is_file()


def test_the_compiled_module_is_not_rebuilt_after_a_change() -> None:
    """setuptools looks at the files that it is told of."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    [module] = pyproject["tool"]["setuptools"]["ext-modules"]
    parts = {name for name in files_of_checkout() if name.endswith(".pxi")}
    assert set(module["depends"]) == parts
    assert module["optional"] is True


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A source distribution, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("distributions")
    source = copy_checkout(folder / "checkout")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", source)
    [sdist] = (folder / "dist").glob("*.tar.gz")
    [wheel] = (folder / "dist").glob("*.whl")
    return {"sdist": sdist, "wheel": wheel}


@pytest.mark.slow
@pytest.mark.timeout(INSTALL_SECONDS)
def test_the_wheel_lacks_a_module_or_has_too_much(distributions: dict[str, Path]) -> None:
    with zipfile.ZipFile(distributions["wheel"]) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    compiled = {name for name in names if name.endswith(".so")}
    assert names - compiled == expected_modules()
    assert len(compiled) == 1, "it was built with a compiler"


@pytest.mark.slow
@pytest.mark.timeout(INSTALL_SECONDS)
def test_the_source_distribution_lacks_a_source(distributions: dict[str, Path]) -> None:
    with tarfile.open(distributions["sdist"]) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    assert {f".src/{name}" for name in expected_modules()} <= names
    kernel = {name for name in files_of_checkout() if name.endswith((".pyx", ".pxi"))}
    assert kernel <= names
    assert {"pyproject.toml", "README.md", "LICENSE"} <= names
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/"))]
    assert not [name for name in names if name.endswith((".so", ".c", ".pyc"))]


# ---- an installation without a compiler, as the Dockerfile makes it


def dockerfile_copies() -> list[str]:
    """What the first stage of the Dockerfile copies, as far as .dockerignore lets it."""
    first_stage = (ROOT / "Dockerfile").read_text().split("\nFROM ")[1]
    copies = re.findall(r"^COPY (.+) \S+$", first_stage, re.MULTILINE)
    return [name for line in copies for name in line.split()]


@pytest.fixture(scope="module")
def installed() -> Iterator[Path]:
    """The programs of a fresh environment; readable for other users, unlike pytest's folders."""
    folder = Path(tempfile.mkdtemp(prefix="seglog-packaging-"))
    folder.chmod(0o755)
    try:
        source = copy_checkout(folder / "source", dockerfile_copies())
        yield install_into_new_environment(source, folder / "opt", WITHOUT_COMPILER)
    finally:
        shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.timeout(INSTALL_SECONDS)
def test_an_installation_needs_a_compiler(installed: Path) -> None:
    code = "from seglog.protocol.records import kernel; print(kernel.COMPILED)"
    assert run(installed / "python", "-I", "-c", code) == "False\n"
    for name in ("seglog", "seglogd"):
        assert run(installed / name, "--version") == f"{name} {VERSION}\n"
    assert "serve" in run(installed / "seglogd", "--help")
    assert "consume" in run(installed / "seglog", "--help")


@pytest.mark.slow
@pytest.mark.timeout(INSTALL_SECONDS)
def test_a_checkout_hides_what_is_installed(installed: Path, tmp_path: Path) -> None:
    """U24: python finds folders below the one it is started in first, such as a checkout."""
    shadow = tmp_path / "seglog/clients"
    shadow.mkdir(parents=True)
    (shadow / "__init__.py").write_text("raise RuntimeError('this is the checkout')\n")
    code = "import seglog; print(seglog.Admin.__name__, seglog.__version__)"
    assert run(installed / "python", "-c", code, cwd=tmp_path) == f"Admin {VERSION}\n"


@pytest.mark.slow
@pytest.mark.timeout(INSTALL_SECONDS)
def test_something_lands_beside_the_namespace(installed: Path) -> None:
    """Nothing called ``config`` or ``protocol`` in a user's site-packages."""
    [packages] = installed.parent.glob("lib/python*/site-packages")
    record = next(packages.glob("seglog-*.dist-info")) / "RECORD"
    places = {line.split("/")[0].split(",")[0] for line in record.read_text().splitlines()}
    allowed = {"seglog", "..", *SPARK_HOOKS, record.parent.name}
    assert places <= allowed


@pytest.mark.slow
@pytest.mark.timeout(INSTALL_SECONDS)
def test_the_image_does_not_run(installed: Path) -> None:
    """The Dockerfile's environment, entry point, user and health check, without a container."""
    home = Path(tempfile.mkdtemp(prefix="seglog-image-"))
    user = None
    if os.geteuid() == 0 and everybody_may_run(installed / "python"):
        user = "nobody"
        shutil.chown(home, user)
    broker_port, metrics_port = free_port(), free_port()
    instructions = (ROOT / "Dockerfile").read_text()
    for inside, here in (
        ("9092", str(broker_port)),
        ("9644", str(metrics_port)),
        ("/opt/seglog/bin:$PATH", f"{installed}:{os.environ['PATH']}"),
        ("/var/lib/seglog", str(home)),
        ("\\\n", " "),
    ):
        instructions = instructions.replace(inside, here)
    block = re.search(r"^ENV (.+?)^USER", instructions, re.MULTILINE | re.DOTALL)
    assert block
    variables = dict(word.split("=", 1) for word in block[1].split())
    environment = {"HOME": str(home), **variables}
    config = ROOT / "config/server.properties"
    shutil.copy(config, home / config.name)
    process = subprocess.Popen(
        [installed / "seglogd", "serve", "--config", home / config.name],
        cwd=home,
        env=environment,
        user=user,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(f"seglogd ready port={broker_port} ")
        client = {**environment, "SEGLOG_BOOTSTRAP_SERVER": f"localhost:{broker_port}"}
        health = re.search(r"^HEALTHCHECK .+?CMD \[(.+)\]$", instructions, re.MULTILINE | re.DOTALL)
        assert health
        words = re.findall(r'"((?:[^"\\]|\\.)*)"', health[1])
        subprocess.run([installed / words[0], *words[1:]], env=client, check=True, timeout=30)
        seglog = installed / "seglog"
        for codec in ("none", "zstd", "lz4", "snappy", "gzip"):
            subprocess.run(
                [seglog, "produce", "flights", "-z", codec],
                input=f"{codec}\n",
                env=client,
                text=True,
                check=True,
                timeout=30,
            )
        consumed = run(seglog, "consume", "flights", "--until-end", environment=client)
        assert consumed.splitlines() == ["none", "zstd", "lz4", "snappy", "gzip"]
        run(seglog, "health", environment=client)
        process.terminate()
        assert process.wait(READY_SECONDS) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
        shutil.rmtree(home)


def everybody_may_run(program: Path) -> bool:
    """Whether another user reaches it; an interpreter in the home of root is root's alone."""
    return all(path.stat().st_mode & 0o001 for path in (program, *program.resolve().parents))


# ---- types of the public API, as somebody sees them who has installed the package

TYPED_PROGRAM = """
import asyncio
from collections.abc import Iterator

from seglog.clients import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    Producer,
    Record,
    RecordMetadata,
    TopicPartition,
)
from seglog.clients.testing import RunningBroker, running_broker


def pairs() -> Iterator[tuple[bytes | None, bytes | None]]:
    yield b"key", b"value"
    yield b"key", None


def blocking(address: str) -> int:
    with Admin(address) as admin:
        admin.create_topic("flights", partitions=3, configs={"segment.bytes": 1048576})
        admin.delete_records({("flights", 0): 1000})
        names: list[str] = list(admin.describe_topics())
    with Producer(address, acks="all", linger_ms=5, compression="zstd") as producer:
        future = producer.send(
            "flights", b"value", key=b"k", timestamp_ms=1, headers=[("h", b"v")], partition=None
        )
        metadata: RecordMetadata = future.result(10)
        offset: int = metadata.offset
        producer.send_many("flights", pairs())
        producer.flush()
    with Consumer(address, "flights", start="earliest") as consumer:
        for record in consumer:
            one: Record = record
            key: bytes | None = one.key
            print(one.topic, one.partition, one.offset, one.timestamp_ms, key, one.value)
            break
        records: list[Record] = list(consumer.read(max_records=500, timeout=1.0))
        position: int = consumer.position(TopicPartition("flights", 0))
    return offset + len(records) + len(names) + position


async def with_asyncio(address: str) -> int:
    async with AsyncAdmin(address) as admin:
        await admin.create_topic("flights")
    async with AsyncProducer(address) as producer:
        future = await producer.send("flights", b"value")
        metadata: RecordMetadata = await future
    async with AsyncConsumer(address, "flights", start="earliest") as consumer:
        async for record in consumer:
            return record.offset + metadata.offset
    return -1


def test_something() -> None:
    with running_broker() as broker:
        running: RunningBroker = broker
        blocking(running.address)
        asyncio.run(with_asyncio(running.address))
"""

WRONG_PROGRAM = """
from seglog.clients import Admin, Producer

with Admin(5) as admin, Producer("localhost:9092", acks="some") as producer:
    producer.send(b"topic", "text")
    producer.flash()
"""


@pytest.mark.slow
@pytest.mark.timeout(INSTALL_SECONDS)
def test_a_typed_program_is_refused(installed: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(TYPED_PROGRAM)
    status, output = check_types(installed, program)
    assert status == 0, output


@pytest.mark.slow
@pytest.mark.timeout(INSTALL_SECONDS)
def test_a_wrong_program_is_accepted(installed: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(WRONG_PROGRAM)
    status, output = check_types(installed, program)
    assert status == 1
    lines = {int(number) for number in re.findall(r"program\.py:(\d+): error", output)}
    assert lines == {4, 5, 6}, output


def check_types(installed: Path, program: Path) -> tuple[int, str]:
    command = [
        *(sys.executable, "-m", "mypy", "--strict"),
        *("--python-executable", str(installed / "python")),
        *("--cache-dir", str(program.parent / "cache"), "--config-file", "", str(program)),
    ]
    finished = subprocess.run(
        command, cwd=program.parent, capture_output=True, text=True, check=False
    )
    return finished.returncode, finished.stdout + finished.stderr
