"""What docs/contributing.md shows about adding an operation is a whole declaration."""

import re
from pathlib import Path
from typing import Any

from seglog.protocol import api
from seglog.protocol.declaration import fields, keys, layout, operation, shape
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka.declared import DeclaredOperation
from seglog.protocol.native.declared import DeclaredMessage
from seglog.protocol.native.frames import RecordCursor, RecordSink

PAGE = Path(__file__).resolve().parents[4] / "docs" / "contributing.md"


def declared_on_the_page() -> dict[str, Any]:
    """The names that the example defines; a typing error in it raises here."""
    section = PAGE.read_text().split("## Adding an operation", 1)[1]
    (example,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    names: dict[str, Any] = {"ErrorCode": ErrorCode, "Final": Any, "__name__": __name__}
    for module in (fields, keys, layout, operation, shape):
        names |= vars(module)
    exec(example, names)
    return names


def test_example_of_the_page_is_the_operation_of_the_broker() -> None:
    """Its bytes, its array and its refusal are those of OffsetDelete."""
    names = declared_on_the_page()
    (shown,) = (DeclaredOperation(each) for each in names["OPERATIONS"])
    real = next(each for each in api.OPERATIONS if each.key is api.ApiKey.OFFSET_DELETE)
    spoken = DeclaredOperation(real)
    values = ([("a", 1), ("b", 2), ("a", 3)], ErrorCode.NONE, 7)
    results = [names["OffsetDeleteResult"](topic, index) for topic, index in values[0]]
    expected = [api.OffsetDeleteResult(topic, index) for topic, index in values[0]]
    encoded = shown.encode(names["OffsetDeleteResponse"](results, *values[1:]), 0)
    assert encoded == spoken.encode(api.OffsetDeleteResponse(expected, *values[1:]), 0)

    body = memoryview(bytes.fromhex("000167 00000001 000161 00000002 00000001 00000003"))
    request = shown.decode(body, 0, 0)
    assert (request.group_id, request.partitions) == ("g", [("a", 1), ("a", 3)])
    refusal = shown.fail(request, ErrorCode.NOT_COORDINATOR, None)
    (part,) = shown.encode(refusal, 0)
    assert bytes(part)[:2] == b"\0\x10"  # type: ignore[arg-type]  # no file

    message = DeclaredMessage(names["OffsetDeleteRequest"])
    array = message.pack(request, RecordSink())
    assert array == ["g", [["a", 1], ["a", 3]]]
    assert message.unpack(array, RecordCursor(memoryview(b""), 0, 0)) == request
