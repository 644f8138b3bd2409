"""Power cuts in lives of which a seed decides everything: ``make powercut``."""

import random
import shutil
from pathlib import Path

from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.files.layout import RECOVERY_POINT_CHECKPOINT
from support.disk_model import Cut, DiskModel, Keep
from support.ledger import Ledger
from support.log_builder import NOW_MS
from support.managed_logs import ManagedLogs
from support.page_cache import OrderedCalls
from support.scheduled_life import run_life

_PASSING_SUFFIXES = {".deleted", ".swap", ".cleaned"}
_RECOVERY_POINTS = f"data/{RECOVERY_POINT_CHECKPOINT}"
CUTS = 10
"""Power cuts in each life."""


class PowerCutError(AssertionError):
    """A power cut left something that it must not leave."""


class CutLife:
    """A life that is over, and what cuts leave of it.

    Args:
        seed: of the life and of the cuts.
        folder: of its own.
        in_any_order: names reach the disk in any order, and not as in a journal.
    """

    def __init__(
        self, seed: int, folder: Path, *, in_any_order: bool, is_old_disk: bool = True
    ) -> None:
        self._seed = seed
        self._folder = folder
        self._in_any_order = in_any_order
        self._chance = random.Random(seed)
        self._is_point_known = False
        self._ledger = Ledger()
        root = folder / "disk"
        root.mkdir()
        if is_old_disk:
            (root / "data").mkdir()
        self._initial = content_of(root)
        life = run_life(seed, root, self._ledger)
        self._changes = life.calls.changes
        self._is_compacted = life.configs.get("cleanup.policy") == "compact"

    def check(self) -> None:
        """Cut the power here and there, and see what is left.

        Raises:
            PowerCutError: it is not what was promised.
        """
        numbers = sorted(self._chance.randint(0, len(self._changes)) for _ in range(CUTS))
        model, applied = DiskModel(self._initial), 0
        for number in numbers:
            for change in self._changes[applied:number]:
                model.apply(change)
            applied = number
            self._check_cut(model, number)

    def _keep(self) -> Keep | Cut:
        chance = self._chance
        if chance.random() < 0.1:
            return chance.choice([Keep.NOTHING, Keep.EVERYTHING])
        sector_bytes = chance.choice([512, 4096])
        return Cut(chance, sector_bytes, names_in_order=not self._in_any_order)

    def _check_cut(self, model: DiskModel, number: int) -> None:
        after = self._folder / "after"
        keep = self._keep()
        model.write_to(after, keep)
        initial = content_of(after)
        points = initial.get(_RECOVERY_POINTS) or b""
        self._is_point_known = b"\nt 0 " in points
        try:
            calls = self._recovered(after, number)
            self._check_recovery_cut(initial, calls, number)
            self._check_lives_on(after, number)
        except Exception as error:
            raise PowerCutError(
                f"life {self._seed}, cut after {number} changes, {_say(keep)}: "
                f"{type(error).__name__}: {error}"
            ) from error
        finally:
            shutil.rmtree(after, ignore_errors=True)

    def _recovered(self, root: Path, number: int) -> OrderedCalls:
        """Start on what a cut left, look at it, and kill."""
        calls = OrderedCalls(None, root)
        logs = ManagedLogs(root / "data", file_system=OsFileSystem(calls))
        try:
            self._check_logs(logs, number)
        finally:
            logs.kill()
        return calls

    def _check_logs(self, logs: ManagedLogs, number: int) -> None:
        facts = self._ledger.promised(number)
        assert not logs.manager.offline_partitions, logs.manager.offline_partitions
        topics = {topic.name for topic in logs.catalog.topics()}
        if "exists" not in facts:
            return
        assert "t" in topics, topics
        if facts.get("other") is not None:
            assert ("other" in topics) == facts["other"], topics
        self._ledger.check(
            logs.log("t"),
            number,
            is_compacted=self._is_compacted,
            may_have_holes=self._is_compacted or not self._is_point_known,
        )

    def _check_recovery_cut(
        self, initial: dict[str, bytes | None], calls: OrderedCalls, number: int
    ) -> None:
        """Cut the power again in the recovery."""
        again = self._folder / "again"
        recovery = DiskModel(initial)
        for change in calls.changes[: self._chance.randint(0, len(calls.changes))]:
            recovery.apply(change)
        recovery.write_to(again, self._keep())
        try:
            self._recovered(again, number)
        except Exception as error:
            raise AssertionError(f"after a cut in the recovery: {error}") from error
        finally:
            shutil.rmtree(again, ignore_errors=True)

    def _check_lives_on(self, root: Path, number: int) -> None:
        """A clean stop and another start change nothing."""
        logs = ManagedLogs(root / "data")
        self._check_logs(logs, number)
        logs.remove_files(NOW_MS)
        logs.stop()
        self._recovered(root, number)
        left = [path.name for path in root.rglob("*") if path.suffix in _PASSING_SUFFIXES]
        assert not left, left


def _say(keep: Keep | Cut) -> str:
    if isinstance(keep, Keep):
        return f"{keep.value} kept"
    order = "in order" if keep.names_in_order else "in any order"
    return f"sectors of {keep.sector_bytes} bytes, names {order}"


def content_of(folder: Path) -> dict[str, bytes | None]:
    """Files with their content, and folders, by their path below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }
