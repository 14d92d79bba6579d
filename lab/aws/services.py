"""What the parts of the emulated Region share: identity, clients, state directory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

if TYPE_CHECKING:
    from .eks.service import EksService
    from .lambda_runtime import LambdaRuntime

ACCOUNT_ID = "123456789012"
REGION = "us-east-1"


@dataclass(frozen=True)
class Credentials:
    """Keys of an IAM user or of an assumed role."""

    access_key_id: str
    secret_access_key: str
    session_token: str | None = None


class ClientFactory:
    """boto3 clients of the emulated AWS; made once per service, safe to use from any thread."""

    def __init__(self, endpoint_url: str, region: str, credentials: Credentials) -> None:
        self._endpoint_url, self._region = endpoint_url, region
        self._session = boto3.Session(
            aws_access_key_id=credentials.access_key_id,
            aws_secret_access_key=credentials.secret_access_key,
            aws_session_token=credentials.session_token,
            region_name=region,
        )
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()

    def get(self, service: str) -> Any:
        """A client of the service."""
        with self._lock:
            if service not in self._clients:
                self._clients[service] = self._session.client(
                    service,  # type: ignore[call-overload]
                    endpoint_url=self._endpoint_url,
                    config=Config(
                        # A Lambda invocation may take 900 s, and must not happen twice.
                        read_timeout=960,
                        retries={"total_max_attempts": 1},
                        max_pool_connections=64,
                        s3={"addressing_style": "path"},
                        # Keep large uploads from being sent with checksums moto must unwrap.
                        request_checksum_calculation="when_required",
                        response_checksum_validation="when_required",
                    ),
                )
            return self._clients[service]


@dataclass
class Services:
    """The emulated Region's parts."""

    endpoint_url: str
    state_directory: Path
    clients: ClientFactory
    account_id: str = ACCOUNT_ID
    region: str = REGION
    eks: EksService = field(init=False)
    lambda_runtime: LambdaRuntime = field(init=False)
    custom_resources: dict[str, Callable[[bytes], None]] = field(default_factory=dict)

    def availability_zones(self, region: str) -> list[str]:
        """Names of the Region's zones, as DescribeAvailabilityZones lists them."""
        found = self.clients.get("ec2").describe_availability_zones(
            Filters=[{"Name": "region-name", "Values": [region or self.region]}]
        )
        return [zone["ZoneName"] for zone in found["AvailabilityZones"]]

    def parameter_attribute(self, kind: str, value: str, attribute: str) -> Any:
        """What a rule's Fn::ValueOf yields: an attribute of a subnet, VPC or security group.

        Raises ValueError for what such a parameter has not.
        """
        ec2 = self.clients.get("ec2")
        match kind:
            case "AWS::EC2::Subnet::Id":
                found = ec2.describe_subnets(SubnetIds=[value])["Subnets"][0]
            case "AWS::EC2::VPC::Id":
                found = ec2.describe_vpcs(VpcIds=[value])["Vpcs"][0]
            case "AWS::EC2::SecurityGroup::Id":
                found = ec2.describe_security_groups(GroupIds=[value])["SecurityGroups"][0]
            case _:
                raise ValueError(f"parameters of type {kind} have no attributes")
        if attribute.startswith("Tags."):
            tags = {tag["Key"]: tag["Value"] for tag in found.get("Tags", [])}
            return tags.get(attribute.removeprefix("Tags."), "")
        if attribute not in found:
            raise ValueError(f"{kind} has no attribute {attribute}")
        return found[attribute]

    def read_ssm(self, name: str) -> str:
        """The value of a Systems Manager parameter."""
        found = self.clients.get("ssm").get_parameter(Name=name)
        return str(found["Parameter"]["Value"])
