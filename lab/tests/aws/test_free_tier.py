"""The account's plan: AWS Free Tier tells it, and EC2 starts only what it allows."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from lab.aws import account
from lab.tests.aws.region import Lab, allow

ACTION = "freetier:GetAccountPlanState"


@pytest.mark.parametrize("plan", ["FREE", "PAID"])
def test_a_role_that_may_ask_learns_the_accounts_plan(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, plan: str
) -> None:
    monkeypatch.setattr(account, "PLAN", plan)
    client = lab.as_role(lab.role("lambda.amazonaws.com", allow(ACTION, "*")), "freetier")
    state = client.get_account_plan_state()
    assert (state["accountId"], state["accountPlanType"]) == (account.ACCOUNT_ID, plan)


def test_a_role_that_may_not_ask_is_refused(lab: Lab) -> None:
    client = lab.as_role(lab.role("lambda.amazonaws.com", allow("ec2:*", "*")), "freetier")
    with pytest.raises(client.exceptions.AccessDeniedException, match=f"perform: {ACTION}"):
        client.get_account_plan_state()


def test_the_free_plan_starts_only_types_that_are_eligible_for_free_tier(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    ec2, request = lab.client("ec2"), {"ImageId": "ami-12c6146b", "MinCount": 1, "MaxCount": 1}
    monkeypatch.setattr(account, "PLAN", "FREE")
    with pytest.raises(ClientError, match="is not eligible for Free Tier") as refused:
        ec2.run_instances(**request, InstanceType="c5.large")
    assert refused.value.response["Error"]["Code"] == "InvalidParameterCombination"
    for plan, kind in (("FREE", "m7i-flex.large"), ("PAID", "c5.large")):
        monkeypatch.setattr(account, "PLAN", plan)
        (instance,) = ec2.run_instances(**request, InstanceType=kind)["Instances"]
        ec2.terminate_instances(InstanceIds=[instance["InstanceId"]])
