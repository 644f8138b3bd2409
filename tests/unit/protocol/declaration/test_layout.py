"""Variants: one class that lies in several ways on Kafka's wire."""

from seglog.protocol.declaration.fields import array, boolean, int32, since, string
from seglog.protocol.declaration.layout import WireMessage, layout_of, variant
from seglog.protocol.declaration.refusal import refuse
from seglog.protocol.declaration.shape import shape
from seglog.protocol.declaration.versions import version_range
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka import codec


@shape
class Step:
    """A request."""

    name: str = string("0+")
    count: int = int32("1+", default=7)
    is_final: bool = boolean(default=False)


@shape
class StepAnswer:
    """Its answer."""

    name: str = string("0+")
    notes: list[str] = array("string", "0+", default_factory=list)


def wire_of(declared: object) -> WireMessage:
    return WireMessage(
        declared, "Step", api_key=1, versions=version_range("0-1"), flexible=version_range("")
    )


def test_variant_says_what_a_version_means() -> None:
    """What stands where a version lacks a field is the variant's, not that of the class."""
    other = wire_of(
        variant(
            Step,
            name=string("0+"),
            count=int32("1+", default=9),
            is_final=since("0", default=False),
        )
    )
    data = memoryview(b"\0\1n" + bytes(4))
    assert codec.decode_wire(other, 0, data[:3])[0] == Step("n", 9, True)
    assert codec.decode_wire(other, 1, data)[0] == Step("n", 0, False)
    assert codec.decode_wire(wire_of(Step), 0, data[:3])[0] == Step("n", 7, False)


def test_variant_without_fields_lies_as_its_class() -> None:
    """For a second operation with the same answer."""
    assert layout_of(variant(Step)) is layout_of(Step)


def test_variant_is_refused_with_the_constructor_of_its_class() -> None:
    """A default that only the variant does not name is kept; what must be given is taken over."""
    other = layout_of(
        variant(StepAnswer, name=string("0+", default=""), notes=array("string", "0+"))
    )
    refused = refuse(other, layout_of(Step), Step("n"), ErrorCode.INVALID_REQUEST, None)
    assert refused == StepAnswer("n", [])
