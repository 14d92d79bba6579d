"""What the roles were allowed, against what they called in all the tests of the lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.aws.authorization.audit import audit, read_unobserved, rows
from tests.lab import permissions
from tests.lab.running import Lab

# Actions that a role needs and whose use cannot be seen, with the reason.
UNOBSERVED = Path(__file__).parents[1] / "unused_actions.yaml"


def test_every_call_was_allowed_and_every_allowed_action_was_used(
    bare_lab: Lab, request: pytest.FixtureRequest
) -> None:
    own = permissions.of_lab(bare_lab, {item.path.name for item in request.session.items})
    found = permissions.merged(own)
    # Read once: another run may not rest on them.
    permissions.forget()
    if not {path.name for path in UNOBSERVED.parent.rglob("test_*.py")} <= found.files:
        pytest.skip("only all tests of the lab together use every action")
    for row in rows(found.policies, found.calls):
        print(" | ".join(row))
    judged = audit(found.policies, found.calls, read_unobserved(UNOBSERVED))
    assert [call for call in judged.refused if call.logical_id in found.policies] == []
    assert judged.unused == ()
    assert judged.stale == ()
