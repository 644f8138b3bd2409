"""The lock on a data directory (C076, MGR-2)."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from seglog.broker.storage.directories.directory_lock import DirectoryLock, holder_of
from seglog.broker.storage.errors import FileError, LockedError

_HOLD = """
import sys, signal
from seglog.broker.storage.directories.directory_lock import DirectoryLock, holder_of
lock = DirectoryLock(sys.argv[1])
lock.acquire()
print("held", flush=True)
signal.pause()
"""


def test_two_brokers_use_one_directory(tmp_path: Path) -> None:
    first, second = DirectoryLock(str(tmp_path)), DirectoryLock(str(tmp_path))
    first.acquire()
    content = Path(first.path).read_bytes()
    with pytest.raises(LockedError, match=f"process {os.getpid()} on "):
        second.acquire()
    assert Path(first.path).read_bytes() == content
    first.release()
    second.acquire()
    second.release()


def test_the_lock_can_be_passed_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to("data")
    lock = DirectoryLock(str(tmp_path / "data"))
    lock.acquire()
    with pytest.raises(LockedError):
        DirectoryLock(str(tmp_path / "link")).acquire()
    lock.release()


def test_a_killed_broker_keeps_its_directory_locked(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    lock = DirectoryLock(str(tmp_path))
    with pytest.raises(LockedError, match=f"process {holder.pid} on "):
        lock.acquire()
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    lock.acquire()
    lock.release()


def test_a_broker_starts_beside_one_whose_lock_file_was_removed(tmp_path: Path) -> None:
    """What people are told to do when a broker says that its directory is locked."""
    first, second = DirectoryLock(str(tmp_path)), DirectoryLock(str(tmp_path))
    first.acquire()
    Path(first.path).unlink()
    with pytest.raises(LockedError, match="another process"):
        second.acquire()
    assert list(tmp_path.iterdir()) == []
    first.release()
    second.acquire()
    second.release()


_LOCK_AS_JAVA_DOES = """
import fcntl, sys
file = open(sys.argv[1] + "/.lock", "a+")
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    print("refused", flush=True)
else:
    print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not hasattr(fcntl, "F_OFD_SETLK"), reason="a system without such locks")
def test_kafka_starts_beside_a_broker(tmp_path: Path) -> None:
    """Java's locks and those of flock do not see each other."""
    lock = DirectoryLock(str(tmp_path))
    lock.acquire()
    with pytest.raises(LockedError):  # and closes a descriptor of the file
        DirectoryLock(str(tmp_path)).acquire()
    command = [sys.executable, "-c", _LOCK_AS_JAVA_DOES, str(tmp_path)]
    for said in ("refused\n", "held\n"):
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as kafka:
            assert kafka.stdout is not None
            assert kafka.stdin is not None
            assert kafka.stdout.readline() == said
            if said == "held\n":
                with pytest.raises(LockedError):
                    lock.acquire()
            kafka.stdin.close()
        lock.release()


@pytest.mark.parametrize("content", [b"", b"1 host", b"\xff\0", b"999999999 gone", b"x" * 5000])
def test_a_leftover_lock_file_blocks_the_start(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".lock").write_bytes(content)
    lock = DirectoryLock(str(tmp_path))
    lock.acquire()
    assert (tmp_path / ".lock").read_text().startswith(f"{os.getpid()} ")
    lock.release()


def test_who_holds_an_unreadable_lock_file_is_made_up(tmp_path: Path) -> None:
    lock = DirectoryLock(str(tmp_path))
    lock.acquire()
    Path(lock.path).write_bytes(b"\xffnobody")
    with pytest.raises(LockedError, match="another process"):
        DirectoryLock(str(tmp_path)).acquire()
    lock.release()


def test_a_missing_directory_gives_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileError):
        DirectoryLock(str(tmp_path / "missing")).acquire()


def test_a_running_broker_is_not_noticed(tmp_path: Path) -> None:
    """By the tools, which only read; also where its lock file was removed."""
    directory = str(tmp_path)
    assert holder_of(directory) is None
    assert list(tmp_path.iterdir()) == []
    lock = DirectoryLock(directory)
    lock.acquire()
    assert holder_of(directory) == f"process {os.getpid()} on {os.uname().nodename}"
    Path(lock.path).unlink()
    assert holder_of(directory) == ""
    lock.release()
    assert holder_of(directory) is None


def test_looking_at_the_lock_keeps_a_broker_from_starting(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    assert holder_of(str(tmp_path)) is None
    lock = DirectoryLock(str(tmp_path))
    lock.acquire()
    lock.release()
