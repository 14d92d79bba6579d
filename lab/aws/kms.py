"""KMS keys: which are customer-managed, and what their own policies allow."""

from __future__ import annotations

import json

from moto.kms.models import kms_backends

from lab.aws.account import ACCOUNT_ID, REGION
from lab.aws.iam.policies import Context, as_list, holds, pattern


def customer_key(key_id: str | None) -> str | None:
    """The ARN of a customer-managed key given by id, ARN or alias; None for AWS's own keys."""
    if not key_id or "alias/aws/" in key_id:
        return None
    backend = kms_backends[ACCOUNT_ID][REGION]
    plain = key_id.rsplit(":", 1)[-1] if "alias/" in key_id else key_id.rsplit("/", 1)[-1]
    identity = backend.get_key_id_from_alias(plain) if plain.startswith("alias/") else plain
    key = backend.keys.get(identity or "")
    if key is None or getattr(key, "key_manager", "CUSTOMER") == "AWS":
        return None
    if (key.description or "").startswith("Default master key that protects my"):
        return None  # moto describes its AWS-managed keys like this
    return str(key.arn)


def key_refusal(action: str, key_arn: str, role_arn: str, context: Context) -> str | None:
    """Why a key's own policy refuses a role, in AWS's words; None when it does not.

    The policy must delegate to the account's IAM policies, or name the role.
    """
    backend = kms_backends[ACCOUNT_ID][REGION]
    key_id = key_arn.rsplit("/", 1)[-1]
    if key_id not in backend.keys:
        return None
    principals = {"*", ACCOUNT_ID, f"arn:aws:iam::{ACCOUNT_ID}:root", role_arn}
    if key_policy_allows(backend.get_key_policy(key_id), action, "AWS", principals, context):
        return None
    return f"because no key policy allows the {action} action"


def key_policy_allows(
    policy: str, action: str, kind: str, principals: set[str], context: Context
) -> bool:
    """Whether a key policy allows one of these principals of a kind (AWS, Service) an action."""
    allowed = False
    for statement in as_list(json.loads(policy).get("Statement")):
        named = statement.get("Principal", {})
        named = {"AWS": named} if isinstance(named, str) else named
        names = {str(item) for item in as_list(named.get(kind))}
        actions = as_list(statement.get("Action"))
        if (
            names & principals
            and any(pattern(item, ignore_case=True).fullmatch(action) for item in actions)
            and holds(statement.get("Condition") or {}, context)
        ):
            if statement["Effect"] == "Deny":
                return False
            allowed = True
    return allowed
