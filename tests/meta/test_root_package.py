"""What ``import seglog`` gives, and what it costs."""

import subprocess
import sys
from pathlib import Path

import pytest

import seglog
import seglog.clients
from seglog.broker.version import VERSION

ROOT = Path(__file__).resolve().parents[2]


def run(code: str, cwd: Path = ROOT) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=cwd
    ).stdout


def test_the_public_names_are_at_the_root_too() -> None:
    """U24"""
    assert seglog.__version__ == VERSION
    assert seglog.Producer is seglog.clients.Producer
    for name in seglog.clients.__all__:
        assert getattr(seglog, name) is getattr(seglog.clients, name)
    assert {"__version__", *seglog.clients.__all__} <= set(dir(seglog))
    with pytest.raises(AttributeError, match="no attribute 'producer'"):
        _ = seglog.producer  # type: ignore[attr-defined]  # that is the point


def test_importing_the_root_imports_nothing_else() -> None:
    """The daemon's start and the command line's are counted in milliseconds."""
    code = (
        "import sys; before = set(sys.modules); import seglog; "
        "print(*sorted(set(sys.modules) - before))"
    )
    assert run(code) == "seglog\n"


def test_a_checkout_called_seglog_does_not_hide_the_package(tmp_path: Path) -> None:
    """As a namespace it did: python in the folder above a checkout ran it, without kernels."""
    shadow = tmp_path / "seglog/protocol"
    shadow.mkdir(parents=True)
    (shadow / "__init__.py").write_text("raise RuntimeError('this is the checkout')\n")
    assert run("import seglog.protocol; print('ours')", cwd=tmp_path) == "ours\n"
