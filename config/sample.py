"""The commented sample file; ``python -m seglog.config.sample`` prints it."""

import sys
import textwrap
from typing import Final

from seglog.config.broker_config import SECTIONS
from seglog.config.ignored import WITHOUT_EFFECT
from seglog.config.keys import ConfigKey, keys_of
from seglog.config.properties import format_property

NO_EFFECT: Final = "Without effect so far."

_WIDTH: Final = 98
_HEAD: Final = """\
# seglog: configuration of the broker, in the syntax and with the keys of Apache Kafka.
#
# The file lists every key with its default; remove the # in front of a key to change it.
# The environment wins over this file (SEGLOG_LOG_SEGMENT_BYTES or KAFKA_LOG_SEGMENT_BYTES for
# log.segment.bytes), and --override key=value wins over both.
#
# python -m seglog.config.sample makes this file from the settings in config/.
"""


def sample_properties() -> str:
    """Write the sample file: every key, commented out, with its default and meaning."""
    parts = [_HEAD]
    for section in SECTIONS:
        title = section_title(section)
        parts.append(f"\n# {'=' * 20} {title} {'=' * 20}\n")
        parts.extend(_sample_of(key) for key in keys_of(section).values())
    return "".join(parts)


def section_title(section: type) -> str:
    """The heading of a settings class: the first sentence of its docstring."""
    assert section.__doc__ is not None
    return section.__doc__.partition("\n")[0].rstrip(".")


def _sample_of(key: ConfigKey) -> str:
    notes = [key.documentation, f"Allowed: {key.allowed}."]
    if key.is_dynamic:
        notes.append("May be changed while the broker runs.")
    if key.name in WITHOUT_EFFECT:
        notes.append(NO_EFFECT)
    comment = textwrap.fill(
        " ".join(notes),
        _WIDTH,
        initial_indent="# ",
        subsequent_indent="# ",
        break_on_hyphens=False,
        break_long_words=False,
    )
    return f"\n{comment}\n#{format_property(key.name, key.format(key.default) or '')}\n"


if __name__ == "__main__":
    sys.stdout.write(sample_properties())
