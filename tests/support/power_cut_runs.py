"""Power cuts by the thousand, or those of one life: ``make powercut``."""

import argparse
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from support.memory_folder import memory_folder
from support.power_cuts import CUTS, CutLife, PowerCutError
from support.schedules import be_quiet
from support.truncated_lives import TruncatedLife

CHUNK = 10


class Life(Protocol):
    """A life that is over and may be cut."""

    def check(self) -> None:
        """Cut it; raises ``PowerCutError``."""


LIVES: Final[dict[str, Callable[[int, Path], Life]]] = {
    "broker": partial(CutLife, in_any_order=False),
    "broker, names in any order": partial(CutLife, in_any_order=True),
    "truncated": partial(TruncatedLife, in_any_order=False),
    "truncated, names in any order": partial(TruncatedLife, in_any_order=True),
}
"""By what is tried; each is given a seed and a folder."""


def cut_failures_of(kind: str, seeds: Iterable[int]) -> list[tuple[int, str]]:
    """The lives of which a power cut left what it must not, each with what was wrong."""
    found = []
    for seed in seeds:
        with memory_folder() as folder:
            try:
                LIVES[kind](seed, folder).check()
            except PowerCutError as error:
                found.append((seed, f"{kind}: {error}"))
    return found


def main() -> None:
    """Run what the command line says; ends with 1 if a cut left what it must not."""
    parser = argparse.ArgumentParser(prog="make powercut", description=__doc__)
    parser.add_argument("--states", type=int, default=500, help="how many power cuts")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first life")
    parser.add_argument("--processes", type=int, default=2, help="how many run at a time")
    parser.add_argument("--seed", type=int, help="only the lives of this seed")
    options = parser.parse_args()
    lives = 1 if options.seed is not None else max(1, options.states // CUTS // len(LIVES))
    first = options.first if options.seed is None else options.seed
    end = first + lives
    kinds: Counter[str] = Counter()
    with ProcessPoolExecutor(options.processes, initializer=be_quiet) as executor:
        runs = [
            executor.submit(cut_failures_of, kind, range(start, min(start + CHUNK, end)))
            for start in range(first, end, CHUNK)
            for kind in LIVES
        ]
        for run in runs:
            for _, text in run.result():
                print(text, flush=True)
                kinds[text.partition(":")[0]] += 1
    print(f"{lives * len(LIVES)} lives, {CUTS} power cuts each: {kinds.total()} lives failed")
    for kind, count in kinds.most_common():
        print(f"{count:6} {kind}")
    raise SystemExit(1 if kinds else 0)


if __name__ == "__main__":
    main()
