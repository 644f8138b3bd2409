"""A copy of the repository as a clone has it, and installations of it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WITHOUT_COMPILER = {"CC": "false", "CXX": "false"}


def files_of_checkout() -> list[str]:
    """Every file that is or would be committed, links included."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [name for name in listing.split("\0") if name and os.path.lexists(ROOT / name)]


def copy_checkout(target: Path, below: Iterable[str] | None = None) -> Path:
    """Copy the repository without what is ignored; ``below`` names files and folders, None: all."""
    wanted = None if below is None else [name.rstrip("/") for name in below]
    for name in files_of_checkout():
        if wanted is not None and not any(
            name == each or name.startswith(f"{each}/") for each in wanted
        ):
            continue
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, place, follow_symlinks=False)
    return target


def run(*command: str | Path, environment: dict[str, str] | None = None, cwd: Path = ROOT) -> str:
    """Run a command that has to succeed; its standard output."""
    finished = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, f"{command}\n{finished.stdout}\n{finished.stderr}"
    return finished.stdout


def install_into_new_environment(
    source: Path, folder: Path, environment: dict[str, str] | None = None
) -> Path:
    """``pip install`` a checkout or a distribution as anybody would; where its programs are."""
    run(sys.executable, "-m", "venv", folder)
    run(folder / "bin/python", "-m", "pip", "install", "-q", source, environment=environment)
    return folder / "bin"
