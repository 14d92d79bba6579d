"""The templates fit together and follow the design.

The rules of lint/ judge policies. What EC2 and EKS refuse, the emulated ones refuse too when
tests/lab_aws deploys these templates.
"""

from __future__ import annotations

import re

import pytest

from lab.aws.cloudformation.dependencies import dependencies
from lab.aws.cloudformation.intrinsics import Resolver
from lab.aws.cloudformation.stacks import Stack
from lab.setup import kubernetes
from rackrate.stack.preflight import STACK_NAME_CHARACTERS
from rackrate_text.quotas import DEFAULT_NODES_PER_GROUP, MOST_NODE_GROUPS, divided
from tests import ROOT
from tests.templates.cloudformation import ROOTS, TEMPLATES, load, resolver, walk

LOADED = {path: load(path) for path in TEMPLATES}
OWN, EXISTING = (LOADED[path] for path in ROOTS)
#: The nested stacks of each root template.
NESTED_OF = {
    path: {
        name: resource["Properties"]
        for name, resource in LOADED[path]["Resources"].items()
        if resource["Type"] == "AWS::CloudFormation::Stack"
    }
    for path in ROOTS
}
NESTED = NESTED_OF[ROOTS[0]]


def ids(paths):
    return [path.stem for path in paths]


def resources(template, kind):
    return {n: r for n, r in template["Resources"].items() if r["Type"] == kind}


def every(kind):
    """All resources of a type in all templates, as a test's parameters."""
    return [
        pytest.param(resource["Properties"], id=f"{path.stem}-{name}")
        for path, template in LOADED.items()
        for name, resource in resources(template, kind).items()
    ]


def references(value):
    """The parameters and resources that a value refers to."""
    names = set()
    for inner in walk(value):
        if isinstance(inner, dict):
            names |= {inner["Ref"]} if isinstance(inner.get("Ref"), str) else set()
            text = inner.get("Fn::Sub", "")
            names |= set(re.findall(r"\$\{(\w+)", text[0] if isinstance(text, list) else text))
    return names


def resolved(name, **parameters):
    """A nested template, and its values for these parameters; the others are empty."""
    template = LOADED[ROOT / "templates" / f"{name}.yaml"]
    values = {**dict.fromkeys(template["Parameters"], ""), "AWS::NoValue": None, **parameters}
    known = resolver(template, values)
    known.evaluate_conditions()
    return template, known


def needed(needs, name):
    """All resources that a resource needs, directly or not."""
    return needs[name] | {far for near in needs[name] for far in needed(needs, near)}


@pytest.mark.parametrize("path", TEMPLATES, ids=ids(TEMPLATES))
def test_every_parameter_and_output_is_described_and_no_output_is_exported(path):
    """An export that another stack imports can be neither changed nor deleted."""
    for name, parameter in LOADED[path]["Parameters"].items():
        assert parameter.get("Description"), name
    for name, output in LOADED[path].get("Outputs", {}).items():
        assert output.get("Description"), name
        assert "Export" not in output, name


@pytest.mark.parametrize("folder", ["templates", "statemachine", "docs/ci", "."])
def test_no_partition_is_written_out(folder):
    """`arn:aws:` is wrong in China and GovCloud."""
    paths = [path for path in (ROOT / folder).glob("*.yaml") if not path.name.startswith(".")]
    assert paths
    assert not [path for path in paths if re.search(r"\barn:aws[a-z-]*:", path.read_text())]


def test_every_custom_resource_waits_longer_than_its_function_runs():
    """CloudFormation waits an hour for a function that died, unless it is told otherwise."""
    timeouts = {
        (path, name): properties["Timeout"]
        for path, name, properties in (each.values for each in functions())
    }
    for path, template in LOADED.items():
        for name, resource in template["Resources"].items():
            if resource["Type"].startswith("Custom::"):
                properties = resource["Properties"]
                own, _ = properties["ServiceToken"].get("Fn::GetAtt", (None, None))
                assert properties["ServiceTimeout"] > timeouts.get((path, own), 0), name


