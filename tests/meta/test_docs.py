"""The documentation says what is true, as far as a test can tell."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from seglog.protocol.records.batch import RecordBatch
from seglog.protocol.records.builder import build_batch

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SOURCE_FOLDERS = ("broker", "protocol", "clients", "config", "tests", "benchmarks", "examples")
SOURCE_SUFFIXES = {".py", ".pyx", ".pxi", ".pyi"}
CLEANER_GROUPS = ("CLN", "CMAP", "KEEP", "SEG")
STATEMENT = re.compile(
    r"\b(APP|TS|CMP|IDEM|TXN|ROLL|IDX|TIX|READ|LIST|HW|RET|DEL|TRUNC|REC|EPOCH|SNAP|FLUSH|MGR|FETCH"
    r"|SESS|INV|CLN|CMAP|KEEP|SEG)-([0-9]+)((?:(?:, | to |\.\.)[0-9]+\b)*)"
)
CASE = re.compile(r"\bC[0-9]{3}\b")


def source_texts() -> Iterator[tuple[Path, str]]:
    for folder in SOURCE_FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SOURCE_SUFFIXES and path != Path(__file__):
                yield path.relative_to(ROOT), path.read_text()


def statements_in(text: str) -> Iterator[str]:
    for group, first, more in STATEMENT.findall(text):
        yield f"{group}-{first}"
        yield from (f"{group}-{number}" for number in re.findall("[0-9]+", more))


def definitions(page: str) -> list[str]:
    return re.findall(r"^- \*\*([A-Z]+-[0-9]+)\*\* ", (DOCS / page).read_text(), re.MULTILINE)


def test_cited_statements_are_explained() -> None:
    defined = {*definitions("log-behaviour.md"), *definitions("log-cleaner.md")}
    unexplained = {
        (str(path), statement)
        for path, text in source_texts()
        for statement in statements_in(text)
        if statement not in defined
    }
    assert not unexplained, sorted(unexplained)


def test_statements_stand_once_on_the_right_page() -> None:
    counts = Counter([*definitions("log-behaviour.md"), *definitions("log-cleaner.md")])
    assert not [statement for statement, count in counts.items() if count > 1]
    assert all(each.startswith(CLEANER_GROUPS) for each in definitions("log-cleaner.md"))
    assert not [each for each in definitions("log-behaviour.md") if each.startswith(CLEANER_GROUPS)]


def test_cited_cases_are_explained() -> None:
    defined = set(
        re.findall(r"^\| (C[0-9]{3}) \|", (DOCS / "field-cases.md").read_text(), re.MULTILINE)
    )
    cited = {case for _, text in source_texts() for case in CASE.findall(text)}
    assert cited - defined == set()


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_links_of_the_documentation_lead_somewhere(page: Path) -> None:
    check_links(page)


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md"])
def test_links_of_the_first_pages_lead_somewhere(name: str) -> None:
    check_links(ROOT / name)


def test_every_page_is_linked_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    assert not [page.name for page in DOCS.glob("*.md") if f"(docs/{page.name})" not in readme]


def check_links(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        path = (page.parent / file) if file else page
        if not path.exists() or (anchor and anchor not in anchors_of(path)):
            broken.append(target)
    assert not broken


def anchors_of(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", title.lower()) for title in titles)
    return {title.replace(" ", "-") for title in plain}


def test_files_that_the_documentation_names_exist() -> None:
    """Paths in back-quotes that begin with one of our folders."""
    pattern = re.compile(
        r"`((?:broker|protocol|clients|config|deploy|docs|tests|benchmarks|examples)/[\w./-]*)`"
    )
    missing = [
        f"{page.name}: {path}"
        for page in [*DOCS.glob("*.md"), ROOT / "README.md"]
        for path in pattern.findall(page.read_text())
        if not (ROOT / path).exists()
    ]
    assert not missing


def test_pages_that_the_code_cites_exist() -> None:
    missing = {
        (str(path), page)
        for path, text in source_texts()
        for page in re.findall(r"(?:[\w./-]*/)?[\w-]+\.md\b", text)
        if not (ROOT / page).exists() and not (DOCS / page).exists()
    }
    assert not missing


def test_the_example_of_a_batch_is_the_stored_one() -> None:
    text = (DOCS / "storage-format.md").read_text()
    found = re.search(r"checked by tests/meta/test_docs\.py -->\s+```\n(.+?)```", text, re.DOTALL)
    assert found
    example = bytes.fromhex(found[1])
    built = build_batch([(1700000000000, b"k", b"v", ())], base_offset=5, leader_epoch=0)
    assert example == bytes(built)
    [record] = RecordBatch(example).records()
    assert (record.offset, record.key, record.value) == (5, b"k", b"v")
