"""Times as people write them on a command line."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from seglog.protocol.types import INT64_MAX

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ISO: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?P<zone>Z|[+-]\d{2}:?\d{2})?)?",
    re.ASCII,
)
_MARKED_MS: Final = re.compile(r"@(\d{1,19})|(\d{1,19})ms", re.ASCII)
_DURATION: Final = re.compile(
    r"P(?=\d|T\d)(?:(\d{1,7})D)?"
    r"(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,12}(?:\.\d{1,6})?)S)?)?",
    re.ASCII,
)
_BARE_MS: Final = re.compile(r"\d{1,19}", re.ASCII)
FORMS: Final = (
    "2013-07-04T00:00Z (or +02:00; UTC if there is no zone), 2013-07-04, now, "
    "or milliseconds since 1970 as @1372896000000"
)


class Moment(NamedTuple):
    """A point in time.

    Attributes:
        timestamp_ms: since 1970, rounded up to whole milliseconds.
        assumed_zone: whether no zone was written, so that UTC was taken.
    """

    timestamp_ms: int
    assumed_zone: bool = False


def parse_moment(text: str, now_ms: int, *, bare_number: bool = False) -> Moment:
    """Read a time: ISO 8601 (extended form), ``@`` and milliseconds since 1970, or ``now``.

    Args:
        text: the written text.
        now_ms: what ``now`` means.
        bare_number: whether a number without ``@`` is milliseconds, too.

    Raises:
        ValueError: it is no time; says which forms there are.

    >>> parse_moment("2013-07-04T00:00Z", 0).timestamp_ms
    1372896000000
    """
    if text == "now":
        return Moment(now_ms)
    marked = _MARKED_MS.fullmatch(text)
    if marked is not None:
        return Moment(_checked_ms(text, int(marked[1] or marked[2])))
    if bare_number and _BARE_MS.fullmatch(text):
        return Moment(_checked_ms(text, int(text)))
    match = _ISO.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no time; expected {FORMS}")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is no time: {error}") from None
    assumed_zone = moment.tzinfo is None
    if assumed_zone:
        moment = moment.replace(tzinfo=UTC)
    timestamp_ms = -((_EPOCH - moment) // timedelta(milliseconds=1))
    if timestamp_ms < 0:
        raise ValueError(f"{text!r} is before 1970")
    return Moment(timestamp_ms, assumed_zone)


def parse_duration(text: str) -> timedelta:
    """Read a duration as ISO 8601 has it, in days, hours, minutes and seconds.

    Raises:
        ValueError: it is none; says how one looks.

    >>> parse_duration("P1DT2H")
    datetime.timedelta(days=1, seconds=7200)
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{text!r} is no duration; expected PnDTnHnMnS, for example PT30M, PT2H or P1DT12H"
        )
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


def _checked_ms(text: str, timestamp_ms: int) -> int:
    if timestamp_ms > INT64_MAX:
        raise ValueError(f"{text!r} is beyond {INT64_MAX} milliseconds")
    return timestamp_ms
