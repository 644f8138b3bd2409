"""The page about the tests (tests/README.md) names the helpers and fixtures that there are."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PAGE = (TESTS / "README.md").read_text()


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_page_lists_each_helper_once_and_no_other() -> None:
    support = TESTS / "support"
    modules = {
        path.relative_to(support).with_suffix("").as_posix()
        for path in support.rglob("*.py")
        if path.name != "__init__.py"
    }
    listed = re.findall(r"^\| `([\w/]+)` \|", section("Helpers"), re.MULTILINE)
    assert sorted(listed) == sorted(modules)


def test_page_names_the_fixtures_of_each_folder() -> None:
    rows = dict(re.findall(r"^\| `([\w/.]+)` \| (.*) \|$", section("Fixtures"), re.MULTILINE))
    for path in TESTS.rglob("conftest.py"):
        folder = path.parent.relative_to(TESTS).as_posix()
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                is_fixture = any("fixture" in ast.unparse(each) for each in node.decorator_list)
                if is_fixture and not node.name.startswith("_"):
                    assert f"`{node.name}`" in rows[folder], (folder, node.name)
