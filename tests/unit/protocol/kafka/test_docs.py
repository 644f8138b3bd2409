"""The page about the dialect lists the operations that there are."""

from pathlib import Path

from seglog.protocol.api import ApiKey
from seglog.protocol.kafka.messages.api_versions import ApiVersionsRequest
from seglog.protocol.kafka.operations import ALL_OPERATIONS

PAGE = Path(__file__).resolve().parents[4] / "docs" / "kafka-dialect.md"
START = "<!-- operations: checked by tests/unit/protocol/kafka/test_docs.py -->\n\n"
END = "\n<!-- end of operations -->"


def expected_table() -> str:
    """The table as it must be in the page."""
    messages = {int(each.key): (each.request, each.served) for each in ALL_OPERATIONS}
    asked = ApiVersionsRequest.__message__
    messages[int(ApiKey.API_VERSIONS)] = (asked, asked.versions)
    lines = ["| key | operation | versions | flexible from |", "| ---: | --- | --- | --- |"]
    for key in sorted(messages):
        message, served = messages[key]
        name = message.name.removesuffix("Request")
        flexible = str(message.flexible.first) if message.flexible else "never"
        lines.append(f"| {key} | {name} | {served} | {flexible} |")
    return "\n".join(lines) + "\n"


def test_page_lists_other_operations_than_there_are() -> None:
    """Copy the expected text from the failure into the page."""
    text = PAGE.read_text()
    table = text[text.index(START) + len(START) : text.index(END)]
    assert table == expected_table()
