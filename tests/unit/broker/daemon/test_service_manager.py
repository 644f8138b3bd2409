"""sd_notify."""

import socket
from pathlib import Path

import pytest

from seglog.broker.daemon.process import notify


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_waits_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, abstract: bool
) -> None:
    """The state arrives as one datagram, over a path or an abstract socket."""
    name = f"\0{tmp_path}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name)
        monkeypatch.setenv("NOTIFY_SOCKET", name.replace("\0", "@"))
        assert notify("READY=1")
        assert manager.recv(100) == b"READY=1"


def test_missing_service_manager_stops_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one nothing happens; a dead one is only logged."""
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert not notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    assert not notify("READY=1")