class TestNestedStacks:
    def test_each_leaves_defaults_to_the_root_which_gives_all_parameters(self):
        for nested in NESTED_OF.values():
            for name, properties in nested.items():
                parameters = LOADED[ROOT / properties["TemplateURL"]]["Parameters"]
                assert not [n for n, p in parameters.items() if "Default" in p]
                assert set(properties["Parameters"]) == set(parameters), name

    def test_each_hands_the_cost_allocation_tags_to_its_resources(self):
        stack = {"Key": "rackrate:stack", "Value": {"Ref": "AWS::StackName"}}
        center = {"Key": "rackrate:cost-center", "Value": {"Ref": "CostCenter"}}
        expected = zip(ROOTS, ([stack, center], [stack]), strict=True)
        for path, tags in expected:
            assert all(properties["Tags"] == tags for properties in NESTED_OF[path].values())

    def test_every_template_is_used(self):
        used = {ROOT / each["TemplateURL"] for of in NESTED_OF.values() for each in of.values()}
        assert used == set(TEMPLATES) - set(ROOTS)


def test_only_a_root_has_resources_that_fail_with_a_sentence_because_sam_prints_no_nested_events():
    """A nested stack's failure reaches the root's events as "Embedded stack ... was not
    successfully created: The following resource(s) failed to create: [...]", without the
    reason, and `sam deploy` reads the root's events only (aws-cdk 5974 and 27318)."""
    hidden = {
        resource["Type"]
        for path, template in LOADED.items()
        for resource in template["Resources"].values()
        if path not in ROOTS and resource["Type"].startswith("Custom::")
    }
    assert hidden == {
        "Custom::EmptyBucket",
        "Custom::StoppedRuns",
        "Custom::StoppedCampaigns",
    }, "they act only when the stack is deleted"


def test_the_lab_builds_the_kubernetes_that_the_stack_defaults_to():
    default = OWN["Parameters"]["KubernetesVersion"]["Default"]
    assert kubernetes.version().startswith(f"{default}.")


def test_a_parameter_of_both_roots_takes_the_same_values():
    for name in OWN["Parameters"].keys() & EXISTING["Parameters"].keys():
        one, other = (dict(root["Parameters"][name]) for root in (OWN, EXISTING))
        for parameter in (one, other):
            # Half of a text, or of what the parameter means there.
            del parameter["Description"]
        assert one == other, name


@pytest.mark.parametrize("root", [OWN, EXISTING], ids=ids(ROOTS))
class TestRoots:
    def test_the_preflight_comes_first_and_what_is_kept_comes_after_the_nodes(self, root):
        parameters = {"ExistingClusterName": "mine", "RunOnCreate": "{}", "EncryptionKey": "create"}
        parameters |= {"CampaignSchedule": "rate(1 day)", "ToolImage": "build"}
        values = {name: p.get("Default") for name, p in root["Parameters"].items()}
        conditions = resolver(root, values | parameters)
        conditions.evaluate_conditions()
        stack = Stack("id", "name", "", {}, [], {}, template=root)
        stack.conditions = conditions.conditions
        needs = dependencies(stack)
        first = {"Layers", "PreflightFunction", "Preflight"}
        assert needs["Preflight"] == {"PreflightFunction"}
        for name in needs.keys() - first:
            assert "Preflight" in needed(needs, name), name
        early = {"ClusterBootstrap", "TreatmentNodes", "BaselineNodes"} & needs.keys()
        assert early <= needed(needs, "Results"), "a failed creation must not leave results"

    def test_what_other_programs_read_is_among_the_outputs(self, root):
        assert {
            *("StateMachineArn", "TableName", "BucketName", "ClusterName"),
            *("UpdateKubeconfigCommand", "Namespace"),
        } <= set(root["Outputs"])

    def test_it_deploys_without_any_parameter_but_the_name_of_a_cluster_that_exists(self, root):
        defaults = {n: p.get("Default") for n, p in root["Parameters"].items()}
        assert [name for name, value in defaults.items() if value is None] == [
            name for name in ("ExistingClusterName",) if name in defaults
        ]
        assert "@sha256:" in defaults["ToolImage"], "an image that is not pinned changes under us"

    def test_every_parameter_does_something(self, root):
        working = {k: root[k] for k in ("Resources", "Conditions", "Outputs")}
        assert set(root["Parameters"]) - references(working) == set()

    def test_every_parameter_takes_only_what_makes_sense(self, root):
        constraints = {"AllowedValues", "AllowedPattern", "MinValue", "MaxValue"}
        for name, parameter in root["Parameters"].items():
            assert "AWS::" in parameter["Type"] or constraints & parameter.keys(), name
            explained = "ConstraintDescription" in parameter
            assert explained or "AllowedPattern" not in parameter, "the console shows the pattern"

    def test_every_parameter_is_labelled_and_in_one_group_of_the_form(self, root):
        interface = root["Metadata"]["AWS::CloudFormation::Interface"]
        grouped = [p for group in interface["ParameterGroups"] for p in group["Parameters"]]
        assert sorted(grouped) == sorted(root["Parameters"])
        assert set(interface["ParameterLabels"]) == set(root["Parameters"])
        labels = [label["default"] for label in interface["ParameterLabels"].values()]
        assert len(set(labels)) == len(labels), "two fields of the form read the same"


