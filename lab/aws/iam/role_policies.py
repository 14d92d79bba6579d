"""The policies that a role has in IAM now."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from moto.iam.exceptions import NotFoundException
from moto.iam.models import Role

from lab.aws.iam.identity import iam
from lab.aws.iam.policies import Policies, Statement, statements


def policies_of(role: Role) -> Policies:
    """A role's inline and managed policies, and its boundary."""
    identity: list[Statement] = []
    for document in role.policies.values():
        identity += statements(_text(document))
    for managed in role.managed_policies.values():
        identity += statements(_default_version(managed))
    boundary: tuple[Statement, ...] | None = None
    if role.permissions_boundary_arn:
        try:
            limit = iam().get_policy(role.permissions_boundary_arn)
            boundary = tuple(statements(_default_version(limit)))
        except NotFoundException:
            boundary = ()  # a boundary that is not there allows nothing
    return Policies(tuple(identity), boundary)


def _text(document: str) -> str:
    return document if document.lstrip().startswith("{") else unquote(document)


def _default_version(policy: Any) -> str:
    versions = [version for version in policy.versions if version.is_default]
    return _text(versions[0].document)
