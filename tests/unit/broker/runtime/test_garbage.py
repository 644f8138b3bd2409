"""The garbage collector of the daemon."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from seglog.broker.runtime.garbage import GarbageCollection


@pytest.fixture
def collector() -> Iterator[None]:
    """The collector as it was, afterwards."""
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    gc.enable()


class Node:
    """Something that can refer to itself."""

    def __init__(self) -> None:
        self.itself = self


async def test_old_garbage_is_kept_for_ever(collector: None) -> None:
    """Cycles that were set aside alive are found once they are garbage."""
    garbage = GarbageCollection(asyncio.get_running_loop())
    node = Node()
    gone = weakref.ref(node)
    gc.disable()
    garbage.start()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
    del node
    garbage.collect()
    assert gone() is None
    garbage.stop()
    garbage.stop()
