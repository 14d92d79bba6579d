from __future__ import annotations

from functools import partial

import pytest

from tests.lint.checking import Check, check


@pytest.fixture
def findings(tmp_path) -> Check:
    return partial(check, tmp_path / "template.yaml")
