"""The lab's account and Region, and a caller's credentials."""

from __future__ import annotations

from dataclasses import dataclass

ACCOUNT_ID = "123456789012"
REGION = "us-east-1"
#: The account's plan, FREE or PAID.
PLAN = "PAID"


@dataclass(frozen=True)
class Credentials:
    """Keys of an IAM user or of an assumed role."""

    access_key_id: str
    secret_access_key: str
    session_token: str | None = None


def arn(service: str, resource: str, region: str = REGION, account: str = ACCOUNT_ID) -> str:
    """The ARN of a resource of the lab's account."""
    return f"arn:aws:{service}:{region}:{account}:{resource}"
