"""The account's quotas that the doctor reads, which moto lacks."""

from __future__ import annotations

import pytest

from lab.aws.quotas import CONCURRENT_EXECUTIONS, VCPUS
from tests.lab_aws.region import Lab


def test_quotas_of_vcpus_are_told_by_their_code(lab: Lab) -> None:
    quotas = lab.client("service-quotas")
    answer = quotas.get_service_quota(ServiceCode="ec2", QuotaCode="L-1216C47A")["Quota"]
    assert (answer["QuotaName"], answer["Value"]) == VCPUS["L-1216C47A"]
    with pytest.raises(quotas.exceptions.NoSuchResourceException):
        quotas.get_service_quota(ServiceCode="ec2", QuotaCode="L-00000000")


def test_lambda_tells_how_many_may_run_at_once(lab: Lab) -> None:
    limits = lab.client("lambda").get_account_settings()["AccountLimit"]
    assert limits["UnreservedConcurrentExecutions"] == CONCURRENT_EXECUTIONS


def test_eks_tells_nothing_of_versions_that_no_cluster_has(lab: Lab) -> None:
    eks = lab.client("eks")
    assert eks.describe_cluster_versions(clusterVersions=["1.02"])["clusterVersions"] == []