def test_a_stack_of_an_earlier_stacks_name_has_a_cluster_of_another_name():
    """EKS makes the log group of a deleted cluster anew, which the next one could not make."""
    arn = "arn:aws:cloudformation:us-east-1:123456789012:stack/rackrate"
    names = {
        resolver(OWN, {"AWS::StackName": "rackrate", "AWS::StackId": f"{arn}/{id_}"}).resolve(
            NESTED["Cluster"]["Parameters"]["ClusterName"]
        )
        for id_ in ("51af3dc0-da77-11e4-872e-1234567db123", "e722ae60-fe62-11e8-9a0e-0ae8cc519968")
    }
    assert names == {"rackrate-51af3dc0", "rackrate-e722ae60"}
    added = len("-51af3dc0")
    assert STACK_NAME_CHARACTERS + added <= LONGEST_NAMES["AWS::EKS::Cluster", "Name"]


#: EC2 refuses this with another strategy than its own.
OF_OTHERS = {"PartitionCount": "2"}


class TestArms:
    def test_both_are_one_template_and_differ_only_in_what_is_compared(self):
        treatment, baseline = NESTED["TreatmentNodes"], NESTED["BaselineNodes"]
        assert treatment["TemplateURL"] == baseline["TemplateURL"]
        different = {
            key
            for key in treatment["Parameters"]
            if treatment["Parameters"][key] != baseline["Parameters"][key]
        }
        assert different == {
            "Arm",
            "PlacementGroup",
            "PlacementGroupIsId",
            "CapacityReservationId",
            "EnaExpress",
            "SubnetIds",
        }
        outputs = LOADED[ROOT / "templates" / "network.yaml"]["Outputs"]
        spans, _, of_one_zone = outputs["BaselineSubnetIds"]["Value"]["Fn::If"]
        assert spans == "BaselineSpansZones"
        assert of_one_zone == outputs["NodeSubnetId"]["Value"]
        assert baseline["Parameters"]["PlacementGroup"] == ""

    def test_nodes_are_closed_and_encrypted(self):
        template = LOADED[ROOT / "templates" / "nodegroup.yaml"]
        data = template["Resources"]["LaunchTemplate"]["Properties"]["LaunchTemplateData"]
        assert data["MetadataOptions"] == {"HttpTokens": "required", "HttpPutResponseHopLimit": 1}
        disks = [value["Ebs"] for value in walk(data) if isinstance(value, dict) and "Ebs" in value]
        assert disks and all(disk["Encrypted"] is True for disk in disks)
        assert all(i["AssociatePublicIpAddress"] is False for i in data["NetworkInterfaces"])

    @pytest.mark.parametrize("idles", ["false", "true"])
    @pytest.mark.parametrize("number", [1, 2, 3, 4])
    def test_the_node_groups_of_an_arm_differ_only_in_their_fixed_numbers_of_nodes(
        self, number, idles
    ):
        template = LOADED[ROOT / "templates" / "nodegroup.yaml"]
        sizes = divided(9, number) + [0] * (4 - number)
        values = {
            **dict.fromkeys(template["Parameters"], ""),
            "Arm": "treatment",
            "ScalesToZero": idles,
            **{
                f"NodesOf{name}Group": str(size)
                for name, size in zip(("First", "Second", "Third", "Fourth"), sizes, strict=True)
            },
        }
        known = Resolver(
            template,
            reference=lambda name: values.get(name, name),
            attribute=lambda resource, name: f"{name} of {resource}",
        )
        known.evaluate_conditions()
        groups = {
            name: known.resolve(resource["Properties"])
            for name, resource in template["Resources"].items()
            if resource["Type"] == "AWS::EKS::Nodegroup"
            and ("Condition" not in resource or known.conditions[resource["Condition"]])
        }
        scaling = [group.pop("ScalingConfig") for group in groups.values()]
        assert [int(size["DesiredSize"]) for size in scaling] == sizes[:number]
        assert all(size["MaxSize"] == size["DesiredSize"] for size in scaling)
        assert all(
            size["MinSize"] == (0 if idles == "true" else size["MaxSize"]) for size in scaling
        )
        first, *others = groups.values()
        assert all(other == first for other in others)
        outputs = {name: known.resolve(out["Value"]) for name, out in template["Outputs"].items()}
        assert outputs.pop("LaunchTemplateArn").endswith(":launch-template/LaunchTemplate")
        assert outputs == {
            "Names": ",".join(f"NodegroupName of {name}" for name in groups),
            "Arns": ",".join(f"Arn of {name}" for name in groups),
        }

    def test_an_arm_may_have_as_many_nodes_as_its_node_groups_hold_by_default(self):
        most = MOST_NODE_GROUPS * DEFAULT_NODES_PER_GROUP
        assert OWN["Parameters"]["NodeCount"]["MaxValue"] == most

    def test_the_functions_select_the_nodes_of_an_arm_by_the_label_that_they_carry(self):
        group = LOADED[ROOT / "templates" / "nodegroup.yaml"]["Resources"]["NodeGroup"]
        assert group["Properties"]["Labels"]["rackrate.dev/arm"] == {"Ref": "Arm"}
        for arm in ("Treatment", "Baseline"):
            name = NESTED[f"{arm}Nodes"]["Parameters"]["Arm"]
            for stack in ("Benchmark", "Campaign"):
                selector = NESTED[stack]["Parameters"][f"{arm}Selector"]
                # Without a baseline its selector is empty.
                expected = f"rackrate.dev/arm={name}"
                assert selector in (expected, {"Fn::If": ["HasBaseline", expected, ""]})

    def test_load_nodes_are_in_no_group_and_lack_the_label_by_which_a_stack_finds_arms(self):
        load = NESTED["LoadNodes"]["Parameters"]
        assert load["PlacementGroup"] == load["CapacityReservationId"] == ""
        _, known = resolved("nodegroup", Arm=load["Arm"])
        assert known.conditions["IsCompared"] is False
        selected = NESTED["Benchmark"]["Parameters"]["LoadNodeSelector"]["Fn::If"]
        assert selected[:2] == ["CreatesLoadNodes", f"rackrate.dev/arm={load['Arm']}"]
        assert NESTED["Campaign"]["Parameters"]["LoadNodeSelector"]["Fn::If"] == selected

    @pytest.mark.parametrize(
        ("group", "is_id", "placement"),
        [
            ("theirs", "false", {"GroupName": "theirs"}),
            ("pg-0123456789abcdef0", "true", {"GroupId": "pg-0123456789abcdef0"}),
            ("", "false", None),
        ],
    )
    def test_the_launch_template_names_the_group_by_its_name_or_by_its_id(
        self, group, is_id, placement
    ):
        template, known = resolved("nodegroup", PlacementGroup=group, PlacementGroupIsId=is_id)
        data = template["Resources"]["LaunchTemplate"]["Properties"]["LaunchTemplateData"]
        assert known.resolve({"Placement": data["Placement"]}).get("Placement") == placement

    def test_nodes_of_a_placement_group_start_in_one_subnet(self):
        """A cluster group lies in one zone. The others fail at an upgrade, if not before."""
        subnets = ["one", "other"]
        template, known = resolved("nodegroup", PlacementGroup="mine", SubnetIds=subnets)
        for group in resources(template, "AWS::EKS::Nodegroup").values():
            assert known.resolve(group["Properties"]["Subnets"]) == ["one"]

    @pytest.mark.parametrize(
        ("parameters", "properties", "name"),
        [
            ({"Strategy": "precision-time"}, {"Strategy": "precision-time"}, "new"),
            ({"Strategy": "cluster", **OF_OTHERS}, {"Strategy": "cluster"}, "new"),
            (
                {"Strategy": "spread", **OF_OTHERS},
                {"Strategy": "spread", "SpreadLevel": "rack"},
                "new",
            ),
            (
                {"Strategy": "partition", **OF_OTHERS},
                {"Strategy": "partition", "PartitionCount": "2"},
                "new",
            ),
            ({"Strategy": "precision-time", "ExistingGroup": "theirs"}, None, "theirs"),
            ({"Strategy": "none"}, None, ""),
        ],
    )
    def test_the_new_group_has_its_strategys_properties(self, parameters, properties, name):
        template, known = resolved("placement", **parameters, Group="new")
        group = template["Resources"]["Group"]
        actual = (
            known.resolve(group["Properties"]) if known.conditions[group["Condition"]] else None
        )
        assert (actual, known.resolve(template["Outputs"]["Group"]["Value"])) == (
            properties,
            name,
        )

    def test_nodes_and_group_carry_the_label_and_tag_of_their_placement(self):
        template = LOADED[ROOT / "templates" / "nodegroup.yaml"]["Resources"]
        says = {"Fn::If": ["IsInPlacementGroup", "true", "false"]}
        group = template["NodeGroup"]["Properties"]
        assert group["Labels"]["placementGroup"]["Fn::If"][:2] == ["IsCompared", says]
        assert group["Tags"]["placementGroup"] == says
        data = template["LaunchTemplate"]["Properties"]["LaunchTemplateData"]
        for specification in data["TagSpecifications"]:
            assert {"Key": "placementGroup", "Value": says} in specification["Tags"]


