"""One thread at a time may change a log; this says so in the code, and lets tests check it.

Nothing of a log has a lock but what ``file_positions`` and ``file_pool`` share with other threads.
A log is made by one thread (a start reads several at once), served by the event loop, and closed by
a third one. Between them it is handed over, and from then on the first thread that changes it owns
it. docs/architecture.md has a table of owners.

``CHECK_LOG_OWNERS=1`` in the environment switches the check on, as the tests do; without it
``owner_only`` gives a method back as it is.
"""

import os
import threading
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, Final, ParamSpec, TypeVar

IS_CHECKED: Final = os.environ.get("CHECK_LOG_OWNERS") == "1"

ParametersT = ParamSpec("ParametersT")
ResultT = TypeVar("ResultT")


class Owned:
    """Something that one thread at a time changes, by methods that are ``owner_only``."""

    __slots__ = ("_owner",)

    _owner: int | None

    def hand_over(self) -> None:
        """Let the thread own it that changes it next."""
        self._owner = None


OwnedT = TypeVar("OwnedT", bound=Owned)


def owner_only(
    method: Callable[Concatenate[OwnedT, ParametersT], ResultT],
) -> Callable[Concatenate[OwnedT, ParametersT], ResultT]:
    """Mark a method that changes an object; where it is checked, another thread is an assertion."""
    if not IS_CHECKED:
        return method
    return checked(method)


def checked(
    method: Callable[Concatenate[OwnedT, ParametersT], ResultT],
) -> Callable[Concatenate[OwnedT, ParametersT], ResultT]:
    """The same, checked in any case."""

    @wraps(method)
    def asserting(
        self: OwnedT, /, *arguments: ParametersT.args, **options: ParametersT.kwargs
    ) -> ResultT:
        caller = threading.get_ident()
        owner = getattr(self, "_owner", None)
        if owner is None:
            self._owner = owner = caller
        assert owner == caller, (
            f"{method.__qualname__}: {self!r} belongs to thread {owner}, not to {caller}; "
            "hand it over first"
        )
        return method(self, *arguments, **options)

    return asserting
