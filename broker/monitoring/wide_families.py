"""Families with a series for each partition or group, as text.

prometheus-client takes some four microseconds a series, most of it for objects that are made and
thrown away; tens of thousands of series would take half a second of a processor, and while it
holds the interpreter requests wait. Here the labels of a series are made once for all families
that have them. The text is the same, which a test sees to, but for numbers of seven and more
digits: those are not written in powers of ten.
"""

from collections.abc import Iterable
from typing import Final

from seglog.broker.monitoring.families import COUNTER, HISTOGRAM, Family

WIDE: Final = 100
"""From so many series on it pays."""
_SPECIAL: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})

_Labels = dict[tuple[str, ...], str]


def is_wide(family: Family) -> bool:
    """Whether a family should be rendered here."""
    return len(family.samples) >= WIDE and family.kind != HISTOGRAM


def wide_text(families: Iterable[Family]) -> str:
    """Families in Prometheus' text format, labels in alphabetical order."""
    lines: list[str] = []
    labels_by_names: dict[tuple[str, ...], _Labels] = {}
    for family in families:
        name = f"{family.name}_total" if family.kind == COUNTER else family.name
        documentation = family.documentation.replace("\\", r"\\").replace("\n", r"\n")
        lines.append(f"# HELP {name} {documentation}\n# TYPE {name} {family.kind}\n")
        known = labels_by_names.setdefault(family.labels, {})
        for values, value in family.samples:
            labels = known.get(values)
            if labels is None:
                labels = known[values] = _labels_text(family.labels, values)
            assert isinstance(value, int | float), family.name
            lines.append(f"{name}{labels} {float(value)!r}\n")
    return "".join(lines)


def _labels_text(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    pairs = sorted(zip(names, values, strict=False))  # the series of all topics has no label
    text = ",".join(f'{name}="{value.translate(_SPECIAL)}"' for name, value in pairs)
    return f"{{{text}}}" if text else ""
