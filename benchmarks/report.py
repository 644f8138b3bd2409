"""Figures as a table: every run, the spread, and the aim beside it."""

import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class Row:
    """The runs of one figure."""

    unit: str
    aim: float | None
    lower_is_better: bool
    values: list[float] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)


@dataclass
class Report:
    """Collects figures and prints each as it comes."""

    rows: dict[str, Row] = field(default_factory=dict)

    def figure(
        self,
        name: str,
        unit: str,
        value: float,
        aim: float | None = None,
        *,
        lower_is_better: bool = False,
    ) -> None:
        """One run of one figure."""
        row = self.rows.setdefault(name, Row(unit, aim, lower_is_better))
        row.values.append(value)
        print(f"  {name}: {value:,.1f} {unit}", flush=True)

    def ratio(self, name: str, unit: str, value: float, limit: float, aim: float) -> None:
        """One run of a figure whose aim is a part of a limit that was measured beside it."""
        row = self.rows.setdefault(name, Row(unit, aim, lower_is_better=False))
        row.values.append(value)
        row.limits.append(limit)
        print(f"  {name}: {value:,.0f} {unit}, limit {limit:,.0f}: {value / limit:.2f}", flush=True)

    def print(self) -> None:
        """The table, in Markdown."""
        print(
            f"\n{os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}\n"
        )
        print("| figure | median | range | limit of the machine | aim | met |")
        print("| --- | ---: | ---: | ---: | ---: | --- |")
        for name, row in self.rows.items():
            print(f"| {name} | {' | '.join(_cells(row))} |")


def _cells(row: Row) -> Iterable[str]:
    middle = _median(row.values)
    yield f"{middle:,.1f} {row.unit}"
    yield f"{min(row.values):,.1f} to {max(row.values):,.1f}"
    if row.limits:
        limit = _median(row.limits)
        part = _median([value / each for value, each in zip(row.values, row.limits, strict=True)])
        yield f"{limit:,.0f} {row.unit} (x {part:.2f})"
        yield f"x {row.aim}"
        yield "yes" if row.aim is None or part >= row.aim else "no"
        return
    yield ""
    if row.aim is None:
        yield ""
        yield ""
        return
    yield f"{'at most' if row.lower_is_better else 'at least'} {row.aim:,g}"
    met = middle <= row.aim if row.lower_is_better else middle >= row.aim
    yield "yes" if met else "no"


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]
