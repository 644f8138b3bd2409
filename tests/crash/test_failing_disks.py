"""A disk that fails at any one call of a life: a clear error, nothing lost, others unharmed.

``make faults`` tries every call with every error; the tests take some of them by a seed.
"""

import errno
import logging
import os
import random
from pathlib import Path

import pytest

from support.failing_calls import SHORT_WRITE, Fault
from support.failing_life import FailingLife
from support.memory_folder import memory_folder

ERRORS = [
    errno.EIO,
    errno.ENOSPC,
    errno.EROFS,
    errno.EMFILE,
    errno.EACCES,
    SHORT_WRITE,
]
SAMPLE = 6
"""Calls that fail in each test; all of them by ``make faults``."""
SEED = 1


async def operations_of_a_life(folder: Path) -> int:
    """How many calls a life has without a fault."""
    life = FailingLife(folder, None)
    await life.run()
    return len(life.calls.operations)


async def failure_of(fault: Fault) -> str | None:
    """What went wrong, if anything did."""
    with memory_folder() as folder:
        life = FailingLife(folder, fault)
        try:
            await life.run()
        except Exception as error:  # noqa: BLE001  # told with the fault that leads to it
            failed = life.calls.failed[:1]
            return f"{fault} {failed}: {type(error).__name__}: {error}"
    return None


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("lasts", [False, True], ids=["once", "until it is healed"])
@pytest.mark.parametrize(
    "error", ERRORS, ids=lambda error: "short" if error < 0 else errno.errorcode[error]
)
async def test_call_that_fails_costs_nothing_that_was_acknowledged(
    tmp_path: Path, error: int, lasts: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Our errors come out and no others; the rest of the broker lives on."""
    caplog.set_level(logging.CRITICAL + 1)
    numbers = list(range(await operations_of_a_life(tmp_path)))
    if os.environ.get("SEGLOG_TEST_FAULTS") != "all":
        numbers = random.Random(SEED + error).sample(numbers, SAMPLE)
    failures = [await failure_of(Fault(number, error, lasts)) for number in sorted(numbers)]
    found = [each for each in failures if each is not None]
    assert not found, "\n".join(found)
