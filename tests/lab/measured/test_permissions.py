"""What the roles were allowed, against what they called in all the tests of the lab."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from lab.aws.authorization.audit import audit, read_unobserved, rows
from tests.lab import permissions
from tests.lab.measured.conftest import AFTER
from tests.lab.running import Lab

LAB = Path(__file__).parents[1]
# Actions that a role needs and whose use cannot be seen, with the reason.
UNOBSERVED = LAB / "unused_actions.yaml"


def test_every_call_was_allowed_and_every_allowed_action_was_used(
    bare_lab: Lab, request: pytest.FixtureRequest
) -> None:
    own = permissions.of_lab(bare_lab, {item.path.name for item in request.session.items})
    record = permissions.merged(own)
    # Read once: another run may not rest on them.
    permissions.forget()
    missing = files_of_make_test() - record.files
    # scripts/test sets the variable: in `make test` none may be missing.
    if missing and AFTER not in os.environ:
        pytest.skip("only all tests of the lab together use every action")
    assert missing == set()
    for row in rows(record.policies, record.calls):
        print(" | ".join(row))
    judged = audit(record.policies, record.calls, read_unobserved(UNOBSERVED))
    assert [call for call in judged.refused if call.logical_id in record.policies] == []
    assert judged.unused == ()
    assert judged.stale == ()


def files_of_make_test() -> set[str]:
    """The files of tests in the lab, but for those that `make test` leaves out."""
    makefile = (LAB.parents[1] / "Makefile").read_text("utf-8")
    left_out = re.findall(r"--ignore tests/lab/(test_\w+\.py)", makefile)
    assert left_out
    return {path.name for path in LAB.rglob("test_*.py")} - set(left_out)
