"""The API server's token review accepts the same tokens as EKS, and no others."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Callable

import botocore.session
import pytest
from botocore.model import ServiceId
from botocore.signers import RequestSigner

from lab.tests.aws.region import Lab, eventually


@pytest.fixture(scope="module")
def cluster(lab: Lab) -> str:
    """A cluster with an entry for one role."""
    ec2 = lab.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.9.{n}.0/24", AvailabilityZone=f"us-east-1{z}")
        for n, z in enumerate("ab")
    ]
    name = f"c-{uuid.uuid4().hex[:8]}"
    eks = lab.client("eks")
    eks.create_cluster(
        name=name,
        roleArn=lab.role("eks.amazonaws.com"),
        resourcesVpcConfig={"subnetIds": [s["Subnet"]["SubnetId"] for s in subnets]},
        accessConfig={"authenticationMode": "API"},
    )
    eventually(
        lambda: eks.describe_cluster(name=name)["cluster"]["status"], lambda s: s == "ACTIVE"
    )
    return name


def credentials(lab: Lab, role: str) -> dict[str, str]:
    return lab.client("sts").assume_role(RoleArn=role, RoleSessionName="launch")["Credentials"]


def token(
    lab: Lab, cluster: str, keys: dict[str, str], *, host: str | None = None, expires: int = 60
) -> str:
    """Make a token as the AWS CLI does (get_token.py)."""
    session = botocore.session.Session()
    session.set_credentials(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"])
    signer = RequestSigner(
        ServiceId("sts"),
        "us-east-1",
        "sts",
        "v4",
        session.get_credentials(),
        session.get_component("event_emitter"),
    )
    action = "Action=GetCallerIdentity&Version=2011-06-15"
    url = signer.generate_presigned_url(
        {
            "method": "GET",
            "url": f"{host or lab.region.endpoint_url}/?{action}",
            "body": {},
            "headers": {"x-k8s-aws-id": cluster},
            "context": {},
        },
        region_name="us-east-1",
        expires_in=expires,
        operation_name="",
    )
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def review(lab: Lab, cluster: str, text: str) -> dict:
    request = urllib.request.Request(
        f"{lab.region.endpoint_url}/_lab/eks/{cluster}/token-review",
        json.dumps(
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenReview",
                "spec": {"token": text},
            }
        ).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as response:
        return json.load(response)["status"]


def test_role_with_groups_gets_them(lab: Lab, cluster: str) -> None:
    role = lab.role()
    lab.client("eks").create_access_entry(
        clusterName=cluster, principalArn=role, kubernetesGroups=["rackrate:runners"]
    )
    status = review(lab, cluster, token(lab, cluster, credentials(lab, role)))
    name = role.rsplit("/", 1)[1]
    assert status["authenticated"] is True, status
    assert status["user"]["username"] == f"arn:aws:sts::123456789012:assumed-role/{name}/launch"
    assert status["user"]["groups"] == ["rackrate:runners"]


def test_token_of_the_aws_command_line_is_accepted(lab: Lab, cluster: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "awscli", "eks", "get-token", "--cluster-name", cluster],
        env=lab.environment(),
        capture_output=True,
        check=True,
    )
    status = review(lab, cluster, json.loads(result.stdout)["status"]["token"])
    assert status["authenticated"] is True, status
    assert status["user"]["groups"] == ["system:masters"]
    assert status["user"]["username"] == "arn:aws:iam::123456789012:user/admin"


def test_cluster_admin_policy_means_masters(lab: Lab, cluster: str) -> None:
    role = lab.role()
    eks = lab.client("eks")
    eks.create_access_entry(clusterName=cluster, principalArn=role)
    eks.associate_access_policy(
        clusterName=cluster,
        principalArn=role,
        policyArn="arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
        accessScope={"type": "cluster"},
    )
    policies = eks.list_associated_access_policies(clusterName=cluster, principalArn=role)
    assert len(policies["associatedAccessPolicies"]) == 1
    status = review(lab, cluster, token(lab, cluster, credentials(lab, role)))
    assert status["user"]["groups"] == ["system:masters"]
    eks.delete_access_entry(clusterName=cluster, principalArn=role)
    assert not review(lab, cluster, token(lab, cluster, credentials(lab, role)))["authenticated"]


BAD: dict[str, tuple[Callable[[Lab, str, dict[str, str]], str], str]] = {
    "of another cluster": (
        lambda lab, cluster, keys: token(lab, "another", keys),
        "signature does not match",
    ),
    "signed with another secret": (
        lambda lab, cluster, keys: token(lab, cluster, {**keys, "SecretAccessKey": "x" * 40}),
        "signature does not match",
    ),
    "of an unknown key": (
        lambda lab, cluster, keys: token(
            lab, cluster, {**keys, "AccessKeyId": "ASIAIOSFODNN7EXAMPLE"}
        ),
        "security token included in the request is invalid",
    ),
    "with another session's token": (
        lambda lab, cluster, keys: token(lab, cluster, {**keys, "SessionToken": "other"}),
        "security token included in the request is invalid",
    ),
    "for another host": (
        lambda lab, cluster, keys: token(lab, cluster, keys, host="http://sts.example.com"),
        "unexpected hostname",
    ),
    "that lives too long": (
        lambda lab, cluster, keys: token(lab, cluster, keys, expires=86400),
        "invalid X-Amz-Expires",
    ),
    "without the prefix": (
        lambda lab, cluster, keys: token(lab, cluster, keys).removeprefix("k8s-aws-v1."),
        "prefix",
    ),
    "that is not base64": (lambda lab, cluster, keys: "k8s-aws-v1.%%%", "base64"),
}


@pytest.mark.parametrize("case", BAD)
def test_token_is_refused(lab: Lab, cluster: str, case: str) -> None:
    role = lab.role()
    lab.client("eks").create_access_entry(clusterName=cluster, principalArn=role)
    make, complaint = BAD[case]
    status = review(lab, cluster, make(lab, cluster, credentials(lab, role)))
    assert status["authenticated"] is False
    assert complaint in status["error"]


def test_role_without_an_entry_is_refused(lab: Lab, cluster: str) -> None:
    role = lab.role()
    status = review(lab, cluster, token(lab, cluster, credentials(lab, role)))
    assert status["authenticated"] is False
    assert f"{role} has no access entry" in status["error"]


def test_expired_token_is_refused(lab: Lab, cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import lab.aws.eks.token_review as tokens

    role = lab.role()
    lab.client("eks").create_access_entry(clusterName=cluster, principalArn=role)
    text = token(lab, cluster, credentials(lab, role))
    assert review(lab, cluster, text)["authenticated"] is True
    monkeypatch.setattr(tokens, "_LIFETIME_SECONDS", -1)
    status = review(lab, cluster, text)
    assert status["authenticated"] is False
    assert "X-Amz" in status["error"]


def test_a_token_is_refused_while_a_fault_lets_it_expire(lab: Lab, cluster: str) -> None:
    role = lab.role()
    lab.client("eks").create_access_entry(clusterName=cluster, principalArn=role)
    mine = token(lab, cluster, credentials(lab, role))
    with lab.fault("token-expired", on="kubernetes"):
        assert review(lab, cluster, mine)["error"] == "token has expired"
    assert review(lab, cluster, mine)["authenticated"] is True
