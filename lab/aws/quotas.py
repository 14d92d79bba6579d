"""The quotas of the lab's account, which moto lacks: EC2's, VPC's, EKS's, CodeBuild's and Lambda's
concurrency.

The codes, the names and the defaults are AWS's, in the form of an account that is new. The applied
values are the lab's: those of an account whose owner has asked for more of what the lab uses.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from moto.awslambda import urls
from moto.awslambda.responses import LambdaResponse
from moto.servicequotas.exceptions import NoSuchResource
from moto.servicequotas.models import ServiceQuotasBackend
from moto.servicequotas.responses import ServiceQuotasResponse

NODES_PER_GROUP = 450
CONCURRENT_EXECUTIONS = 1000

VPCS = ("vpc", "L-F678F1CE")
NAT_GATEWAYS_PER_ZONE = ("vpc", "L-FE5A380F")
ELASTIC_ADDRESSES = ("ec2", "L-0263D0A3")
LINUX_LARGE_BUILDS = ("codebuild", "L-4DDC4A99")
ARM_LARGE_BUILDS = ("codebuild", "L-596BEAB4")


@dataclass(frozen=True)
class Quota:
    """A quota's name, AWS's default for it, and the account's value if its owner asked for more."""

    name: str
    default: float
    applied: float | None = None

    @property
    def value(self) -> float:
        """What the account may have."""
        return self.default if self.applied is None else self.applied


def _running(kinds: str, default: float = 0.0, applied: float | None = None) -> Quota:
    return Quota(f"Running On-Demand {kinds} instances", default, applied)


#: The quotas of vCPUs by code, each with the letters that the instance types begin with that it
#: counts. Types that are not here, such as mac, run on Dedicated Hosts only, which have quotas of
#: their own.
_VCPUS = {
    "L-1216C47A": (
        _running("Standard (A, C, D, H, I, M, R, T, Z)", 5.0, 4096.0),
        ("a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"),
    ),
    "L-6E869C2A": (_running("DL"), ("dl",)),
    "L-74FC7D96": (_running("F"), ("f",)),
    "L-DB2E81BA": (_running("G and VT"), ("g", "gr", "vt")),
    "L-F7808C92": (_running("HPC"), ("hpc",)),
    "L-43DA4232": (_running("High Memory"), ("u",)),
    "L-1945791B": (_running("Inf"), ("inf",)),
    "L-417A185B": (_running("P"), ("p",)),
    "L-2C3B7624": (_running("Trn"), ("trn",)),
    "L-7295265B": (_running("X"), ("x",)),
}
_CODES = {family: code for code, (_, families) in _VCPUS.items() for family in families}

#: By service and code. An account has an applied value only of what its owner asked for.
QUOTAS = {
    **{("ec2", code): quota for code, (quota, _) in _VCPUS.items()},
    ELASTIC_ADDRESSES: Quota("EC2-VPC Elastic IPs", 5.0, 20.0),
    VPCS: Quota("VPCs per Region", 5.0, 50.0),
    NAT_GATEWAYS_PER_ZONE: Quota("NAT gateways per Availability Zone", 5.0, 20.0),
    ("eks", "L-BD136A63"): Quota("Nodes per managed node group", 450.0, float(NODES_PER_GROUP)),
    LINUX_LARGE_BUILDS: Quota("Concurrently running builds for Linux/Large environment", 1.0, 10.0),
    ARM_LARGE_BUILDS: Quota("Concurrently running builds for ARM/Large environment", 1.0, 10.0),
}

_SERVICES = {
    "codebuild": "AWS CodeBuild",
    "ec2": "Amazon Elastic Compute Cloud (Amazon EC2)",
    "eks": "Amazon Elastic Kubernetes Service (Amazon EKS)",
    "vpc": "Amazon Virtual Private Cloud (Amazon VPC)",
}

#: moto's paths of Lambda's API, and that of GetAccountSettings.
LAMBDA_PATHS = {
    **urls.url_paths,
    r"{0}/(?P<api_version>[^/]+)/account-settings/?$": LambdaResponse.dispatch,
}


def vcpu_quota_code(instance_type: str) -> str | None:
    """The code of the quota that counts the vCPUs of a type; None for types that none counts."""
    family = re.match(r"[a-z]+", instance_type)
    return _CODES.get(family[0]) if family else None


def get_service_quota(
    backend: ServiceQuotasBackend, service_code: str, quota_code: str
) -> dict[str, Any]:
    """The applied value. AWS has none of a quota of which nobody asked for more.

    Source: GetServiceQuota in the Service Quotas API reference ("If the applied quota value is not
    available for a quota, the quota is not retrieved").
    """
    quota = QUOTAS.get((service_code, quota_code))
    if quota is None or quota.applied is None:
        raise NoSuchResource
    return _described(backend, service_code, quota_code, quota, quota.value)


def get_aws_default_service_quota(response: ServiceQuotasResponse) -> str:
    parameters = json.loads(response.body)
    service, code = parameters.get("ServiceCode"), parameters.get("QuotaCode")
    quota = QUOTAS.get((service, code))
    if quota is None:
        raise NoSuchResource
    return json.dumps({"Quota": _described(response.backend, service, code, quota, quota.default)})


def _described(
    backend: ServiceQuotasBackend, service: str, code: str, quota: Quota, value: float
) -> dict[str, Any]:
    place = f"{backend.region_name}:{backend.account_id}:{service}/{code}"
    return {
        "ServiceCode": service,
        "ServiceName": _SERVICES[service],
        "QuotaArn": f"arn:aws:servicequotas:{place}",
        "QuotaCode": code,
        "QuotaName": quota.name,
        "Value": value,
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }


def get_account_settings(response: LambdaResponse) -> str:
    limit = {
        "TotalCodeSize": 75 * 2**30,
        "CodeSizeUnzipped": 250 * 2**20,
        "CodeSizeZipped": 50 * 2**20,
        "ConcurrentExecutions": CONCURRENT_EXECUTIONS,
        "UnreservedConcurrentExecutions": CONCURRENT_EXECUTIONS,
    }
    return json.dumps({"AccountLimit": limit, "AccountUsage": {"FunctionCount": 0}})
