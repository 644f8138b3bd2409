"""The blocking clients are what is made from the asyncio ones, and nothing is missing in them."""

import ast
import importlib
import inspect

import pytest

from seglog.clients.blocking.generate import (
    SOURCES,
    BlockingSource,
    blocking_module,
    hand_written,
    methods_of,
    reworded,
)

each_client = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)


def _twins(source: BlockingSource) -> tuple[type, type]:
    clients = importlib.import_module("seglog.clients")
    return getattr(clients, f"Async{source.name}"), getattr(clients, source.name)


@each_client
def test_the_modules_are_up_to_date(source: BlockingSource) -> None:
    """Remedy: python -m seglog.clients.blocking.generate."""
    assert source.path.read_text() == blocking_module(source)


@each_client
def test_every_operation_has_the_same_arguments_and_the_same_words(source: BlockingSource) -> None:
    """What is written by hand is a second place to change: this fails where that is forgotten."""
    twin, client = _twins(source)
    inherited = {name for base in twin.__mro__[:-1] for name in vars(base)}
    public = {name for name in inherited if not name.startswith("_")} - source.internal - {"start"}
    operations = {name for name in public if callable(getattr(twin, name, None))}
    assert operations, source
    words = hand_written(source)
    for name in operations:
        mine, theirs = getattr(client, name), getattr(twin, name)
        ours, its = (
            [(p.name, p.kind, p.default) for p in inspect.signature(f).parameters.values()]
            for f in (mine, theirs)
        )
        assert ours == its, name
        if name in words and name != "close":
            assert words[name] == inspect.cleandoc(reworded(theirs.__doc__)), name


@each_client
def test_nothing_loads_the_generator_at_run_time(source: BlockingSource) -> None:
    for path in source.path.parent.glob("*.py"):
        tree = ast.parse(path.read_text())
        modules = [each.module for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)]
        assert "seglog.clients.blocking.generate" not in modules, path


def test_a_forwarder_passes_every_argument_on() -> None:
    admin = next(source for source in SOURCES if source.name == "Admin")
    tree = ast.parse(blocking_module(admin))
    (client,) = (each for each in tree.body if isinstance(each, ast.ClassDef))
    methods = dict(methods_of(client))
    create = methods["create_topic"]
    (call,) = (
        each
        for each in ast.walk(create)
        if isinstance(each, ast.Call) and ast.unparse(each.func) == "self._twin.create_topic"
    )
    assert [ast.unparse(each) for each in call.args] == ["name", "partitions"]
    assert {each.arg for each in call.keywords} == {each.arg for each in create.args.kwonlyargs}