#: The longest names that AWS accepts, from the API reference of each service.
LONGEST_NAMES = {
    ("AWS::CloudWatch::Dashboard", "DashboardName"): 255,
    ("AWS::EKS::Cluster", "Name"): 100,
    ("AWS::KMS::Alias", "AliasName"): 256,
    ("AWS::Logs::LogGroup", "LogGroupName"): 512,
    ("AWS::SNS::Topic", "DisplayName"): 100,
    ("AWS::Serverless::LayerVersion", "LayerName"): 140,
    ("AWS::Serverless::StateMachine", "Name"): 80,
}


def test_the_longest_stack_name_that_preflight_accepts_fits_every_name_that_templates_build():
    spare = {}
    for template in LOADED.values():
        names = resolver(template, {"StackName": "", "ClusterName": "", "AWS::StackName": ""})
        for resource in template["Resources"].values():
            for key, value in resource["Properties"].items():
                kind = (resource["Type"], key)
                built = key.endswith("Name") and key not in ("StackName", "ClusterName")
                if built and re.search(r"\b(Stack|Cluster)Name", str(value)):
                    room = LONGEST_NAMES[kind] - len(names.resolve(value))
                    spare.setdefault(kind, []).append(room)
    assert spare.keys() == LONGEST_NAMES.keys()
    assert min(min(rooms) for rooms in spare.values()) == STACK_NAME_CHARACTERS


