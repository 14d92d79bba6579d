"""The parameters of a stack, and the zones that are chosen for it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_pascal

from rackrate.settings import Cni
from rackrate_text.quotas import DEFAULT_NODES_PER_GROUP

#: The account, the Region and the repository of an image in ECR.
_ECR_IMAGE = re.compile(r"(\d{12})\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com[^/]*/([^:@]+)")


def _ids(value: str | list[str]) -> list[str]:
    ids = value.split(",") if isinstance(value, str) else value
    return [id_.strip() for id_ in ids if id_.strip()]


class Request(BaseModel):
    """The stack's parameters as the custom resource receives them; see the two root templates.

    A parameter that is empty, or that only the other template has, keeps the value below.
    """

    model_config = ConfigDict(alias_generator=to_pascal, frozen=True)

    stack_name: str
    existing_cluster_name: str = ""
    existing_subnet_ids: Annotated[tuple[str, ...], BeforeValidator(_ids)] = ()
    treatment_selector: str = ""
    baseline_selector: str = ""
    load_selector: str = Field("", alias="LoadNodeSelector")
    tolerations: str = ""
    allowed_endpoints: str = ""
    on_demand_node_count: int = 0
    cluster_name: str = ""
    instance_type: str = ""
    ami_type: str = ""
    node_count: int = 0
    load_node_count: int = 0
    load_instance_type: str = ""
    endpoint: str = Field("none", alias="EndpointInstance")
    endpoint_instance_type: str = ""
    strategy: str = Field("none", alias="TreatmentStrategy")
    partition_count: int = 1
    existing_group: str = Field("", alias="ExistingPlacementGroup")
    ena_express: str = "none"
    bandwidth_weighting: str = "default"
    max_pods: int | None = None
    prefix_delegation: bool = False
    treatment_reservation: str = Field("", alias="TreatmentCapacityReservationId")
    baseline_reservation: str = Field("", alias="BaselineCapacityReservationId")
    zone: str = Field("", alias="AvailabilityZone")
    baseline_zones: str = "one"
    arms: str = "both"
    vpc_cidr: str = ""
    secondary_cidr: str = ""
    egress: str = ""
    host_network: bool = False
    tool_image: str = ""
    run_on_create: str = ""
    campaign_schedule: str = ""
    encryption_key: str = "aws"
    alarm_recipient: str = ""
    is_observed: bool = Field(True, alias="Observability")
    #: Node groups of an arm, of a stack that goes back to a release in which they were a parameter.
    given_node_groups: int = Field(0, alias="NodeGroupsPerArm")

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any]) -> Request:
        """Read the resource's properties, which CloudFormation passes as text.

        Raises:
            pydantic.ValidationError: the stack's name is missing, or a number is none.
        """
        return cls.model_validate({name: value for name, value in properties.items() if value})

    @property
    def arm_count(self) -> int:
        """How many arms the stack has."""
        return 1 if self.arms == "treatment" else 2

    @property
    def node_groups(self) -> int:
        """Node groups of an arm: as few as hold its nodes by EKS's default quota."""
        return self.given_node_groups or math.ceil(self.node_count / DEFAULT_NODES_PER_GROUP)

    @property
    def load_type(self) -> str:
        """The instance type of the load nodes, if it is not that of the arms; empty otherwise."""
        if not self.load_node_count or self.load_instance_type == self.instance_type:
            return ""
        return self.load_instance_type

    @property
    def endpoint_type(self) -> str:
        """The instance type of the instance outside the cluster; empty if there is none."""
        return "" if self.endpoint == "none" else self.endpoint_instance_type or self.instance_type

    @property
    def image_repository(self) -> str:
        """The ECR repository of the tools' image, as its ARN after the partition.

        It is empty if the image is in another registry, or if the stack builds it.
        """
        match = _ECR_IMAGE.match(self.tool_image)
        return "ecr:{1}:{0}:repository/{2}".format(*match.groups()) if match else ""

    @property
    def cni(self) -> Cni:
        """How the VPC CNI of a new cluster gives pods their addresses."""
        return Cni(self.prefix_delegation, self.ena_express != "none")

    @property
    def reservations(self) -> dict[str, str]:
        """The capacity reservations that are given, by parameter."""
        named = {
            "TreatmentCapacityReservationId": self.treatment_reservation,
            "BaselineCapacityReservationId": self.baseline_reservation,
        }
        return {parameter: id_ for parameter, id_ in named.items() if id_}


@dataclass(frozen=True)
class Zones:
    """The nodes' zone and the second zone that EKS requires; names like us-east-1a, or empty."""

    first: str = ""
    other: str = ""

    @classmethod
    def from_text(cls, text: str) -> Zones:
        """Read `str(zones)`; any other text gives no zones."""
        first, comma, other = text.partition(",")
        return cls(first, other) if comma and first and other else cls()

    def __str__(self) -> str:
        return f"{self.first},{self.other}"
