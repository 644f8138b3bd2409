"""The response that refuses a whole request, derived from the declarations of the two.

Every error code gets the error, ``error_message`` the text. A list that ``answers`` one of the
request has a result for each element of that. What names an element (its required and its outer
fields) is taken from there, everything else has its default.
"""

from typing import Any

from seglog.protocol.declaration.fields import PLAIN_DEFAULTS, Field
from seglog.protocol.declaration.layout import CLASS, TUPLE, Layout, element_layout
from seglog.protocol.errors import ErrorCode


def refuse(
    response: Layout, request: Layout, asked: Any, error: ErrorCode, text: str | None
) -> Any:
    """The object of ``response`` that refuses ``asked``, which is one of ``request``."""
    named = _named_values(response, request, asked)
    values: dict[str, Any] = {}
    for each in response.own:
        name = each.attribute
        if each.enum is ErrorCode:
            values[name] = error
        elif name == "error_message":
            values[name] = text
        elif each.answers:
            asked_list = next(other for other in request.own if other.attribute == each.answers)
            values[name] = _refuse_all(each, asked_list, named[each.answers], error, text)
        elif each.kind == "array":
            if each.is_required:
                values[name] = []
        elif name in named and (each.is_required or each.is_outer or each.is_echoed):
            values[name] = named[name]
        elif each.is_required:
            values[name] = PLAIN_DEFAULTS.get(each.kind, each.default)
    assert response.made is not None
    return response.made(**values)


def _refuse_all(
    results: Field, asked_list: Field, asked: Any, error: ErrorCode, text: str | None
) -> list[Any]:
    layout = element_layout(results)
    assert layout is not None
    of_request = element_layout(asked_list) or Layout(asked_list.name, (), "")
    return [refuse(layout, of_request, each, error, text) for each in asked or ()]


def _named_values(response: Layout, request: Layout, asked: Any) -> dict[str, Any]:
    """The values of a request or of an element of it, by their names in the response."""
    if request.form == CLASS:
        return {each.attribute: getattr(asked, each.attribute) for each in request.own}
    if request.form == TUPLE:
        return dict(zip((each.attribute for each in request.own), asked, strict=True))
    # A plain value names the element, as the first field of its result does.
    return {response.own[0].attribute: asked}
