"""Identities of the lab's IAM and STS: the deployer's user, roles' sessions, a key's owner."""

from __future__ import annotations

import json

from moto.iam.exceptions import NotFoundException
from moto.iam.models import IAMBackend, Role, iam_backends
from moto.sts.models import AssumedRole, STSBackend, sts_backends

from lab.aws.account import ACCOUNT_ID, REGION, Credentials
from lab.aws.iam.policies import Context, as_list, holds

# The lab's deployer. The keys are not secret, because nothing outside this machine accepts them.
ADMIN_USER = "admin"
ADMIN_CREDENTIALS = Credentials("AKIARACKRATELABADMIN", "rackrate-lab-secret-access-key-of-admin")
# How long a role's session lasts: AssumeRole's default.
SESSION_SECONDS = 3600


def iam() -> IAMBackend:
    """moto's IAM of the lab's account."""
    return iam_backends[ACCOUNT_ID]["aws"]


def sts() -> STSBackend:
    """moto's STS of the lab's account."""
    return sts_backends[ACCOUNT_ID]["aws"]


def create_admin() -> None:
    """Create the deployer's user with a fixed access key and every permission."""
    backend = iam()
    if ADMIN_USER in backend.users:
        return
    user = backend.create_user("us-east-1", ADMIN_USER)
    key = backend.create_access_key(ADMIN_USER)
    del backend.access_keys[key.access_key_id]
    key.access_key_id = ADMIN_CREDENTIALS.access_key_id
    key.secret_access_key = ADMIN_CREDENTIALS.secret_access_key
    backend.access_keys[key.access_key_id] = key
    user.put_policy(
        "administrator",
        json.dumps(
            {
                "Version": "2012-10-17",
                "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}],
            }
        ),
    )


def assume_role(role_arn: str, session_name: str) -> Credentials:
    """Temporary credentials of a role, as Lambda and Step Functions get them."""
    session: AssumedRole = sts().assume_role(
        region_name=REGION,
        role_session_name=session_name,
        role_arn=role_arn,
        policy="",
        duration=SESSION_SECONDS,
        external_id="",
    )
    return Credentials(session.access_key_id, session.secret_access_key, session.session_token)


def role_of(role_arn: str) -> Role | None:
    """moto's role with this ARN. None if there is none (any more)."""
    try:
        return iam().get_role(role_arn.rsplit("/", 1)[-1])
    except NotFoundException:
        return None


def trusts(role_arn: str, service: str, context: Context | None = None) -> bool:
    """Does a role exist that a service may assume, such as `lambda.amazonaws.com`?

    `context` has what the service says of itself, by key of IAM's conditions in lower case.
    """
    role = role_of(role_arn)
    return role is not None and any(
        statement["Effect"] == "Allow"
        and "sts:AssumeRole" in as_list(statement["Action"])
        and isinstance(statement.get("Principal"), dict)
        and service in as_list(statement["Principal"].get("Service"))
        and holds(statement.get("Condition") or {}, context or {})
        for statement in as_list(json.loads(role.assume_role_policy_document)["Statement"])
    )


def caller_arn(access_key_id: str) -> str:
    """GetCallerIdentity's ARN for an access key."""
    return sts().get_caller_identity(access_key_id, REGION)[1]
