"""A real ext4 in a file, mounted as a loop device where the system lets us."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

_ERROR_TRIGGER: Final = "/sys/fs/ext4/{device}/trigger_fs_error"


class LoopDisk:
    """A mounted file system of its own.

    Attributes:
        folder: where it is mounted.
    """

    def __init__(self, image: Path, folder: Path) -> None:
        self.folder = folder
        self._image = image

    def mount(self) -> None:
        """Mount it, so that the kernel makes it read-only after an error.

        Raises:
            CalledProcessError: that is not permitted.
        """
        options = "loop,errors=remount-ro"
        _run("mount", "-t", "ext4", "-o", options, str(self._image), str(self.folder))

    def become_read_only(self) -> None:
        """Let the kernel find an error; it takes no writes from then on, also of open files.

        A remount by hand is refused while files are open for writing. The test is skipped where
        the kernel cannot be told to.
        """
        source = _run("findmnt", "-n", "-o", "SOURCE", str(self.folder)).strip()
        trigger = Path(_ERROR_TRIGGER.format(device=Path(source).name))
        try:
            trigger.write_text("1")
        except OSError as error:
            pytest.skip(f"no error can be triggered in an ext4 here: {error}")

    def mount_again(self) -> None:
        """Unmount, repair and mount it, as one does after an error. No file of it is open."""
        _run("umount", str(self.folder))
        # It ends with 1 when it has repaired something.
        _run("e2fsck", "-p", "-f", str(self._image), ends=(0, 1))
        self.mount()

    def unmount(self) -> None:
        """Let it go, also if a test that failed has left files open."""
        _run("umount", "-l", str(self.folder))


@contextmanager
def loop_disk(folder: Path, size_bytes: int) -> Iterator[LoopDisk]:
    """An ext4 of so many bytes in ``folder``; the test is skipped where it cannot be mounted."""
    folder.mkdir()
    image, mounted = folder / "image", folder / "mounted"
    mounted.mkdir()
    with image.open("wb") as file:
        file.truncate(size_bytes)
    disk = LoopDisk(image, mounted)
    try:
        _run("mkfs.ext4", "-q", "-F", "-m", "0", str(image))
        disk.mount()
    except FileNotFoundError as error:
        pytest.skip(f"no ext4 can be mounted here: there is no {error.filename}")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no ext4 can be mounted here: {error.stderr.strip()}")
    try:
        yield disk
    finally:
        if mounted.is_mount():
            disk.unmount()


def _run(*command: str, ends: tuple[int, ...] = (0,)) -> str:
    """What a command prints; raises ``CalledProcessError`` if it ends otherwise than it may."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode not in ends:
        raise subprocess.CalledProcessError(
            done.returncode, command, output=done.stdout, stderr=done.stderr
        )
    return done.stdout
