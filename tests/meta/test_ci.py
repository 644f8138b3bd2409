"""``.ci/run`` on machines that lack something; with stand-ins for everything it calls."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = {
    *("awk", "bash", "cat", "dirname", "id", "mkdir", "mktemp", "rm", "sed", "sort", "tee", "uniq"),
}
OPTIONAL = ("promtool", "kcat", "rsyslogd", "java")


class Machine:
    """A folder of programs; ``log`` has how they were called, ``printed`` what they said."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.log = folder / "log"
        self.log.touch()
        self.printed = ""
        self.checkout = folder / "checkout"
        (self.checkout / ".ci").mkdir(parents=True)
        shutil.copy(ROOT / ".ci/run", self.checkout / ".ci/run")
        for name in TOOLS:
            found = shutil.which(name)
            assert found
            (self.bin / name).symlink_to(found)

    def has(self, *names: str, body: str = "") -> None:
        """Add programs that note how they were called and succeed, or do what ``body`` says."""
        for name in names:
            program = self.bin / name
            program.write_text(f'#!/bin/sh\necho "{name} $*" >> {self.log}\n{body}\n')
            program.chmod(0o755)

    def run(self) -> tuple[int, list[str]]:
        """Run the script: its exit status, and the calls; ``printed`` has what it printed."""
        finished = subprocess.run(
            [self.checkout / ".ci/run"],
            env={"PATH": str(self.bin), "HOME": os.environ.get("HOME", "/")},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        self.printed = finished.stdout
        return finished.returncode, self.log.read_text().splitlines()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_complete_machine_is_given_something(machine: Machine) -> None:
    machine.has("make", "git", "cc", "python3", "apt-get", *OPTIONAL)
    status, calls = machine.run()
    assert status == 0
    assert [call for call in calls if call.startswith("make")] == [
        "make install PYTHON=python3",
        "make check",
        "make test",
        "make test-spark PYSPARK=pyspark==4.2.*",
        "make test-spark",  # With PIP_UPGRADE: the newest.
    ]
    assert not [call for call in calls if call.startswith("apt-get")]


def test_python_without_venv_or_headers_is_used(machine: Machine) -> None:
    """Debian's python3 comes without ``ensurepip`` and ``Python.h``."""
    machine.has("make", "git", "cc", "sudo", *OPTIONAL)
    is_installed = machine.checkout / "installed"
    machine.has("python3", body=f"test -e {is_installed}")
    machine.has("apt-get", body=f'case "$*" in install*) : > {is_installed};; esac')
    if os.geteuid() != 0:
        machine.has("sudo", body='"$@"')
    status, calls = machine.run()
    assert status == 0
    [installed] = [call for call in calls if call.startswith("apt-get install")]
    assert installed.endswith(" python3 python3-venv python3-dev")
    assert "make install PYTHON=python3" in calls


def test_a_newer_python_beside_the_old_one_is_overlooked(machine: Machine) -> None:
    machine.has("make", "git", "cc", "python3.12", *OPTIONAL)
    machine.has("python3", body="exit 1")
    status, calls = machine.run()
    assert status == 0
    assert "make install PYTHON=python3.12" in calls


def test_a_machine_without_other_peoples_programs_is_given_up(machine: Machine) -> None:
    machine.has("make", "git", "cc", "python3")
    machine.has("apt-get", "sudo", body="exit 100")
    status, calls = machine.run()
    assert status == 0
    assert calls[-1] == "make test"


def test_a_failed_check_is_passed_over(machine: Machine) -> None:
    machine.has("git", "cc", "python3", *OPTIONAL)
    machine.has("make", body='test "$1" != check')
    status, calls = machine.run()
    assert status != 0
    assert calls[-1] == "make check"


def test_temporary_and_cache_folders_are_fresh_and_go_at_the_end(machine: Machine) -> None:
    """A fault that an earlier run's folders hide is found by the first stranger otherwise."""
    seen = machine.checkout / "seen"
    machine.has("git", "cc", "python3", *OPTIONAL)
    machine.has("make", body=f'echo "$TMPDIR $XDG_CACHE_HOME $PIP_CACHE_DIR" >> {seen}')
    for _ in range(2):
        assert machine.run()[0] == 0
    runs = set(seen.read_text().splitlines())
    assert len(runs) == 2
    for temporary, cache, packages in (line.split() for line in runs):
        assert not Path(temporary).exists()
        assert cache.startswith(temporary)
        assert not packages.startswith(temporary)  # what was downloaded is not fetched again


def test_tests_that_are_left_out_are_counted_with_their_reasons(machine: Machine) -> None:
    machine.has("git", "cc", "python3", *OPTIONAL)
    skipped = "SKIPPED [2] tests/interop/test_tools.py:40: kcat is not there"
    machine.has("make", body=f'case "$1" in test) echo "{skipped}";; esac')
    assert machine.run()[0] == 0
    assert machine.printed.splitlines()[-2:] == [
        "tests left out: 2",
        "   2 in tests/interop/test_tools.py: kcat is not there",
    ]
