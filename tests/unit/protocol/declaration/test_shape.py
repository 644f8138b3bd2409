"""The classes of requests and responses are dataclasses in all that matters."""

import copy
import dataclasses
import pickle
import types

import pytest

from seglog.protocol import api
from seglog.protocol.declaration.shape import field, shape

SHAPES = [
    each for each in vars(api).values() if isinstance(each, type) and dataclasses.is_dataclass(each)
]


@shape
class Sample:
    """All kinds of fields."""

    name: str
    size: int = 3
    tags: list[str] = field(default_factory=list)


def test_first_and_later_objects_are_made_alike() -> None:
    """The first one comes through a constructor that is not compiled yet."""

    @shape
    class Fresh:
        """Nobody has made one."""

        a: int
        b: list[int] = field(default_factory=list)

    first, second = Fresh(1), Fresh(a=1, b=[])
    assert first == second
    assert first.b is not second.b
    assert isinstance(Fresh.__init__, types.FunctionType)
    assert Fresh.__init__.__defaults__ is not None


def test_wrong_arguments_are_refused() -> None:
    for wrong in ((), ("a", 1, [], 4)):
        with pytest.raises(TypeError):
            Sample(*wrong)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(TypeError):
        Sample("a", colour=1)  # type: ignore[call-arg]  # that is the point


def test_objects_are_compared_by_value_and_have_only_their_fields() -> None:
    sample = Sample("a", 4, ["x"])
    assert sample == Sample("a", 4, ["x"])
    assert sample != Sample("a", 5, ["x"])
    assert sample != ("a", 4, ["x"])
    with pytest.raises(TypeError):
        hash(sample)
    with pytest.raises(AttributeError):
        sample.colour = 1  # type: ignore[attr-defined]  # that is the point
    assert repr(sample) == "Sample(name='a', size=4, tags=['x'])"


def test_objects_can_be_copied_and_changed() -> None:
    sample = Sample("a", 4, ["x"])
    assert dataclasses.replace(sample, size=5) == Sample("a", 5, ["x"])
    assert copy.deepcopy(sample) == sample
    assert pickle.loads(pickle.dumps(sample)) == sample
    assert [each.name for each in dataclasses.fields(sample)] == ["name", "size", "tags"]


@pytest.mark.parametrize("declared", SHAPES, ids=lambda each: each.__name__)
def test_every_shape_takes_its_fields_in_their_order(declared: type) -> None:
    """Hot paths name no fields."""
    fields = dataclasses.fields(declared)
    values = [object() for _ in fields]
    made = declared(*values)
    assert [getattr(made, each.name) for each in fields] == values
    least = [
        each
        for each in fields
        if each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING
    ]
    made = declared(*values[: len(least)])
    for each in fields[len(least) :]:
        if each.default_factory is not dataclasses.MISSING:
            assert getattr(made, each.name) == each.default_factory()
        else:
            assert getattr(made, each.name) == each.default
