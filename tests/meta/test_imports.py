"""Who may import whom (the contracts in pyproject.toml), and what no contract can see."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("broker", "protocol", "clients", "config")
CONNECTING = {
    "create_server",
    "start_server",
    "create_connection",
    "open_connection",
    "create_datagram_endpoint",
    "start_unix_server",
    "open_unix_connection",
    "connect_accepted_socket",
}
LOCKS = {"Lock", "RLock", "get_ident"}
MAY_CONNECT = ("broker/listeners/", "clients/connection.py", "clients/sockets/")


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT), ast.parse(path.read_text())


def test_an_import_goes_against_the_layers() -> None:
    """In a process of its own: the tool switches off every logger of the one it runs in."""
    command = [
        sys.executable,
        "-c",
        "from importlinter.cli import lint_imports_command as run; run()",
    ]
    result = subprocess.run(
        [*command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_contract_has_holes() -> None:
    """An exception to a contract is a contract that nobody keeps."""
    text = (ROOT / "pyproject.toml").read_text()
    contracts = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    assert not [each["name"] for each in contracts if each.get("ignore_imports")]


def test_a_connection_is_opened_anywhere() -> None:
    """asyncio opens sockets for whoever asks; the contracts see only imports of ``socket``."""
    found = [
        f"{path}:{node.lineno} {node.attr}"
        for path, tree in modules()
        if not str(path).startswith(MAY_CONNECT)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in CONNECTING
    ]
    assert not found


def test_storage_and_tools_take_locks_and_start_no_threads() -> None:
    """What is shared by threads has a lock; which thread runs what is decided above."""
    found = []
    for path, tree in modules():
        if not str(path).startswith(("broker/storage/", "broker/tools/")):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "threading":
                found.append(f"{path}:{node.lineno}")
            elif (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "threading"
                and node.attr not in LOCKS
            ):
                found.append(f"{path}:{node.lineno} threading.{node.attr}")
    assert not found


def test_a_package_is_imported_by_its_bare_name() -> None:
    """``import broker`` would work in the checkout, and make a second copy of every class."""
    found = [
        f"{path}:{node.lineno}"
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom | ast.Import)
        and any(name.split(".")[0] in PACKAGES for name in imported_names(node))
    ]
    assert not found


def imported_names(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [alias.name for alias in node.names]


def test_the_compiled_kernel_is_needed() -> None:
    """What chooses between it and the plain twins is in one package; others take what they get."""
    found = [
        f"{path}:{node.lineno}"
        for path, tree in modules()
        if not str(path).startswith("protocol/records/")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom | ast.Import)
        and any(re.search(r"\b_kernel$", name) for name in imported_names(node))
    ]
    assert not found
