import gc
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

import support.check_owners  # noqa: F401 - before anything of the storage layer
from support.examples import examples
from support.log_builder import abandon_opened_logs
from support.own_paths import set_base_folder

# No test depends on the speed of the machine: an example has no deadline, and data may be slow.
settings.register_profile(
    "seglog",
    deadline=None,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("seglog")

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A shell that runs this in the background has its children ignore Ctrl-C, and theirs: those
    # that tests start and interrupt would never end.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    # Eight thousand tests and what they import stay until the end: without this each full
    # collection of garbage, in every test that makes some, walks through all of them.
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _base_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    set_base_folder(str(tmp_path_factory.getbasetemp()))


@pytest.fixture(autouse=True)
def _open_files() -> Iterator[None]:
    """What a test left open is closed at its end: descriptors run out otherwise, far from here."""
    yield
    abandon_opened_logs()
