"""What compiled decoders call where a byte is unusual, and how small a struct can be."""

import struct
from functools import cache
from typing import NoReturn

from seglog.protocol.declaration.fields import FIXED_FORMATS, Field
from seglog.protocol.declaration.layout import Layout, element_layout, topic_layout
from seglog.protocol.kafka.source import MalformedError
from seglog.protocol.limits import MAX_ARRAY_ELEMENTS, MAX_TAGGED_FIELDS


def long_varint(buffer: memoryview, position: int, low: int) -> tuple[int, int]:
    """Finish an unsigned varint whose first byte ``low``, just before ``position``, was over 127.

    Raises:
        MalformedError: it takes more than five bytes or exceeds 32 bits.
    """
    value = low & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, position
    raise MalformedError("a varint is longer than 32 bits")


def skip_tagged(buffer: memoryview, position: int, end: int) -> int:
    """Step over a tagged block in which no tag is known."""
    count = buffer[position]
    position += 1
    if count > 0x7F:
        count, position = long_varint(buffer, position, count)
    check_tag_count(count)
    for _ in range(count):
        _tag, size, position = read_tag(buffer, position, end)
        position += size
    return position


def read_tag(buffer: memoryview, position: int, end: int) -> tuple[int, int, int]:
    """Read the tag and the size of a tagged field; returns them and where its data starts."""
    tag = buffer[position]
    position += 1
    if tag > 0x7F:
        tag, position = long_varint(buffer, position, tag)
    size = buffer[position]
    position += 1
    if size > 0x7F:
        size, position = long_varint(buffer, position, size)
    if size > end - position:
        raise MalformedError(f"tagged field {tag} of {size} bytes, {end - position} are left")
    return tag, size, position


def check_tag_count(count: int) -> None:
    """Refuse a tagged block with an absurd number of fields."""
    if count > MAX_TAGGED_FIELDS:
        raise MalformedError(f"{count} tagged fields, at most {MAX_TAGGED_FIELDS} are allowed")


def refuse_length(length: int, left: int) -> NoReturn:
    """Refuse a negative length (null where null is not allowed, or nonsense) or one too large."""
    if length == -1:
        raise MalformedError("null is not allowed")
    raise MalformedError(f"length {length}, {left} bytes are left")


def refuse_count(count: int, left: int) -> NoReturn:
    """Refuse a number of array elements that is negative, over the limit, or cannot fit."""
    if count == -1:
        raise MalformedError("null is not allowed")
    raise MalformedError(
        f"{count} array elements in {left} bytes; at most {MAX_ARRAY_ELEMENTS} are allowed"
    )


def refuse_tag_size(announced: int, actual: int) -> NoReturn:
    """Refuse a tagged field whose data is not as long as it was announced."""
    raise MalformedError(f"tagged field of {actual} bytes was announced with {announced}")


def refuse_number(number: int, enum: type) -> NoReturn:
    """Refuse a number that stands for nothing."""
    raise MalformedError(f"{number} is no {enum.__name__}")


@cache
def minimum_size(layout: Layout, version: int, flexible: bool) -> int:
    """The fewest bytes that one struct takes on the wire; outer fields are not in it."""
    size = sum(
        _minimum_field_size(place.field, version, flexible)
        for place in layout.carried(version)
        if place.field.is_plain_in(version)
    )
    return max(1, size + flexible)


def _minimum_topic_size(layout: Layout, version: int, flexible: bool) -> int:
    fields = [each for each in layout.fields if each.is_plain_in(version)]
    return flexible + sum(_minimum_field_size(each, version, flexible) for each in fields)


def _minimum_field_size(each: Field, version: int, flexible: bool) -> int:
    if each.kind in FIXED_FORMATS:
        return struct.calcsize(">" + FIXED_FORMATS[each.kind])
    if each.kind == "uuid":
        return 16
    if each.kind == "struct":
        if version in each.nullable:
            return 1
        return minimum_size(struct_of(each), version, flexible)
    if flexible:
        return 1
    return 2 if each.kind == "string" else 4


def minimum_element_size(each: Field, version: int, flexible: bool) -> int:
    """The fewest bytes that one element of an array takes."""
    if each.group is not None:
        return _minimum_topic_size(topic_layout(each), version, flexible)
    if not isinstance(each.element, str):
        return minimum_size(struct_of(each), version, flexible)
    if each.element == "string":
        return 1 if flexible else 2
    return 16 if each.element == "uuid" else struct.calcsize(">" + FIXED_FORMATS[each.element])


def struct_of(each: Field) -> Layout:
    """The layout of the elements of a field that has structs."""
    layout = element_layout(each)
    assert layout is not None, each.name
    return layout