def test_what_is_kept_and_what_is_dropped_are_the_same_but_for_their_policy():
    pairs = 0
    for template in LOADED.values():
        for name, retained in template["Resources"].items():
            if name.startswith("Kept"):
                dropped = template["Resources"][name.replace("Kept", "Dropped")]
                assert retained["Properties"] == dropped["Properties"], name
                assert (retained["DeletionPolicy"], dropped["DeletionPolicy"]) == (
                    "RetainExceptOnCreate",
                    "Delete",
                )
                pairs += 1
    assert pairs >= 2, "the table and the bucket"


@pytest.mark.parametrize("properties", every("AWS::Logs::LogGroup"))
def test_every_log_group_is_kept_as_long_as_the_stack_is_told(properties):
    assert properties["RetentionInDays"] == {"Ref": "LogRetentionDays"}


def test_every_log_group_is_encrypted_with_the_key_of_the_stack_where_there_is_one():
    for path, template in LOADED.items():
        if "KeyArn" not in template.get("Parameters", {}):
            continue
        for name, group in resources(template, "AWS::Logs::LogGroup").items():
            assert group["Properties"].get("KmsKeyId") == {
                "Fn::If": ["HasKey", {"Ref": "KeyArn"}, {"Ref": "AWS::NoValue"}]
            }, (path.stem, name)


