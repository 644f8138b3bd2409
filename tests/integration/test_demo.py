"""The README's first command, as a stranger runs it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_demo_finds_a_difference() -> None:
    """Everything that the README promises of the main job on real input, in one run."""
    result = subprocess.run(
        [sys.executable, "-m", "examples.demo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "336,776 records, all equal" in result.stdout
    assert "Everything is as it was sent." in result.stdout
