"""House rules that a reader would otherwise have to watch for (docs/contributing.md)."""

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60
POSITIONAL_PARAMETERS_MAX = 6
CYTHON_FUNCTION = re.compile(r"^ *def (\w+)\(([^)]*)\)", re.MULTILINE)
VAGUE_NAMES = {"utils.py", "util.py", "helpers.py", "common.py", "misc.py"}
FOLDERS_WITH_TESTS_OR_SCRIPTS = ("tests", "benchmarks", "examples")
PLAIN_PLACES = ("README.md", "CHANGELOG.md", "docs/", "broker/", "clients/", "config/", "protocol/")
INVOLVED = re.compile(
    r"\b(whoever|whomever|nobody|somebody|anybody|everybody|someone|anyone"
    r"|what (?:is|was|are|were))\b",
    re.IGNORECASE,
)
"""Say "the client", "the broker", "the caller", and a noun of the field (docs/contributing.md)."""


@cache
def tracked_files() -> tuple[Path, ...]:
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return tuple(path for name in listing.splitlines() if (path := ROOT / name).is_file())


def sources(*suffixes: str) -> Iterator[Path]:
    for path in tracked_files():
        top = path.relative_to(ROOT).parts[0]
        if path.suffix in suffixes and top not in FOLDERS_WITH_TESTS_OR_SCRIPTS:
            yield path


def test_modules_can_be_read_at_once() -> None:
    crowded = {
        str(path.relative_to(ROOT)): lines
        for path in sources(".py", ".pyi", ".pyx", ".pxi")
        if (lines := path.read_text().count("\n")) > MODULE_LINES_MAX
    }
    assert not crowded


def test_functions_fit_a_screen() -> None:
    crowded = []
    for path in sources(".py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1 - docstring_lines(node)
                if lines > FUNCTION_LINES_MAX:
                    crowded.append(f"{path.relative_to(ROOT)}: {node.name} has {lines} lines")
    assert not crowded


def test_no_function_takes_more_than_six_positional_parameters() -> None:
    crowded = []
    for path in sources(".py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
                count = len(names) - (names[:1] in (["self"], ["cls"]))
                if count > POSITIONAL_PARAMETERS_MAX:
                    crowded.append(f"{path.relative_to(ROOT)}: {node.name} takes {count}")
    for path in sources(".pyx", ".pxi"):
        for name, parameters in CYTHON_FUNCTION.findall(path.read_text()):
            positional = re.split(r"(?:^|,)\s*\*", parameters)[0]
            names = [each for each in positional.split(",") if each.strip() not in ("", "self")]
            if len(names) > POSITIONAL_PARAMETERS_MAX:
                crowded.append(f"{path.relative_to(ROOT)}: {name} takes {len(names)}")
    assert not crowded


def docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = node.body[0]
    is_docstring = (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )
    return (first.end_lineno or 0) - first.lineno + 1 if is_docstring else 0


def test_modules_are_named_after_a_thing() -> None:
    assert not [path for path in tracked_files() if path.name in VAGUE_NAMES]


@pytest.mark.parametrize(
    "pattern",
    [
        # A path of one machine means nothing to whoever reads the repository.
        "/" + r"(work|root|farm)/",
        r"\b(TODO|FIXME|XXX)\b",
    ],
)
def test_no_leftovers_reach_the_repository(pattern: str) -> None:
    found = []
    for path in tracked_files():
        if path == Path(__file__) or path.suffix in {".png", ".gz", ".zip"}:
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        found += [
            f"{path.relative_to(ROOT)}:{number}"
            for number, line in enumerate(text.splitlines(), 1)
            if re.search(pattern, line)
        ]
    assert not found


def test_tests_count_only_their_own_threads() -> None:
    """One of an earlier test that ends between two counts makes them differ: compare who is new
    (tests/support/new_threads.py)."""
    counting = re.compile(r"threading\.active_count\(\)|len\(threading\.enumerate\(\)\)")
    found = [path for path in (ROOT / "tests").rglob("*.py") if counting.search(path.read_text())]
    assert not found


def test_limits_of_time_go_by_the_speed_of_the_machine() -> None:
    """Machines differ threefold: `support.processor_time.in_time` lengthens a limit there."""
    timed = re.compile(
        r"assert [^\n]*(?:monotonic|perf_counter|process_time|\.time)\(\) - \w+ <=? [\d.]"
    )
    found = [path for path in (ROOT / "tests").rglob("*.py") if timed.search(path.read_text())]
    assert not found


TIME_JUMPS = ("tests/unit/clients/",)
"""Their loop jumps over pauses (`support/jumping_loop.py`): a sleep there takes no time."""


def waits_for_time(tree: ast.AST) -> Iterator[ast.Call]:
    """Sleeps, polling, and waits for an event of which the outcome is not looked at."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            call = node.value
            is_wait = isinstance(call.func, ast.Attribute) and call.func.attr == "wait"
            if is_wait and call.args and isinstance(call.args[0], ast.Constant):
                yield call
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            is_turn = bool(node.args) and ast.unparse(node.args[0]) == "0"
            if name == "eventually" or (name in {"time.sleep", "asyncio.sleep"} and not is_turn):
                yield node


@pytest.mark.parametrize(
    "line",
    ["time.sleep(0.1)", "await asyncio.sleep(delay)", "event.wait(0.5)", "eventually(ready)"],
)
def test_waits_for_time_are_recognized(line: str) -> None:
    assert list(waits_for_time(ast.parse(line)))


@pytest.mark.parametrize(
    "line", ["await asyncio.sleep(0)", "assert event.wait(5)", "await asyncio.wait(tasks)"]
)
def test_turns_of_the_loop_and_events_are_no_waits_for_time(line: str) -> None:
    assert not list(waits_for_time(ast.parse(line)))


def test_no_unit_test_sleeps() -> None:
    """Clocks are injected, and a wait is for an event: `assert event.wait(5)`."""
    found = [
        f"{name}:{call.lineno}: {ast.unparse(call)}"
        for path in (ROOT / "tests/unit").rglob("*.py")
        if not (name := path.relative_to(ROOT).as_posix()).startswith(TIME_JUMPS)
        for call in waits_for_time(ast.parse(path.read_text()))
    ]
    assert not found, "\n".join(found)


def test_the_daemon_runs_with_its_assertions() -> None:
    """Our own invariants are asserted: ``-O`` or PYTHONOPTIMIZE would switch them off."""
    for name in ("Dockerfile", "deploy/systemd/seglogd.service", "deploy/compose.yaml"):
        text = (ROOT / name).read_text()
        assert "PYTHONOPTIMIZE" not in text
        assert not re.search(r"python3?\s+-O", text)


def plain_texts() -> Iterator[tuple[Path, str]]:
    for path in tracked_files():
        name = path.relative_to(ROOT).as_posix()
        is_text = path.suffix in {".md", ".py", ".pyi", ".pyx", ".pxi", ".properties"}
        if is_text and any(name == each or name.startswith(each) for each in PLAIN_PLACES):
            yield path, path.read_text()


@pytest.mark.parametrize(
    "line",
    ["Whoever asks is told", "nobody waits", "it reads what is there", "what was written counts"],
)
def test_involved_words_are_recognized(line: str) -> None:
    assert INVOLVED.search(line)


def test_docs_messages_and_comments_use_plain_words() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path, text in plain_texts()
        for number, line in enumerate(text.splitlines(), 1)
        if INVOLVED.search(line)
    ]
    assert not found, "\n".join(found)
