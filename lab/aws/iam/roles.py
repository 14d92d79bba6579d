"""IAM's roles in a list of their own: a stack creates and deletes many while moto looks for one."""

from __future__ import annotations

from moto.iam.models import IAMBackend, Role


def install() -> None:
    """Let moto go through the roles that there are when it begins."""
    IAMBackend.get_roles = _get_roles  # type: ignore[method-assign]


def _get_roles(self: IAMBackend) -> list[Role]:
    return list(self.roles.values())