def test_results_are_refused_to_whoever_asks_without_tls():
    resources = LOADED[ROOT / "templates" / "results.yaml"]["Resources"]
    (statement,) = resources["BucketPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert statement["Effect"] == "Deny"
    assert (statement["Principal"], statement["Action"]) == ("*", "s3:*")
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


@pytest.mark.parametrize("properties", every("AWS::IAM::Role"))
def test_every_role_takes_the_permissions_boundary(properties):
    """Accounts that delegate IAM refuse roles without theirs."""
    assert properties["PermissionsBoundary"] == {
        "Fn::If": ["HasBoundary", {"Ref": "PermissionsBoundaryArn"}, {"Ref": "AWS::NoValue"}]
    }


def functions():
    for path, template in LOADED.items():
        shared = template.get("Globals", {}).get("Function", {})
        for name, resource in resources(template, "AWS::Serverless::Function").items():
            yield pytest.param(
                path, name, {**shared, **resource["Properties"]}, id=f"{path.stem}-{name}"
            )


def test_every_function_has_a_role_of_its_own():
    """Functions that share a role have each other's rights."""
    roles = [
        (path, properties["Role"]["Fn::GetAtt"][0])
        for path, _, properties in (each.values for each in functions())
    ]
    assert len(set(roles)) == len(roles)
    assert all(role in resources(LOADED[path], "AWS::IAM::Role") for path, role in roles)


@pytest.mark.parametrize(("path", "name", "properties"), list(functions()))
class TestFunctions:
    def test_it_logs_to_a_log_group_of_its_template(self, path, name, properties):
        """Lambda makes one without retention, which stays when the stack is deleted."""
        group = properties["LoggingConfig"]["LogGroup"]["Ref"]
        assert group in resources(LOADED[path], "AWS::Logs::LogGroup")

    def test_its_handler_exists_and_is_thin(self, path, name, properties):
        module, _, function = properties["Handler"].rpartition(".")
        code = (path.parent / properties["CodeUri"]).resolve()
        source = (code / f"{module.replace('.', '/')}.py").read_text()
        assert f"def {function}(" in source
        if code != ROOT / "image":
            assert len(source.splitlines()) < 55

    def test_it_has_python_and_no_more_memory_and_time_than_it_may_need(
        self, path, name, properties
    ):
        assert properties["Runtime"] == "python3.13"
        has_much_to_do = name in (
            *("ReportFunction", "CompareFunction", "ReportCampaignFunction"),
            "JudgeFunction",  # reads as many results as the report of a campaign
            *("AnalyzeFunction", "LookFunction"),  # read all trials of a run
            "CollectFunction",  # parses and stores all trials of a round
        )
        # 1769 MB is one whole CPU.
        assert 128 <= properties["MemorySize"] <= (1769 if has_much_to_do else 512)
        assert 0 < properties["Timeout"] <= 900


def test_functions_that_talk_to_the_cluster_and_no_others_may_enter_it():
    inside = [
        entry
        for name in ("benchmark.yaml", "campaign.yaml")
        for entry in resources(LOADED[ROOT / "templates" / name], "AWS::EKS::AccessEntry").values()
    ]
    entries = {
        entry["Properties"]["PrincipalArn"]["Fn::GetAtt"][0].removesuffix("Role").lower()
        for entry in inside
    }
    talking = {
        path.stem.replace("_", "")
        for path in (ROOT / "functions" / "rackrate" / "stages").rglob("*.py")
        if re.search(r"\bresources\.cluster\b", path.read_text())
    }
    assert entries == talking | {"change"}, "change talks to it in rackrate.changes"
    for entry in inside:
        assert "AccessPolicies" not in entry["Properties"]
        groups, *more = entry["Properties"]["KubernetesGroups"]
        assert groups == {"Ref": "RunnersGroup"}
        is_restore = entry["Properties"]["PrincipalArn"]["Fn::GetAtt"][0] == "RestoreRole"
        no_value = {"Ref": "AWS::NoValue"}
        keepers = ["KnowsNodeGroups", {"Fn::Sub": "${RunnersGroup}:keepers"}, no_value]
        assert more == ([{"Fn::If": keepers}] if is_restore else []), "only it labels nodes"


def test_no_policy_but_that_of_a_key_for_its_account_allows_every_action():
    for path, template in LOADED.items():
        for name, resource in template["Resources"].items():
            for value in walk(resource["Properties"]):
                if isinstance(value, dict) and value.get("Effect") == "Allow":
                    stars = [a for a in walk(value["Action"]) if isinstance(a, str) and "*" in a]
                    is_key = resource["Type"] == "AWS::KMS::Key"
                    assert stars == [] or (is_key and stars == ["kms:*"]), (path.stem, name)


#: Encrypts Secrets of the cluster for EKS, which calls KMS itself.
CALLS_KMS = {("cluster", "ClusterRole")}


def test_no_role_uses_a_key_but_through_the_service_whose_data_it_encrypts():
    """Otherwise a role could decrypt whatever else the key encrypts, given the ciphertext."""
    without = {
        (path.stem, name)
        for path, template in LOADED.items()
        for name, resource in template["Resources"].items()
        if resource["Type"].startswith("AWS::IAM::")
        for value in walk(resource["Properties"])
        if isinstance(value, dict) and value.get("Effect") == "Allow"
        if any(isinstance(action, str) and "kms:" in action for action in walk(value["Action"]))
        if "kms:ViaService" not in value.get("Condition", {}).get("StringEquals", {})
    }
    assert without == CALLS_KMS
