"""Schedules by the thousand, or one of them with its trace: ``make schedules``."""

import argparse
import logging
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from support.memory_folder import memory_folder
from support.scheduled_life import ScheduleError, run_schedule

CHUNK = 50


def failures_of(seeds: range) -> list[tuple[int, str]]:
    """The schedules that fail, each with what was wrong."""
    found = []
    for seed in seeds:
        with memory_folder() as folder:
            try:
                run_schedule(seed, folder)
            except ScheduleError as error:
                found.append((seed, str(error)))
    return found


def be_quiet() -> None:
    """Log nothing: failing disks are part of it."""
    logging.disable(logging.CRITICAL)


def main() -> None:
    """Run what the command line says; ends with 1 if a schedule failed."""
    parser = argparse.ArgumentParser(prog="make schedules", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="how many schedules")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first one")
    parser.add_argument("--processes", type=int, default=2, help="how many run at a time")
    parser.add_argument("--seed", type=int, help="only this one, with its trace")
    options = parser.parse_args()
    if options.seed is not None:
        be_quiet()
        for _, text in failures_of(range(options.seed, options.seed + 1)):
            raise SystemExit(text)
        print(f"schedule {options.seed} passes")
        return
    end = options.first + options.count
    chunks = [range(seed, min(seed + CHUNK, end)) for seed in range(options.first, end, CHUNK)]
    kinds: Counter[str] = Counter()
    with ProcessPoolExecutor(options.processes, initializer=be_quiet) as executor:
        for failures in executor.map(failures_of, chunks):
            for _, text in failures:
                line = text.partition("\n")[0]
                kind = line.partition(": ")[2].partition(", ")[0]
                kinds[kind] += 1
                if kinds[kind] <= 5:
                    print(line, flush=True)
    print(f"{options.count} schedules, {kinds.total()} failed")
    for kind, count in kinds.most_common():
        print(f"{count:6} {kind}")
    raise SystemExit(1 if kinds else 0)


if __name__ == "__main__":
    main()
