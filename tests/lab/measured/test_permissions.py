"""What the roles were allowed, against what they called in the tests of the lab."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from lab.aws.authorization.audit import Audit, audit, read_unobserved, rows
from tests.lab import permissions
from tests.lab.measured.conftest import AFTER
from tests.lab.permissions import CORE, REST
from tests.lab.running import Lab

LAB = Path(__file__).parents[1]
# Actions that a role needs and whose use cannot be seen, with the reason.
UNOBSERVED = LAB / "unused_actions.yaml"


@pytest.mark.core
def test_every_call_was_allowed(bare_lab: Lab, request: pytest.FixtureRequest) -> None:
    audited(bare_lab, request, files_of(CORE))


def test_every_allowed_action_was_used(bare_lab: Lab, request: pytest.FixtureRequest) -> None:
    judged = audited(bare_lab, request, files_of(CORE) | files_of(REST))
    assert judged.unused == ()
    assert judged.stale == ()


def audited(lab: Lab, request: pytest.FixtureRequest, needed: set[str]) -> Audit:
    """The audit of all calls so far, if these test files ran. None may have been refused."""
    record = permissions.merged(permissions.of_lab(lab, request.session.items))
    missing = needed - record.files
    # scripts/test sets the variable: in `make test` and then `make test-rest` none may be missing.
    if missing and AFTER not in os.environ:
        pytest.skip("only all tests of the lab together use every action")
    assert missing == set()
    judged = audit(record.policies, record.calls, read_unobserved(UNOBSERVED))
    for row in rows(record.policies, record.calls):
        print(" | ".join(row))
    assert [call for call in judged.refused if call.logical_id in record.policies] == []
    return judged


def files_of(part: str) -> set[str]:
    """The files with tests of a part, but for those that `make test-rest` leaves out, too."""
    makefile = (LAB.parents[1] / "Makefile").read_text("utf-8")
    left_out = set(re.findall(r"--ignore tests/lab/(test_\w+\.py)", makefile))
    assert left_out
    texts = {path.name: path.read_text("utf-8") for path in LAB.rglob("test_*.py")}
    is_of = {
        CORE: lambda text: "pytest.mark.core" in text,
        REST: lambda text: "pytestmark = pytest.mark.core" not in text,
    }[part]
    return {f"{part}/{name}" for name, text in texts.items() if is_of(text)} - {
        f"{part}/{name}" for name in left_out
    }
