"""Time in proportion to the machine: what a bare import of the loop takes is the unit.

Machines differ threefold, and a busy one more than that: a test that counts seconds fails on the
slow ones. ``python -c "import asyncio, uvloop"`` takes 60 ms of processor time on the machine for
which the limits were stated.
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

REFERENCE_SECONDS = 0.06
"""What the bare import takes on the machine that stated limits refer to."""


def bare_import_seconds(environment: Mapping[str, str], attempts: int = 4) -> float:
    """Processor time of ``import asyncio, uvloop`` in a process of its own, in seconds.

    Args:
        environment: as the process has it that is measured beside this one.
        attempts: so many processes, of which the quickest counts.
    """
    return min(_one_import_seconds(environment) for _ in range(attempts))


def _one_import_seconds(environment: Mapping[str, str]) -> float:
    process = subprocess.Popen(
        [sys.executable, "-c", "import asyncio, uvloop"], env=dict(environment)
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_utime + usage.ru_stime


def in_time(taken_seconds: float, limit_seconds: float) -> bool:
    """Whether something took no longer than its limit on the clock, in proportion to the machine.

    The machine is looked at only where the limit as it stands was missed: then the limit is
    lengthened by what the bare import takes now, on the clock, beside everything else that runs.
    """
    if taken_seconds <= limit_seconds:
        return True
    started = time.monotonic()
    _one_import_seconds(os.environ)
    pace = (time.monotonic() - started) / REFERENCE_SECONDS
    return taken_seconds <= limit_seconds * max(1.0, pace)


def process_seconds(pid: int) -> float:
    """What a running process has computed so far, in user and system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
