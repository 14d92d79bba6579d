"""The settings of all tests. Those of the lab itself are of `make test-rest`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import pytest_runtestloop as pytest_runtestloop

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.rest)
