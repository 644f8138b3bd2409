"""Power cuts anywhere in lives that a seed decides, and again in the recovery from them."""

import logging
import random
from pathlib import Path

import pytest

from support.disk_model import Change, Cut, DiskModel, Keep
from support.power_cut_runs import LIVES, cut_failures_of
from support.power_cuts import CUTS

STATES = 500
"""Power cuts of all tests; ``make powercut`` tries any number."""
CHUNK = 5


def apply(model: DiskModel, *changes: Change) -> None:
    for change in changes:
        model.apply(change)


def test_write_after_the_beginning_of_a_sync_is_covered(tmp_path: Path) -> None:
    """What a sync has not seen may be lost although the sync ended after it."""
    model = DiskModel({})
    apply(
        model,
        Change("create", "file"),
        Change("sync", "."),
        Change("write", "file", 0, b"before"),
        Change("sync_begins", "file"),
        Change("write", "file", 6, b" after"),
        Change("sync_ends", "file", 4),
    )
    model.write_to(tmp_path / "after", Keep.NOTHING)
    assert (tmp_path / "after" / "file").read_bytes() == b"before"


def test_sync_after_a_failed_one_is_believed(tmp_path: Path) -> None:
    """The kernel has dropped the pages: the second sync has nothing to write."""
    model = DiskModel({})
    apply(
        model,
        Change("create", "file"),
        Change("sync", "."),
        Change("write", "file", 0, b"lost"),
        Change("sync_begins", "file"),
        Change("sync_fails", "file", 4),
        Change("sync", "file"),
    )
    model.write_to(tmp_path / "after", Keep.NOTHING)
    assert (tmp_path / "after" / "file").read_bytes() == b""


@pytest.mark.parametrize("sector_bytes", [512, 4096])
def test_write_is_torn_within_a_sector(tmp_path: Path, sector_bytes: int) -> None:
    """Of each sector all is there, or nothing."""
    model = DiskModel({})
    content = bytes(random.Random(1).randbytes(20_000))
    apply(model, Change("create", "file"), Change("write", "file", 0, content))
    torn = 0
    for seed in range(60):
        folder = tmp_path / str(seed)
        model.write_to(folder, Cut(random.Random(seed), sector_bytes))
        if not (folder / "file").exists():
            continue
        found = (folder / "file").read_bytes()
        kinds = set()
        for start in range(0, len(found), sector_bytes):
            sector = found[start : start + sector_bytes]
            kinds.add("kept" if sector == content[start : start + len(sector)] else "lost")
            assert sector in (content[start : start + len(sector)], bytes(len(sector)))
        torn += kinds == {"kept", "lost"}
    assert torn > 3


@pytest.mark.slow
@pytest.mark.parametrize("life", sorted(LIVES))
@pytest.mark.parametrize(
    "first", range(0, STATES // CUTS // len(LIVES), CHUNK), ids=lambda first: f"from {first}"
)
def test_power_cut_breaks_a_promise(
    life: str, first: int, caplog: pytest.LogCaptureFixture
) -> None:
    """INV-3, DEL-8, FLUSH-6, REC-3, REC-4: data, settings, start offsets, transactions."""
    caplog.set_level(logging.CRITICAL + 1)  # recovery has a lot to say
    failures = cut_failures_of(life, range(first, first + CHUNK))
    assert not failures, "\n".join(text for _, text in failures)
