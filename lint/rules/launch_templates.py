"""Launch templates, and managed node groups that use them, that EC2 or EKS refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from cfnlint.template import Template

from lint.rule import Rule
from lint.template import (
    Place,
    pick,
    possible,
    properties,
    referred,
    resolved,
    resources,
    scenarios,
)

GUIDE = "https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html"
CREATE_NODEGROUP = "https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html"
SPECIFICATION = (
    "https://docs.aws.amazon.com/eks/latest/APIReference/API_LaunchTemplateSpecification.html"
)
NODE_GROUP = "AWS::EKS::Nodegroup"
LAUNCH_TEMPLATE = "AWS::EC2::LaunchTemplate"


@dataclass(frozen=True)
class Pairing:
    """A node group and its launch template, of the same CloudFormation template, in one scenario.

    Attributes:
        group_place: the place of the node group's properties.
        group: its properties in the scenario.
        data_place: the place of the launch template's data.
        data: the LaunchTemplateData in the scenario.
        scenario: the outcomes of the conditions.
    """

    group_place: Place
    group: dict[str, Any]
    data_place: Place
    data: dict[str, Any]
    scenario: dict[str, bool]


def pairings(cfn: Template, of_group: set[str], of_data: set[str]) -> Iterator[Pairing]:
    """All node groups with their launch templates, in all scenarios of these properties.

    This resolves only the named properties, because the number of scenarios grows with them.
    """
    templates = dict(resources(cfn, LAUNCH_TEMPLATE))
    for group_id, group in resources(cfn, NODE_GROUP):
        owned = pick(properties(group), "LaunchTemplate", *of_group)
        for template_id in sorted(referred(pick(owned, "LaunchTemplate")) & set(templates)):
            template = templates[template_id]
            data = pick(properties(template).get("LaunchTemplateData"), *of_data)
            for scenario in scenarios(cfn, owned, data, given=[group, template]):
                found = resolved(owned, scenario)
                if template_id in referred(found.get("LaunchTemplate")):
                    yield Pairing(
                        ["Resources", group_id, "Properties"],
                        found,
                        ["Resources", template_id, "Properties", "LaunchTemplateData"],
                        resolved(data, scenario),
                        scenario,
                    )


class RefusedInLaunchTemplate(Rule):
    id = "E9011"
    shortdesc = "A node group's launch template leaves these to EKS"
    description = (
        "EKS refuses a launch template with a subnet, an instance profile, a request for spot "
        "instances, hibernation or a shutdown behavior; cfn-lint itself refuses "
        "TerminateInstances, which is no property."
    )
    source_url = GUIDE
    remedies: ClassVar[dict[str, str]] = {
        "IamInstanceProfile": "remove it and set NodeRole of the node group",
        "HibernationOptions": "remove it: EKS governs the life of its instances",
        "InstanceInitiatedShutdownBehavior": "remove it: EKS governs the life of its instances",
    }

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        looked_at = {*self.remedies, "InstanceMarketOptions", "NetworkInterfaces"}
        for pair in pairings(cfn, set(), looked_at):
            for name in sorted(self.remedies.keys() & pair.data.keys()):
                yield [*pair.data_place, name], self._refusal(name, self.remedies[name])
            market = pair.data.get("InstanceMarketOptions")
            # The same property also requests capacity blocks, which EKS accepts.
            if isinstance(market, dict) and market.get("MarketType", "spot") == "spot":
                yield (
                    [*pair.data_place, "InstanceMarketOptions"],
                    self._refusal(
                        "InstanceMarketOptions for spot",
                        "remove it and set CapacityType: SPOT of the node group",
                    ),
                )
            interfaces = pair.data.get("NetworkInterfaces")
            for index, interface in enumerate(interfaces if isinstance(interfaces, list) else []):
                if isinstance(interface, dict) and "SubnetId" in interface:
                    yield (
                        [*pair.data_place, "NetworkInterfaces", index, "SubnetId"],
                        self._refusal("SubnetId", "remove it and set Subnets of the node group"),
                    )

    @staticmethod
    def _refusal(name: str, remedy: str) -> str:
        return f"EKS refuses {name} in the launch template of a node group; {remedy}"


class InstanceTypeInOnePlace(Rule):
    id = "E9012"
    shortdesc = "The instance type stands in the node group or in its launch template"
    description = (
        "With the type in both places the node group fails; with it in neither EKS takes "
        "t3.medium, which no cluster placement group holds."
    )
    source_url = CREATE_NODEGROUP

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        for pair in pairings(cfn, {"InstanceTypes"}, {"InstanceType", "InstanceRequirements"}):
            in_data = {"InstanceType", "InstanceRequirements"} & pair.data.keys()
            if "InstanceTypes" in pair.group and in_data:
                yield (
                    [*pair.group_place, "InstanceTypes"],
                    f"InstanceTypes stands beside {min(in_data)} of the launch template; "
                    "keep one of them",
                )
            if "InstanceTypes" not in pair.group and not in_data:
                yield (
                    pair.group_place,
                    "no instance type, so EKS takes t3.medium; set InstanceTypes here or "
                    "InstanceType in the launch template",
                )


class DiskOrAccessBesideLaunchTemplate(Rule):
    id = "E9013"
    shortdesc = "DiskSize and RemoteAccess do not go with a launch template"
    description = "EKS refuses a node group that has either and a launch template."
    source_url = CREATE_NODEGROUP
    remedies: ClassVar[dict[str, str]] = {
        "DiskSize": "BlockDeviceMappings of the launch template",
        "RemoteAccess": "KeyName and SecurityGroupIds of the launch template",
    }

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        for logical_id, found, _ in possible(cfn, NODE_GROUP, "LaunchTemplate", *self.remedies):
            for name in sorted(self.remedies.keys() & found.keys()):
                if "LaunchTemplate" in found:
                    yield (
                        ["Resources", logical_id, "Properties", name],
                        f"EKS refuses {name} beside LaunchTemplate; remove it and use "
                        f"{self.remedies[name]}",
                    )


class LaunchTemplateIdOrName(Rule):
    id = "E9014"
    shortdesc = "A node group names its launch template once"
    description = "EKS asks for the launch template's Id or its Name, not both."
    source_url = SPECIFICATION

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        for logical_id, found, _ in possible(cfn, NODE_GROUP, "LaunchTemplate"):
            template = found.get("LaunchTemplate")
            if not isinstance(template, dict):
                continue
            named = {"Id", "Name"} & template.keys()
            place: Place = ["Resources", logical_id, "Properties", "LaunchTemplate"]
            if len(named) == 2:
                yield place, "LaunchTemplate has Id and Name; keep Id"
            if not named:
                yield place, "LaunchTemplate has neither Id nor Name; set Id"


class ImageWithoutUserData(Rule):
    id = "E9015"
    shortdesc = "An image of one's own needs user data of one's own"
    description = (
        "EKS adds its user data only to its own images: nodes of another image do not join "
        "without UserData."
    )
    source_url = f"{GUIDE}#launch-template-custom-ami"

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        for pair in pairings(cfn, set(), {"ImageId", "UserData"}):
            if "ImageId" in pair.data and "UserData" not in pair.data:
                yield (
                    [*pair.data_place, "ImageId"],
                    "ImageId without UserData: the nodes would not join; add UserData that "
                    "does, or remove ImageId and choose AmiType",
                )


class AmiTypeBesideImage(Rule):
    id = "E9016"
    shortdesc = "AmiType, Version and ReleaseVersion do not go with an image of one's own"
    description = "EKS refuses them in a node group whose launch template has an ImageId."
    source_url = CREATE_NODEGROUP

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        names = {"AmiType", "Version", "ReleaseVersion"}
        for pair in pairings(cfn, names, {"ImageId"}):
            if "ImageId" not in pair.data:
                continue
            for name in sorted(names & pair.group.keys()):
                if name == "AmiType" and pair.group[name] == "CUSTOM":
                    continue
                yield (
                    [*pair.group_place, name],
                    f"EKS refuses {name} beside ImageId of the launch template; keep one of them",
                )


class SeveralSubnetsInPlacementGroup(Rule):
    id = "E9017"
    shortdesc = "Nodes of a placement group start in one subnet"
    description = (
        "A cluster placement group lies in one zone. With subnets in several, the node group may "
        "be created and fail at a later upgrade. For a comparison, one zone is right in any case."
    )
    source_url = "https://github.com/terraform-aws-modules/terraform-aws-eks/issues/3044"

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        for pair in pairings(cfn, {"Subnets"}, {"Placement"}):
            placement = pair.data.get("Placement")
            is_placed = isinstance(placement, dict) and {"GroupName", "GroupId"} & placement.keys()
            if is_placed and not self._is_one(pair.group.get("Subnets", [])):
                yield (
                    [*pair.group_place, "Subnets"],
                    "Subnets can be several, and the nodes start in a placement group; give "
                    "a list of one subnet",
                )

    @staticmethod
    def _is_one(subnets: Any) -> bool:
        return isinstance(subnets, list) and len(subnets) <= 1


class SecurityGroupsInOnePlace(Rule):
    id = "E9018"
    shortdesc = "Security groups stand in NetworkInterfaces where there are any"
    description = (
        "EC2 refuses security groups of the instance beside network interfaces, which have "
        "their own."
    )
    source_url = (
        "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RequestLaunchTemplateData.html"
    )

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        data, names = "LaunchTemplateData", ("SecurityGroupIds", "SecurityGroups")
        for logical_id, found, _ in possible(
            cfn, LAUNCH_TEMPLATE, "NetworkInterfaces", *names, within=data
        ):
            for name in names:
                if name in found and "NetworkInterfaces" in found:
                    yield (
                        ["Resources", logical_id, "Properties", data, name],
                        f"EC2 refuses {name} beside NetworkInterfaces; move them to Groups "
                        "of the interface",
                    )
