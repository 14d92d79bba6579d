"""The rules work on our own templates: they find each deliberate violation."""

from __future__ import annotations

import re
import shutil

import pytest

from lint import rules
from tests.lint.checking import check
from tests.templates.cloudformation import ROOT

DEFINITION = "statemachine/benchmark.asl.yaml"
ACCESS = "templates/access.yaml"
BENCHMARK = "templates/benchmark.yaml"
CLUSTER = "templates/cluster.yaml"
NODES = "templates/nodegroup.yaml"
PLACEMENT = "templates/placement.yaml"
#: The rule, the template it reads, the file to break, the pattern to replace there, and by what.
BREAKAGES = [
    (rules.SpreadLevelNeedsSpread, PLACEMENT, PLACEMENT, r"\[IsSpread, ", "[HasGroup, "),
    (rules.PartitionCountNeedsPartition, PLACEMENT, PLACEMENT, r"\[IsPartition, ", "[IsSpread, "),
    (
        rules.GroupNameOrGroupId,
        NODES,
        NODES,
        r"GroupName: !If \[NamesGroupById, !Ref AWS::NoValue, (!Ref \w+)\]",
        r"GroupName: \1",
    ),
    (
        rules.SeveralSubnetsInPlacementGroup,
        NODES,
        NODES,
        r"\[!Select \[0, !Ref SubnetIds\]\]",
        "[!Select [0, !Ref SubnetIds], x]",
    ),
    (rules.InstanceTypeInOnePlace, NODES, NODES, r" +InstanceType: !Ref .*\n", ""),
    (rules.DiskOrAccessBesideLaunchTemplate, NODES, NODES, r"AmiType: !Ref.*", "DiskSize: 20"),
    (rules.RefusedInLaunchTemplate, NODES, NODES, r"AssociatePublicIpAddress:.*", "SubnetId: x"),
    (rules.StarsHaveReasons, BENCHMARK, BENCHMARK, r"(?m)^\s*#.*\n", ""),
    (rules.PermissionsBoundary, BENCHMARK, BENCHMARK, r" +PermissionsBoundary:.*\n", ""),
    (rules.TrustNamesTheAccount, BENCHMARK, BENCHMARK, r'StringEquals: { "aws:SourceAccount.*', ""),
    (rules.TrustNamesTheAccount, CLUSTER, CLUSTER, r'StringEquals: { "aws:SourceAccount.*', ""),
    (rules.OnlyLambdaMakesInterfaces, ACCESS, ACCESS, r"lambda:SourceFunctionArn:", "aws:x:"),
    (rules.OwnRole, BENCHMARK, BENCHMARK, r"!GetAtt PlanRole.Arn", "!GetAtt AwaitServersRole.Arn"),
    (rules.DescribedParameters, "template.yaml", "template.yaml", r" +ConstraintDescr.*\n", ""),
    (rules.DefinitionTasks, BENCHMARK, DEFINITION, r" +TimeoutSeconds: 90\n", ""),
    (rules.DefinitionRetries, BENCHMARK, DEFINITION, r" +- Runtime.ExitError\n", ""),
    (rules.DefinitionErrors, BENCHMARK, DEFINITION, r"ClusterUnreachable", "RackrateError"),
    (rules.DefinitionSubstitutions, BENCHMARK, BENCHMARK, r" +PlanFunctionArn:.*\n", ""),
    (rules.DefinitionPermissions, BENCHMARK, BENCHMARK, r" +- !GetAtt ReportFunction.Arn\n", ""),
    (rules.DefinitionPermissions, BENCHMARK, DEFINITION, r"states:::s3:getObject", "states:::x:y"),
]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of all files that the rules read."""
    copy = tmp_path_factory.mktemp("checkout")
    shutil.copy(ROOT / "template.yaml", copy)
    for folder in ("templates", "statemachine", "functions", "image"):
        shutil.copytree(ROOT / folder, copy / folder)
    return copy


@pytest.mark.parametrize(
    ("rule", "template", "broken", "pattern", "replacement"),
    BREAKAGES,
    ids=[f"{rule.id}-{pattern}" for rule, _, _, pattern, _ in BREAKAGES],
)
def test_a_template_of_ours_that_is_broken_is_found(
    checkout, rule, template, broken, pattern, replacement
):
    path = checkout / broken
    whole = path.read_text()
    text = re.sub(pattern, replacement, whole)
    assert text != whole, "there is nothing to break any more"
    assert check(checkout / template, rule, (checkout / template).read_text()) == []
    try:
        path.write_text(text)
        assert check(checkout / template, rule, (checkout / template).read_text()) != []
    finally:
        path.write_text(whole)
