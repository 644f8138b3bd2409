"""The limit on open files."""

import logging
import resource
from collections.abc import Iterator

import pytest

from seglog.broker.daemon.process import raise_descriptor_limit


@pytest.fixture
def low_limit() -> Iterator[int]:
    """A soft limit below the hard one; the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def soft_limit() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_descriptors_that_are_granted_are_not_used(
    low_limit: int, caplog: pytest.LogCaptureFixture
) -> None:
    """C032: to the hard limit, said once; there is nothing to say when it is there already."""
    caplog.set_level(logging.INFO)
    raise_descriptor_limit()
    assert soft_limit() == low_limit
    assert caplog.messages == [f"event=descriptor-limit-raised from=512 to={low_limit}"]
    raise_descriptor_limit()
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("error", [OSError(1, "not permitted"), ValueError("exceeds maximum")])
def test_refused_limit_ends_the_start(
    low_limit: int,
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(_which: int, _limits: tuple[int, int]) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(resource, "setrlimit", refuse)
        raise_descriptor_limit()
    assert soft_limit() == 512
    assert f"event=descriptor-limit-kept soft=512 hard={low_limit}" in caplog.messages[0]
