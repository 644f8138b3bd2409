"""How many examples a generator tries: all of them in the whole suite, a sample in the fast one."""

import os
from collections.abc import Callable, Iterable
from typing import Any, Final

import pytest
from _pytest.mark import ParameterSet

SAMPLE_SHARE: Final = 5
"""``make check`` tries one example of so many."""
LEAST_EXAMPLES: Final = 10

# No name with SEGLOG_ before it: a daemon that a test starts would take that for a setting.
IS_SAMPLED: Final = os.environ.get("TEST_EXAMPLES") == "few"


def examples(count: int) -> int:
    """``count`` for ``max_examples``, or a sample of it where ``TEST_EXAMPLES=few``."""
    return max(LEAST_EXAMPLES, count // SAMPLE_SHARE) if IS_SAMPLED else count


def first_ones_fast(
    count: int, values: Iterable[object], ids: Callable[[Any], str] = str
) -> list[ParameterSet]:
    """Values for ``parametrize``: the first ``count`` in each suite, the others as slow tests."""
    return [
        pytest.param(value, id=ids(value), marks=pytest.mark.slow if number >= count else ())
        for number, value in enumerate(values)
    ]
