"""The quotas of the lab's account: EC2's, EKS's and Lambda's concurrency, which moto lacks.

The lab chooses the numbers. Those of EC2 and Lambda are of an account whose owner has asked for
more, that of EKS is the default.
"""

from __future__ import annotations

import json
from typing import Any

from moto.awslambda import urls
from moto.awslambda.responses import LambdaResponse
from moto.servicequotas.exceptions import NoSuchResource
from moto.servicequotas.models import ServiceQuotasBackend

#: vCPUs of running on-demand instances, by quota: standard instances, and no other kind.
VCPUS = {"L-1216C47A": ("Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", 640.0)}
NODES_PER_GROUP = 450
CONCURRENT_EXECUTIONS = 1000

_SERVICES = {
    "ec2": ("Amazon Elastic Compute Cloud (Amazon EC2)", VCPUS),
    "eks": (
        "Amazon Elastic Kubernetes Service (Amazon EKS)",
        {"L-BD136A63": ("Nodes per managed node group", float(NODES_PER_GROUP))},
    ),
}

_account_settings = r"{0}/(?P<api_version>[^/]+)/account-settings/?$"


def install() -> None:
    """Add the quotas to moto's backends. Safe to call twice."""
    ServiceQuotasBackend.get_service_quota = _get_service_quota  # type: ignore[method-assign,assignment]
    LambdaResponse.get_account_settings = _get_account_settings  # type: ignore[attr-defined]
    urls.url_paths[_account_settings] = LambdaResponse.dispatch


def _get_service_quota(
    backend: ServiceQuotasBackend, service_code: str, quota_code: str
) -> dict[str, Any]:
    service, quotas = _SERVICES.get(service_code, ("", {}))
    if quota_code not in quotas:
        raise NoSuchResource
    name, value = quotas[quota_code]
    place = f"{backend.region_name}:{backend.account_id}:{service_code}/{quota_code}"
    return {
        "ServiceCode": service_code,
        "ServiceName": service,
        "QuotaArn": f"arn:aws:servicequotas:{place}",
        "QuotaCode": quota_code,
        "QuotaName": name,
        "Value": value,
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }


def _get_account_settings(response: LambdaResponse) -> str:
    limit = {
        "TotalCodeSize": 75 * 2**30,
        "CodeSizeUnzipped": 250 * 2**20,
        "CodeSizeZipped": 50 * 2**20,
        "ConcurrentExecutions": CONCURRENT_EXECUTIONS,
        "UnreservedConcurrentExecutions": CONCURRENT_EXECUTIONS,
    }
    return json.dumps({"AccountLimit": limit, "AccountUsage": {"FunctionCount": 0}})
