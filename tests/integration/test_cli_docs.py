"""The examples of docs/command-line.md, run as they stand there."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from seglog.clients.testing import RunningBroker, running_broker

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "command-line.md"
MESSAGE = re.compile(r"\d+ records?|nothing is changed; .*|there is no group .*|group \w+ has .*")
"""What goes to standard error beside a table."""


def examples() -> Iterator[tuple[str, str]]:
    """Commands of the console blocks with the output that is promised."""
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with running_broker() as running:
        yield running


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    """A folder with both programs, whatever is installed."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, module in (("seglog", "seglog.clients.cli"), ("seglogd", "seglog.broker")):
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
        program.chmod(0o755)
    return folder


@pytest.mark.slow
def test_an_example_does_something_else(broker: RunningBroker, commands: Path) -> None:
    environment = {
        **os.environ,
        "PATH": f"{commands}:{os.environ['PATH']}",
        "SEGLOG_BOOTSTRAP_SERVER": broker.address,
        "DATA": str(broker.data_directory),
        "LC_ALL": "C",
    }
    found = list(examples())
    assert len(found) > 25
    for command, expected in found:
        result = subprocess.run(
            ["bash", "-c", command],
            env=environment,
            cwd=commands.parent,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert result.returncode == 0, f"{command}\n{result.stdout}"
        assert matches(result.stdout, expected), f"$ {command}\n{result.stdout}\n{expected}"


def matches(output: str, expected: str) -> bool:
    """Line by line in any order of the two streams; blanks count as one, ``...`` as anything."""
    pattern = "\n".join(
        re.escape(" ".join(line.split())).replace(r"\.\.\.", ".*") for line in lines_of(expected)
    )
    return re.fullmatch(pattern, "\n".join(lines_of(output)), re.DOTALL) is not None


def lines_of(text: str) -> list[str]:
    """Lines with single blanks; messages first, since two pipes have no order."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return sorted(lines, key=lambda line: not MESSAGE.fullmatch(line))
