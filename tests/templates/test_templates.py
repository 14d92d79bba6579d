"""The templates hold together, and keep the promises of the design and of EC2's fine print."""

from __future__ import annotations

import json
import re

import cfnlint.api
import cfnlint.core
import pytest
from cfnlint.config import ManualArgs

from lab.setup import kubernetes
from tests.templates.cloudformation import ROOT, TEMPLATES, load, walk

ROOT_TEMPLATE = load(ROOT / "template.yaml")
LOADED = {path: load(path) for path in TEMPLATES}
NESTED = {
    name: resource["Properties"]
    for name, resource in ROOT_TEMPLATE["Resources"].items()
    if resource["Type"] == "AWS::CloudFormation::Stack"
}


def ids(paths):
    return [path.stem for path in paths]


def resources(template, kind):
    return {n: r for n, r in template["Resources"].items() if r["Type"] == kind}


@pytest.mark.parametrize("path", TEMPLATES, ids=ids(TEMPLATES))
def test_cfn_lint_finds_nothing(path):
    found = cfnlint.api.lint(path.read_text(), config=ManualArgs(regions=["us-east-1"]))
    assert [f"{match.linenumber}: {match.rule.id} {match.message}" for match in found] == []


@pytest.mark.parametrize("path", TEMPLATES, ids=ids(TEMPLATES))
def test_every_parameter_and_output_is_described(path):
    for section in ("Parameters", "Outputs"):
        for name, entry in LOADED[path].get(section, {}).items():
            assert entry.get("Description"), f"{section} {name}"


@pytest.mark.parametrize("path", TEMPLATES, ids=ids(TEMPLATES))
def test_nothing_is_exported_and_no_partition_is_written_out(path):
    assert "Export:" not in path.read_text()
    assert not re.search(r"arn:aws[:-]", path.read_text())


@pytest.mark.parametrize("name", NESTED)
def test_a_nested_stack_is_given_exactly_the_parameters_it_needs(name):
    child = LOADED[ROOT / NESTED[name]["TemplateURL"]]
    given = set(NESTED[name].get("Parameters", {}))
    declared = child["Parameters"]
    required = {key for key, value in declared.items() if "Default" not in value}
    assert given <= set(declared)
    assert required <= given


def test_every_output_that_is_used_exists():
    used = re.findall(r"(\w+)\.Outputs\.(\w+)", json.dumps(ROOT_TEMPLATE).replace('", "', "."))
    assert used
    for stack, output in used:
        assert output in LOADED[ROOT / NESTED[stack]["TemplateURL"]]["Outputs"], (stack, output)


def test_the_lab_builds_the_kubernetes_that_the_stack_defaults_to():
    default = ROOT_TEMPLATE["Parameters"]["KubernetesVersion"]["Default"]
    assert kubernetes.version().startswith(f"{default}.")


def test_the_public_contract_of_the_root():
    assert {
        *("StateMachineArn", "TableName", "BucketName", "ClusterName"),
        *("UpdateKubeconfigCommand", "Namespace"),
    } <= set(ROOT_TEMPLATE["Outputs"])
    defaults = {n: p.get("Default") for n, p in ROOT_TEMPLATE["Parameters"].items()}
    assert None not in defaults.values(), "the stack deploys without any parameter"
    assert defaults["InstanceType"] == "c5.large"
    assert "@sha256:" in defaults["ToolImage"], "an image that is not pinned changes under us"


def test_every_root_parameter_is_labelled_and_in_one_group():
    interface = ROOT_TEMPLATE["Metadata"]["AWS::CloudFormation::Interface"]
    grouped = [p for group in interface["ParameterGroups"] for p in group["Parameters"]]
    assert sorted(grouped) == sorted(ROOT_TEMPLATE["Parameters"])
    assert set(interface["ParameterLabels"]) == set(ROOT_TEMPLATE["Parameters"])


def test_both_arms_are_one_template_and_differ_only_in_their_placement_group():
    treatment, baseline = NESTED["TreatmentNodes"], NESTED["BaselineNodes"]
    assert treatment["TemplateURL"] == baseline["TemplateURL"]
    different = {
        key
        for key in treatment["Parameters"]
        if treatment["Parameters"][key] != baseline["Parameters"][key]
    }
    assert different == {"PlacementGroupName"}


def test_what_eks_refuses_in_a_launch_template_is_not_there():
    template = LOADED[ROOT / "templates" / "nodegroup.yaml"]
    data = template["Resources"]["LaunchTemplate"]["Properties"]["LaunchTemplateData"]
    refused = {"IamInstanceProfile", "InstanceMarketOptions", "HibernationOptions", "InstanceType"}
    assert not refused & set(data)
    group = template["Resources"]["NodeGroup"]["Properties"]
    assert "InstanceTypes" in group
    assert not {"DiskSize", "RemoteAccess"} & set(group), "belong in the launch template"
    assert data["MetadataOptions"] == {"HttpTokens": "required", "HttpPutResponseHopLimit": 1}
    (disk,) = data["BlockDeviceMappings"]
    assert disk["Ebs"]["Encrypted"] is True
    assert len(group["Subnets"]) == 1, "a cluster group with several zones cannot be upgraded"
    sizes = group["ScalingConfig"]
    assert sizes["MinSize"] == sizes["DesiredSize"] == sizes["MaxSize"]


