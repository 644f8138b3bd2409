"""The examples of docs/clients.md, run as they stand there, one behind the other."""

import re
from pathlib import Path

from seglog.clients.testing import running_broker

PAGE = Path(__file__).resolve().parents[2] / "docs" / "clients.md"


def test_an_example_does_not_work():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) > 6
    names = {}
    with running_broker() as broker:
        try:
            for block in blocks:
                code = block.replace("127.0.0.1:9092", broker.address)
                exec(compile(code, f"{PAGE.name}: {block.splitlines()[0]}", "exec"), names)
        finally:
            if "admin" in names:
                names["admin"].close()
