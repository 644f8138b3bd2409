"""Declared requests and responses as messages of the native dialect."""

from typing import Any, Final

from seglog.protocol.declaration.fields import Field
from seglog.protocol.declaration.layout import SINGLE, TUPLE, Layout, element_layout, layout_of
from seglog.protocol.errors import ErrorCode
from seglog.protocol.native import fields as native
from seglog.protocol.native.schema import Message

_PLAIN: Final = {
    "boolean": native.BOOLEAN,
    "int8": native.INT16,
    "int16": native.INT16,
    "int32": native.INT32,
    "int64": native.INT64,
    "float64": native.FLOAT,
    "string": native.STRING,
    "binary": native.BYTES,
    "uuid": native.TOPIC_ID,
    "records": native.RECORDS,
}


class DeclaredMessage(Message):
    """The wire form of a class that ``shape`` made: its fields in the order of the class."""

    __slots__ = ()

    def __init__(self, shape: type[Any]) -> None:
        # The columns wait for the first request of this kind: most processes see few of them.
        self.shape = shape

    def __getattr__(self, name: str) -> Any:
        if name not in ("_columns", "_required"):
            raise AttributeError(name)
        shape: Any = self.shape
        Message.__init__(self, shape, **_columns(layout_of(shape)))
        return getattr(self, name)


def _columns(layout: Layout) -> dict[str, native.Field]:
    return {each.attribute: _native_field(each) for each in layout.own if each.native}


def _native_field(each: Field) -> native.Field:
    """How the native dialect packs the values of a field."""
    if isinstance(each.native, str):
        return _native_array(each) if each.native == "array" else _PLAIN[each.native]
    if each.enum is ErrorCode:
        return native.ERROR
    if each.enum is not None:
        plain = native.enum_of(each.enum, open_ended=each.is_open)
    elif each.kind == "array":
        plain = _native_array(each)
    elif each.kind == "struct":
        plain = _native_struct(element_layout(each))
    else:
        plain = _PLAIN[each.kind]
    can_be_none = each.nullable or each.default is None
    return native.nullable(plain) if can_be_none and each.kind != "records" else plain


def _native_array(each: Field) -> native.Field:
    layout = element_layout(each)
    if each.is_mapping:
        assert layout is not None
        return native.dict_of(*(_native_field(inner) for inner in layout.own))
    return native.list_of(_PLAIN[each.element] if layout is None else _native_struct(layout))


def _native_struct(layout: Layout | None) -> native.Field:
    assert layout is not None
    if layout.form == TUPLE:
        return native.tuple_of(*(_native_field(each) for each in layout.own))
    if layout.form == SINGLE:
        return _native_field(layout.own[0])
    assert layout.made is not None
    return DeclaredMessage(layout.made).field