def test_placement_group_properties_appear_only_with_their_strategy():
    properties = LOADED[ROOT / "templates" / "placement.yaml"]["Resources"]["Group"]["Properties"]
    assert properties["SpreadLevel"]["Fn::If"][0] == "IsSpread"
    assert properties["PartitionCount"]["Fn::If"][0] == "IsPartition"
    assert "GroupName" not in properties


def test_what_is_kept_and_what_is_dropped_are_the_same_but_for_their_policy():
    template = LOADED[ROOT / "templates" / "results.yaml"]["Resources"]
    for kind in ("Table", "Bucket"):
        kept, dropped = template[f"Kept{kind}"], template[f"Dropped{kind}"]
        assert kept["Properties"] == dropped["Properties"]
        assert (kept["DeletionPolicy"], dropped["DeletionPolicy"]) == ("Retain", "Delete")


def functions():
    for path, template in LOADED.items():
        shared = template.get("Globals", {}).get("Function", {})
        for name, resource in resources(template, "AWS::Serverless::Function").items():
            yield pytest.param(
                path, name, {**shared, **resource["Properties"]}, id=f"{path.stem}-{name}"
            )


@pytest.mark.parametrize(("path", "name", "properties"), list(functions()))
class TestFunctions:
    def test_its_handler_exists(self, path, name, properties):
        module, _, function = properties["Handler"].rpartition(".")
        code = (path.parent / properties["CodeUri"]).resolve()
        assert code == ROOT / "functions"
        source = (code / f"{module.replace('.', '/')}.py").read_text()
        assert f"def {function}(" in source
        assert len(source.splitlines()) < 55, "handlers are thin"

    def test_it_has_its_own_role_and_a_log_group_that_forgets(self, path, name, properties):
        assert properties["Role"] == {"Fn::GetAtt": [name.replace("Function", "Role"), "Arn"]}
        logs = LOADED[path]["Resources"][properties["LoggingConfig"]["LogGroup"]["Ref"]]
        assert logs["Properties"]["RetentionInDays"] == {"Ref": "LogRetentionDays"}

    def test_it_has_python_memory_and_time(self, path, name, properties):
        assert properties["Runtime"] == "python3.13"
        assert 256 <= properties["MemorySize"] <= 512
        assert 0 < properties["Timeout"] <= 300


def test_functions_that_talk_to_the_cluster_and_no_others_may_enter_it():
    template = LOADED[ROOT / "templates" / "benchmark.yaml"]
    entries = {
        entry["Properties"]["PrincipalArn"]["Fn::GetAtt"][0].removesuffix("Role").lower()
        for entry in resources(template, "AWS::EKS::AccessEntry").values()
    }
    talking = {
        path.stem
        for path in (ROOT / "functions" / "handlers").glob("*.py")
        if "cluster" in path.read_text() and path.stem not in ("context", "bootstrap", "__init__")
    }
    assert entries == talking
    for entry in resources(template, "AWS::EKS::AccessEntry").values():
        assert "AccessPolicies" not in entry["Properties"]
        assert entry["Properties"]["KubernetesGroups"] == [{"Ref": "RunnersGroup"}]


@pytest.mark.parametrize("path", TEMPLATES, ids=ids(TEMPLATES))
def test_every_star_in_a_policy_has_a_reason_beside_it(path):
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines):
        if "AllowedPattern" in line or line.lstrip().startswith("#"):
            continue
        if re.search(r'(: "\*"|/\*$|/\*"?$|:\*$|runs/\*)', line.rstrip()):
            # The reason stands above the statement or above the value.
            nearby = lines[max(0, number - 14) : number + 1]
            assert any("#" in near for near in nearby), f"{path.name}:{number + 1}: {line.strip()}"


def test_no_policy_allows_an_action_with_a_star():
    for path, template in LOADED.items():
        for value in walk(template):
            if isinstance(value, dict) and value.get("Effect") == "Allow":
                actions = (
                    value["Action"] if isinstance(value["Action"], list) else [value["Action"]]
                )
                assert not [action for action in actions if "*" in action], path


def test_the_state_machine_may_call_every_function_it_names():
    template = LOADED[ROOT / "templates" / "benchmark.yaml"]["Resources"]
    called = {
        value["Fn::GetAtt"][0]
        for value in template["StateMachine"]["Properties"]["DefinitionSubstitutions"].values()
        if "Fn::GetAtt" in value
    }
    policy = template["StateMachineRole"]["Properties"]["Policies"][0]["PolicyDocument"]
    (statement,) = (s for s in policy["Statement"] if s.get("Action") == "lambda:InvokeFunction")
    assert {arn["Fn::GetAtt"][0] for arn in statement["Resource"]} == called
