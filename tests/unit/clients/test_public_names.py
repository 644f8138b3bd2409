"""The names of ``seglog.clients``: imported one by one, all there."""

import subprocess
import sys

import pytest

import seglog.clients


@pytest.mark.parametrize("name", seglog.clients.__all__)
def test_a_public_name_leads_nowhere(name: str) -> None:
    assert getattr(seglog.clients, name).__name__ == name
    assert name in dir(seglog.clients)


def test_a_name_that_does_not_exist_is_found() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Broker'"):
        _ = seglog.clients.Broker


def test_the_errors_need_an_import_of_their_own() -> None:
    code = "import seglog.clients; seglog.clients.errors.ClientError"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_the_package_loads_the_clients() -> None:
    code = "import sys, seglog.clients; assert 'asyncio' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
