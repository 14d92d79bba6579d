"""The classes of all rules."""

from __future__ import annotations

from lint.rules.addons import AddonConfigurationIsJson
from lint.rules.cluster_access import (
    AccessEntriesNeedTheApiMode,
    GroupsOfKubernetesItself,
    NodeEntriesCarryNoRights,
    OneWayToGrantRights,
)
from lint.rules.functions import (
    CustomResourceTimeOut,
    FunctionLogsAreKept,
    OwnRole,
)
from lint.rules.launch_templates import (
    AmiTypeBesideImage,
    DiskOrAccessBesideLaunchTemplate,
    ImageWithoutUserData,
    InstanceTypeInOnePlace,
    LaunchTemplateIdOrName,
    RefusedInLaunchTemplate,
    SecurityGroupsInOnePlace,
    SeveralSubnetsInPlacementGroup,
)
from lint.rules.parameters import DescribedParameters
from lint.rules.placement_groups import (
    GroupNameOrGroupId,
    PartitionCountNeedsPartition,
    PartitionsPerZone,
    PlacementGroupNamesItself,
    SpreadHoldsSeven,
    SpreadLevelNeedsSpread,
)
from lint.rules.policies import (
    OnlyLambdaMakesInterfaces,
    PermissionsBoundary,
    StarsHaveReasons,
    TrustNamesTheAccount,
)
from lint.rules.stacks import NoExports, NoLiteralPartition
from lint.rules.state_machines import (
    DefinitionCanBeRead,
    DefinitionErrors,
    DefinitionPermissions,
    DefinitionRetries,
    DefinitionSubstitutions,
    DefinitionTasks,
)

__all__ = [
    "AccessEntriesNeedTheApiMode",
    "AddonConfigurationIsJson",
    "AmiTypeBesideImage",
    "CustomResourceTimeOut",
    "DefinitionCanBeRead",
    "DefinitionErrors",
    "DefinitionPermissions",
    "DefinitionRetries",
    "DefinitionSubstitutions",
    "DefinitionTasks",
    "DescribedParameters",
    "DiskOrAccessBesideLaunchTemplate",
    "FunctionLogsAreKept",
    "GroupNameOrGroupId",
    "GroupsOfKubernetesItself",
    "ImageWithoutUserData",
    "InstanceTypeInOnePlace",
    "LaunchTemplateIdOrName",
    "NoExports",
    "NoLiteralPartition",
    "NodeEntriesCarryNoRights",
    "OneWayToGrantRights",
    "OnlyLambdaMakesInterfaces",
    "OwnRole",
    "PartitionCountNeedsPartition",
    "PartitionsPerZone",
    "PermissionsBoundary",
    "PlacementGroupNamesItself",
    "RefusedInLaunchTemplate",
    "SecurityGroupsInOnePlace",
    "SeveralSubnetsInPlacementGroup",
    "SpreadHoldsSeven",
    "SpreadLevelNeedsSpread",
    "StarsHaveReasons",
    "TrustNamesTheAccount",
]
