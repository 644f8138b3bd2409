"""How work on many logs is spread over threads that the storage layer does not know."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

ResultT = TypeVar("ResultT")


class RunParallel(Protocol):
    """Runs jobs, in any threads and order, and returns their results in the order given."""

    def __call__(self, jobs: Sequence[Callable[[], ResultT]], /) -> Sequence[ResultT]:
        """Run all of them; raises the error of a job."""
        ...
