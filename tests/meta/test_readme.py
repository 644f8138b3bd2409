"""The README's commands and its ten lines of Python, run as they stand there."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from seglog.clients.testing import RunningBroker, running_broker

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
ADDRESS = "127.0.0.1:9092"
COMMANDS = {"seglog": "seglog.clients.cli.main", "seglogd": "seglog.broker.daemon.main"}


def block_with(word: str) -> str:
    [found] = [
        block
        for block in re.findall(r"^```\w*\n(.+?)^```", README, re.MULTILINE | re.DOTALL)
        if word in block
    ]
    return str(found)


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with running_broker() as running:
        yield running


def test_the_lines_of_python_run(broker: RunningBroker) -> None:
    code = block_with("import Admin").replace(ADDRESS, broker.address)
    assert len([line for line in code.splitlines() if line]) <= 10
    finished = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.splitlines() == ["0 b'N14228' b'in the air'"]


def test_the_commands_run(broker: RunningBroker, tmp_path: Path) -> None:
    for name, module in COMMANDS.items():
        program = tmp_path / name
        program.write_text(f"#!{sys.executable}\nfrom {module} import main\nmain()\n")
        program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "SEGLOG_BOOTSTRAP_SERVER": broker.address,
    }
    lines = block_with("seglogd serve").splitlines()
    assert lines[0] == "pip install ."
    assert lines[1].split("#")[0].strip() == "seglogd serve"
    output = ""
    for line in lines[2:]:
        finished = subprocess.run(
            ["bash", "-c", line],
            env=environment,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert finished.returncode == 0, (line, finished.stderr)
        output = finished.stdout
    assert output == "hello\n"


@pytest.mark.parametrize("target", ["demo", "test"])
def test_make_knows_the_commands(target: str) -> None:
    assert f"make {target}" in block_with("make demo")
    finished = subprocess.run(
        ["make", "--dry-run", "--silent", target],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
