"""Values as text: parsed as Kafka's configuration parser does, printed as DescribeConfigs does."""

import math
import re
from typing import Any, Final

INT32_MIN: Final = -(2**31)
INT32_MAX: Final = 2**31 - 1
INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
MAX_DOUBLE: Final = 1.7976931348623157e308

_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
# Java prints numbers in this range without an exponent.
_JAVA_PLAIN_MIN = 1e-3
_JAVA_PLAIN_MAX = 1e7


def parse_bool(text: str) -> bool:
    """Read ``true`` or ``false`` in any case."""
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError("it is not true or false")


def parse_integer(text: str) -> int:
    """Read a decimal number; unlike ``int()`` no underscores and no digits beyond ASCII."""
    stripped = text.strip()
    if not _INTEGER.match(stripped):
        raise ValueError("it is not a whole number")
    return int(stripped)


def parse_double(text: str) -> float:
    """Read a finite floating-point number."""
    try:
        value = float(text.strip().replace("_", "?"))
    except ValueError:
        raise ValueError("it is not a number") from None
    if not math.isfinite(value):
        raise ValueError("it is not a finite number")
    return value


def parse_list(text: str) -> tuple[str, ...]:
    """Split at commas; blanks around the parts and empty parts are dropped."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parse_paths(text: str) -> tuple[str, ...]:
    """The same for folders; a slash at the end says nothing, and goes.

    >>> parse_paths("/data/, logs//")
    ('/data', 'logs')
    """
    return tuple(without_last_slash(part) for part in parse_list(text))


def without_last_slash(path: str) -> str:
    """A path that others can be put together from; the root stays."""
    return path.rstrip("/") or "/"


def format_value(value: Any) -> str | None:
    """Print a value as Java does; None stays None, collections are joined by commas."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case float():
            return _format_double(value)
        case frozenset():
            return ",".join(sorted(str(part) for part in value))
        case tuple() if not hasattr(value, "_fields"):
            return ",".join(str(part) for part in value)
    return str(value)


def _format_double(value: float) -> str:
    if value == 0 or _JAVA_PLAIN_MIN <= abs(value) < _JAVA_PLAIN_MAX:
        return repr(value)
    mantissa, _, exponent_text = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    exponent = int(exponent_text or "0") + len(whole) - 1
    if whole == "0":
        exponent -= len(whole + fraction) - len(digits)
    digits = digits.rstrip("0")
    sign = "-" if value < 0 else ""
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"
