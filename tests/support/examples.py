"""How many examples Hypothesis tries: all of them in the whole suite, a sample in the fast one."""

import os
from typing import Final

SAMPLE_SHARE: Final = 5
"""``make check`` tries one example of so many."""
LEAST_EXAMPLES: Final = 10

IS_SAMPLED: Final = os.environ.get("SEGLOG_TEST_EXAMPLES") == "few"


def examples(count: int) -> int:
    """``count`` for ``max_examples``, or a sample of it where ``SEGLOG_TEST_EXAMPLES=few``."""
    return max(LEAST_EXAMPLES, count // SAMPLE_SHARE) if IS_SAMPLED else count
