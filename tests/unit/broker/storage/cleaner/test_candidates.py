"""How far a pass may go."""

from dataclasses import replace
from pathlib import Path

from seglog.broker.storage.cleaner.candidates import look_at, make_plan
from support.log_builder import KEEP, NOW_MS, append, flush_log, open_log

COMPACT = replace(KEEP, cleanup_policy=("compact",))


def test_value_that_is_not_on_disk_costs_the_older_one(tmp_path: Path) -> None:
    """CLN-3: a power cut may take the newer value, and would leave neither of them."""
    log = open_log(tmp_path / "log", COMPACT)
    append(log, [b"old"])
    log.roll(NOW_MS)
    flush_log(log)
    append(log, [b"new"])
    log.roll(NOW_MS)
    cleanable = look_at(log, None, NOW_MS)
    assert cleanable.first_uncleanable_offset == log.offsets.recovery_point == 1
    assert [each.base_offset for each in make_plan(log, cleanable, NOW_MS).segments] == [0]
    flush_log(log)
    assert look_at(log, None, NOW_MS).first_uncleanable_offset == log.offsets.log_end == 2
