"""A disk whose syncs hang until a test lets them go on."""

import threading

from seglog.broker.storage.files.system_calls import SystemCalls

LONG_SECONDS = 60.0


class HangingDisk(SystemCalls):
    """The real disk; syncs below ``hanging`` wait for ``release``.

    Attributes:
        hanging: a piece of the path of files and folders whose sync hangs; None for no one.
        waiting: set once a sync has begun to hang.
    """

    def __init__(self) -> None:
        self.hanging: str | None = None
        self.waiting = threading.Event()
        self._released = threading.Event()

    def release(self) -> None:
        """Let everything go on that hangs, and nothing hang any more."""
        self.hanging = None
        self._released.set()

    def _hang(self, path: str) -> None:
        if self.hanging is not None and self.hanging in f"{path}/":
            self.waiting.set()
            assert self._released.wait(LONG_SECONDS), path

    def sync(self, path: str, descriptor: int) -> None:
        self._hang(path)
        super().sync(path, descriptor)

    def sync_directory(self, path: str) -> None:
        self._hang(path)
        super().sync_directory(path)
