"""The quotas of the lab's account: EC2's and Lambda's concurrency, which moto lacks.

The lab chooses the numbers. They are those of an account whose owner has asked for more.
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
CONCURRENT_EXECUTIONS = 1000

_account_settings = r"{0}/(?P<api_version>[^/]+)/account-settings/?$"


def install() -> None:
    """Add the quotas to moto's backends. Safe to call twice."""
    ServiceQuotasBackend.get_service_quota = _get_service_quota  # type: ignore[method-assign,assignment]
    LambdaResponse.get_account_settings = _get_account_settings  # type: ignore[attr-defined]
    urls.url_paths[_account_settings] = LambdaResponse.dispatch


def _get_service_quota(
    backend: ServiceQuotasBackend, service_code: str, quota_code: str
) -> dict[str, Any]:
    if service_code != "ec2" or quota_code not in VCPUS:
        raise NoSuchResource
    name, value = VCPUS[quota_code]
    arn = f"arn:aws:servicequotas:{backend.region_name}:{backend.account_id}:ec2/{quota_code}"
    return {
        "ServiceCode": "ec2",
        "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)",
        "QuotaArn": arn,
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
