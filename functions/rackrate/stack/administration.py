"""The right to administer a cluster, held only while it is needed.

Only an administrator can create namespaces and grant roles. So the bootstrap function associates
EKS's administrator policy with its own access entry, does its work, and gives the policy back. A
schedule takes away what a function has left that Lambda ended. IAM lets it do so for this entry and
this policy only (`templates/access.yaml`).
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools import Logger

from rackrate.errors import suppress_codes
from rackrate.stack.patience import Patience

logger = Logger(child=True)

#: The longest time of any function of Lambda.
_LONGEST = datetime.timedelta(minutes=15)


class AccessPolicy:
    """The right to administer a cluster: EKS's policy at the function's own access entry.

    Sources: EKS API reference, AssociateAccessPolicy and DisassociateAccessPolicy.
    """

    def __init__(self, eks: Any, environment: Mapping[str, str]) -> None:
        self._eks, self._patience = eks, Patience()
        self._entry = {
            "clusterName": environment["CLUSTER_NAME"],
            "principalArn": environment["ROLE_ARN"],
            "policyArn": environment["ADMINISTRATOR_POLICY_ARN"],
        }

    def take(self) -> None:
        """Associate the policy, which takes effect some seconds later; again is harmless."""
        self._patience.ask(
            lambda: self._eks.associate_access_policy(
                **self._entry, accessScope={"type": "cluster"}
            )
        )

    def give_back(self) -> None:
        """Remove the policy; it is no error if the entry does not have it or does not exist."""
        with suppress_codes("ResourceNotFoundException"):
            self._patience.ask(lambda: self._eks.disassociate_access_policy(**self._entry))

    def give_back_forgotten(self) -> None:
        """Remove the policy if no function can be at work that took it."""
        entry = {name: self._entry[name] for name in ("clusterName", "principalArn")}
        pages = self._eks.get_paginator("list_associated_access_policies").paginate(**entry)
        ended = datetime.datetime.now(datetime.UTC) - _LONGEST
        with suppress_codes("ResourceNotFoundException"):
            policies = [policy for page in pages for policy in page["associatedAccessPolicies"]]
            if any(
                policy["policyArn"] == self._entry["policyArn"] and policy["modifiedAt"] < ended
                for policy in policies
            ):
                logger.warning("took away the right that a function had left")
                self.give_back()
