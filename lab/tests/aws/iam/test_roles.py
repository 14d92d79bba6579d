"""Roles can be made and deleted while others are looked for."""

from __future__ import annotations

from lab.aws.iam.identity import iam
from lab.tests.aws.region import Lab


def test_a_role_that_is_made_meanwhile_does_not_disturb_a_search(lab: Lab) -> None:
    lab.role()
    search = iter(iam().get_roles())
    first = next(search)
    lab.role()
    assert first not in list(search)
