"""Writes the blocking clients; ``python -m seglog.clients.blocking.generate`` does it.

Each public method of an asyncio client becomes a method with the same signature and docstring that
runs it on the client's thread. What has to be different is written by hand in the base class, and
left out here. Nothing imports this module at run time; it needs ``ruff``, which formats the result.
"""

import ast
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Final, NamedTuple

_CLIENTS: Final = Path(__file__).resolve().parents[1]
_INDENT: Final = " " * 4
_WIDTH: Final = 100
_REWORDED: Final = (
    ("``async with\n    producer.transaction()``", "``with producer.transaction()``"),
    ("listener: is told when partitions come and go.",
     "listener: is told when partitions come and go, in the thread that reads."),
    ("acknowledgement, to be awaited.", "acknowledgement."),
    ("; awaited, it gives their number", "; its result is their number"),
)  # fmt: skip
"""What a docstring says of event loops, and what it says in a program without one."""


class BlockingSource(NamedTuple):
    """How one blocking client is made.

    Attributes:
        name: of the class; the asyncio client has ``Async`` in front of it.
        summary: the docstring of the module.
        paths: of the modules with the asyncio client, under ``clients``; the client first, then
            the classes that it inherits from.
        base: module and name of the class with the hand-written part.
        sharing: how many threads may use it.
        internal: public methods that only the clients themselves call.
    """

    name: str
    summary: str
    paths: tuple[str, ...]
    base: tuple[str, str]
    sharing: str = "Threads may share it."
    internal: frozenset[str] = frozenset()

    @property
    def path(self) -> Path:
        """Of the module that is written."""
        return _CLIENTS / "blocking" / f"{self.name.lower()}.py"


