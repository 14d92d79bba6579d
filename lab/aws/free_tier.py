"""The AWS Free Tier API: which plan the account has.

All Regions share its endpoint, which is in us-east-1 (botocore, endpoint rules of `freetier`).
Source of the response: API reference of AWS Billing and Cost Management, GetAccountPlanState. It
does not say what an account gets that is older than plans.
"""

from __future__ import annotations

import re

from moto.core.responses import ActionResult, BaseResponse

from lab.aws import account

#: The API's name in the lab, and the hosts of its endpoint. moto does not have this API.
NAME, HOSTS = "freetier", re.compile(r"https?://freetier\.")


class FreeTierResponse(BaseResponse):
    """Answers one request."""

    def __init__(self) -> None:
        super().__init__(service_name=NAME)
        self.automated_parameter_parsing = True

    def get_account_plan_state(self) -> ActionResult:
        state = {"accountPlanType": account.PLAN, "accountPlanStatus": "ACTIVE"}
        return ActionResult({"accountId": account.ACCOUNT_ID, **state})
