"""The settings of all tests."""

from __future__ import annotations

from tests.conftest import pytest_runtestloop as pytest_runtestloop