SOURCES: Final = (
    BlockingSource(
        "Admin",
        "``Admin``: topics, configurations, offsets and housekeeping, from threads.",
        ("admin.py", "transaction_tools.py"),
        ("facade", "BlockingClient"),
    ),
    BlockingSource(
        "Consumer",
        "``Consumer``: reads records in order, from a thread.",
        ("consumer/consumer.py", "consumer/core.py"),
        ("reading", "BlockingReader"),
        "One thread reads at a time.",
        frozenset(
            {
                "deadline_s",
                "forget_end",
                "poll",
                "read_some",
                "serve_group",
                "shut",
                "stop_at_present_end",
                "take_back",
                "wait_for_data",
            }
        ),
    ),
    BlockingSource(
        "Producer",
        "``Producer``: sends records in batches, from threads.",
        ("producer/producer.py", "producer/transactional_steps.py"),
        ("sending", "BlockingSender"),
        internal=frozenset(
            {
                "find_target",
                "known_target",
                "raise_unseen_error",
                "refuse",
                "room_error",
                "send_and_wait",
            }
        ),
    ),
)
_LIFETIME: Final = re.compile(
    r"``async with``,\s+or\s+call\s+``start``\s+and\s+``close``\.(\s+One task reads at a time\.)?"
)
_LIFE: Final = frozenset({"start", "close"})
"""What the base classes do with the thread."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def blocking_module(source: BlockingSource) -> str:
    """The text of the module with a blocking client."""
    trees = [ast.parse((_CLIENTS / path).read_text()) for path in source.paths]
    classes = [_main_class(tree) for tree in trees]
    methods = {name: method for each in reversed(classes) for name, method in methods_of(each)}
    by_hand = hand_written(source)
    head = f"class {source.name}({_base_text(source)}):"
    parts = [
        f'"""{source.summary}"""\n\n# Made by python -m seglog.clients.blocking.generate.\n',
        _imports(source, trees),
        f"{head}\n{_class_docstring(source, classes[0], methods['start'])}\n",
        _constructor(source, methods["__init__"]),
    ]
    parts += [
        _forwarder(method)
        for each in classes
        for name, method in methods_of(each)
        if not name.startswith("_") and name not in {*source.internal, *_LIFE, *by_hand}
    ]
    return _formatted("\n".join(parts), source.path)


def hand_written(source: BlockingSource) -> dict[str, str]:
    """The docstrings of the public methods that the base class has, by name."""
    tree = ast.parse((_CLIENTS / "blocking" / f"{source.base[0]}.py").read_text())
    base = next(
        each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == source.base[1]
    )
    return {name: ast.get_docstring(method) or "" for name, method in methods_of(base)}


def reworded(docstring: str) -> str:
    """A docstring of an asyncio client, for a program without an event loop."""
    for before, after in _REWORDED:
        docstring = docstring.replace(before, after)
    return docstring


def methods_of(owner: ast.ClassDef) -> list[tuple[str, _Function]]:
    """The methods of a class, in the order of the source."""
    return [
        (each.name, each)
        for each in owner.body
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]


def _main_class(tree: ast.Module) -> ast.ClassDef:
    return next(
        each
        for each in tree.body
        if isinstance(each, ast.ClassDef) and not each.name.startswith("_")
        if any(isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)) for item in each.body)
    )


def _base_text(source: BlockingSource) -> str:
    base = source.base[1]
    return f"{base}[Async{source.name}]" if base == "BlockingClient" else base


def _imports(source: BlockingSource, trees: list[ast.Module]) -> str:
    """Every import that the asyncio modules have; ``ruff`` removes those that are not needed."""
    async_module = source.paths[0].removesuffix(".py").replace("/", ".")
    names = [
        ("typing", "TYPE_CHECKING"),
        (f"seglog.clients.blocking.{source.base[0]}", source.base[1]),
        (f"seglog.clients.{async_module}", f"Async{source.name}"),
    ]
    typing_only: list[tuple[str, str]] = []
    for path, tree in zip(source.paths, trees, strict=True):
        module = "seglog.clients." + path.removesuffix(".py").replace("/", ".")
        names += [(module, target.id) for each in tree.body for target in _constants(each)]
        names += _imported(tree.body)
        for each in tree.body:
            if isinstance(each, ast.If) and ast.unparse(each.test) == "TYPE_CHECKING":
                typing_only += _imported(each.body)
    lines = [f"from {module} import {name}" for module, name in names]
    lines.append("if TYPE_CHECKING:")
    lines += [f"{_INDENT}from {module} import {name}" for module, name in typing_only]
    return "\n".join(lines) + "\n"


def _imported(statements: list[ast.stmt]) -> list[tuple[str, str]]:
    return [
        (each.module, name.name)
        for each in statements
        if isinstance(each, ast.ImportFrom) and each.module is not None
        for name in each.names
    ]


def _constants(statement: ast.stmt) -> list[ast.Name]:
    targets: list[ast.expr] = []
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    elif isinstance(statement, ast.Assign):
        targets = statement.targets
    return [each for each in targets if isinstance(each, ast.Name) and each.id[0] != "_"]


def _class_docstring(source: BlockingSource, owner: ast.ClassDef, start: _Function) -> str:
    """That of the asyncio client, which raises in ``start`` what this one raises when made."""
    text = reworded(ast.get_docstring(owner, clean=False) or "").rstrip()
    text, found = _LIFETIME.subn(f"``with``, or call ``close``. {source.sharing}", text)
    assert found == 1, f"Async{source.name}: no sentence about async with, start and close"
    raised = (ast.get_docstring(start) or "").partition("Raises:\n")[2]
    return f'{_INDENT}"""{_rewrapped(text)}\n{textwrap.indent(raised, _INDENT)}\n{_INDENT}"""\n'


def _rewrapped(docstring: str) -> str:
    """The same with every paragraph of prose in lines of the usual width."""
    parts = docstring.split("\n\n")
    return "\n\n".join(
        part if re.search(r"^ *\w+:$", part, re.MULTILINE) or index == 0 else _wrapped(part)
        for index, part in enumerate(parts)
    )


def _wrapped(paragraph: str) -> str:
    words = " ".join(paragraph.split())
    return textwrap.fill(
        words,
        _WIDTH,
        initial_indent=_INDENT,
        subsequent_indent=_INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _constructor(source: BlockingSource, method: _Function) -> str:
    call = f"Async{source.name}({_passed_on(method.args)})"
    thread = f"seglog-{source.name.lower()}"
    return f'{_signature(method)}\n{_INDENT * 2}super().__init__({call}, "{thread}")\n'


def _forwarder(method: _Function) -> str:
    """A method that runs the asyncio client's on the client's thread."""
    docstring = reworded(ast.get_docstring(method, clean=False) or "")
    passed = _passed_on(method.args)
    call = f"self._twin.{method.name}({passed})"
    decorators = [ast.unparse(each) for each in method.decorator_list]
    if decorators == ["property"]:
        body = f"return self._twin.{method.name}"
    else:
        assert not decorators, f"{method.name}: write it by hand, for {decorators}"
        is_async = isinstance(method, ast.AsyncFunctionDef)
        function = f"lambda: {call}" if passed else call.removesuffix("()")
        body = f"self._call({call})" if is_async else f"self._call_on_loop({function})"
        if method.returns is not None and ast.unparse(method.returns) != "None":
            body = f"return {body}"
    head = "".join(f"{_INDENT}@{each}\n" for each in decorators) + _signature(method)
    return f'{head}\n{_INDENT * 2}"""{docstring}"""\n{_INDENT * 2}{body}\n'


def _signature(method: _Function) -> str:
    returns = "" if method.returns is None else f" -> {ast.unparse(method.returns)}"
    return f"{_INDENT}def {method.name}({ast.unparse(method.args)}){returns}:"


def _passed_on(arguments: ast.arguments) -> str:
    """The arguments of a call with the parameters of a signature."""
    passed = [each.arg for each in (*arguments.posonlyargs, *arguments.args)][1:]
    passed += [f"{each.arg}={each.arg}" for each in arguments.kwonlyargs]
    if arguments.kwarg is not None:
        passed.append(f"**{arguments.kwarg.arg}")
    return ", ".join(passed)


def _formatted(text: str, path: Path) -> str:
    ruff = Path(sys.executable).with_name("ruff")
    for command in (
        ("check", "--quiet", "--select", "F401,F811,TC005", "--fix"),
        ("check", "--quiet", "--select", "I001", "--fix"),
        ("format", "--quiet"),
    ):
        text = subprocess.run(  # noqa: S603 - our own formatter, on our own text
            [ruff, *command, "--stdin-filename", path, "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            cwd=_CLIENTS.parent,
        ).stdout
    return text


def main() -> None:
    """Write the modules."""
    for source in SOURCES:
        source.path.write_text(blocking_module(source))


if __name__ == "__main__":
    main()
