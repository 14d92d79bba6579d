"""Add-ons are updated as EKS does it: known versions, an update that lasts, conflicts, errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lab.aws.eks.infrastructure import AddonConflict, AddonLaunchError
from lab.tests.aws.eks.test_node_groups import Setup
from lab.tests.aws.region import Lab, eventually

OLD, NEW = "v1.14.1-eksbuild.1", "v1.15.4-eksbuild.1"
FIELD = '.spec.template.spec.containers[name="aws-node"].env[name="WARM_IP_TARGET"].value'


class Addons:
    """The add-ons of a cluster."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.eks, self.name = setup, setup.eks, setup.name

    def create(self, addon: str = "vpc-cni", **settings: Any) -> dict[str, Any]:
        self.eks.create_addon(clusterName=self.name, addonName=addon, **settings)
        return eventually(lambda: self.get(addon), lambda addon: addon["status"] != "CREATING")

    def get(self, addon: str = "vpc-cni") -> dict[str, Any]:
        return dict(self.eks.describe_addon(clusterName=self.name, addonName=addon)["addon"])

    def update(self, addon: str = "vpc-cni", **settings: Any) -> str:
        change = self.eks.update_addon(clusterName=self.name, addonName=addon, **settings)["update"]
        assert change["status"] == "InProgress"
        return str(change["id"])

    def ended(self, update: str, addon: str = "vpc-cni") -> dict[str, Any]:
        return self.setup.ended(update, addonName=addon)


@pytest.fixture
def addons(lab: Lab) -> Iterator[Addons]:
    setup = Setup(lab)
    assert setup.create_cluster()["status"] == "ACTIVE"
    yield Addons(setup)
    setup.recorded.let_roll_out.set()


def test_add_on_keeps_its_version_and_configuration_and_nodes_get_both(addons: Addons) -> None:
    values = json.dumps({"env": {"ENABLE_PREFIX_DELEGATION": "true"}})
    addon = addons.create(addonVersion=OLD, configurationValues=values)
    assert (addon["status"], addon["addonVersion"]) == ("ACTIVE", OLD)
    assert addon["configurationValues"] == values
    assert addons.setup.recorded.addons == {"vpc-cni": (OLD, json.loads(values))}


def test_schema_of_kube_proxy_lists_the_modes_that_an_update_accepts(addons: Addons) -> None:
    addons.create("kube-proxy")
    version = addons.get("kube-proxy")["addonVersion"]
    response = addons.eks.describe_addon_configuration(addonName="kube-proxy", addonVersion=version)
    schema = json.loads(response["configurationSchema"])
    properties = schema["definitions"]["KubeProxy"]["properties"]
    assert schema["$ref"] == "#/definitions/KubeProxy"
    for mode in properties["mode"]["enum"]:
        values = json.dumps({"mode": mode, "podAnnotations": {"mode": mode}})
        update = addons.update("kube-proxy", configurationValues=values)
        assert addons.ended(update, "kube-proxy")["status"] == "Successful"
    with pytest.raises(addons.eks.exceptions.ResourceNotFoundException):
        addons.eks.describe_addon_configuration(addonName="kube-proxy", addonVersion="v1.0.0")


def test_version_that_is_not_given_is_the_default_of_the_list(addons: Addons) -> None:
    (listed,) = addons.eks.describe_addon_versions(addonName="vpc-cni", kubernetesVersion="1.36")[
        "addons"
    ]
    versions = {each["addonVersion"]: each for each in listed["addonVersions"]}
    assert {OLD, NEW} <= set(versions)
    defaults = [
        version
        for version, each in versions.items()
        if each["compatibilities"]
        == [{"clusterVersion": "1.36", "platformVersions": ["*"], "defaultVersion": True}]
    ]
    assert [addons.create()["addonVersion"]] == defaults


def test_update_is_in_progress_until_every_node_has_the_version(addons: Addons) -> None:
    addons.create(addonVersion=OLD)
    addons.setup.recorded.let_roll_out.clear()
    update = addons.update(addonVersion=NEW, resolveConflicts="OVERWRITE")
    assert addons.get()["status"] == "UPDATING"
    assert addons.get()["addonVersion"] == OLD
    with pytest.raises(addons.eks.exceptions.ResourceInUseException, match="UPDATING"):
        addons.update(addonVersion=OLD)
    addons.setup.recorded.let_roll_out.set()
    result = addons.ended(update)
    assert (result["status"], result["type"], result["errors"]) == ("Successful", "AddonUpdate", [])
    assert {each["type"]: each["value"] for each in result["params"]} == {
        "AddonVersion": NEW,
        "ResolveConflicts": "OVERWRITE",
    }
    after = eventually(addons.get, lambda addon: addon["status"] == "ACTIVE")
    assert after["addonVersion"] == NEW
    assert addons.setup.recorded.addons == {"vpc-cni": (NEW, {})}


def test_conflict_fails_an_update_without_overwrite_and_changes_nothing(addons: Addons) -> None:
    addons.create(addonVersion=OLD)
    addons.setup.recorded.rollout_fails = AddonConflict("DaemonSet.apps aws-node", [FIELD])
    result = addons.ended(addons.update(addonVersion=NEW))
    (error,) = result["errors"]
    assert (result["status"], error["errorCode"]) == ("Failed", "ConfigurationConflict")
    assert f"DaemonSet.apps aws-node - {FIELD}" in error["errorMessage"]
    after = eventually(addons.get, lambda addon: addon["status"] != "UPDATING")
    assert (after["status"], after["addonVersion"]) == ("UPDATE_FAILED", OLD)
    again = addons.update(addonVersion=NEW, resolveConflicts="OVERWRITE")
    assert addons.ended(again)["status"] == "Successful"
    assert addons.get()["addonVersion"] == NEW


def test_rollout_that_does_not_end_fails_the_update_with_its_reason(addons: Addons) -> None:
    addons.create()
    addons.setup.recorded.rollout_fails = AddonLaunchError("does not run on every node after 300 s")
    (error,) = addons.ended(addons.update(addonVersion=NEW))["errors"]
    assert error["errorMessage"] == "does not run on every node after 300 s"


def test_mode_of_kube_proxy_reaches_the_cluster_and_its_version_stays(addons: Addons) -> None:
    before = addons.create("kube-proxy")["addonVersion"]
    for mode in ("ipvs", "nftables"):
        values = json.dumps({"mode": mode})
        update = addons.update("kube-proxy", configurationValues=values)
        assert addons.ended(update, "kube-proxy")["status"] == "Successful"
        result = eventually(
            lambda: addons.get("kube-proxy"), lambda addon: addon["status"] == "ACTIVE"
        )
        assert (result["configurationValues"], result["addonVersion"]) == (values, before)
        assert addons.setup.recorded.addons == {"kube-proxy": (before, {"mode": mode})}


def test_deleted_add_on_takes_its_pods_along(addons: Addons) -> None:
    addons.create()
    addons.eks.delete_addon(clusterName=addons.name, addonName="vpc-cni")
    assert "vpc-cni" not in addons.setup.recorded.addons
    with pytest.raises(addons.eks.exceptions.ResourceNotFoundException):
        addons.get()


def test_unknown_add_ons_versions_and_updates_are_refused(addons: Addons) -> None:
    addons.create()
    with pytest.raises(ClientError, match="Addon specified is not supported"):
        addons.create("unheard-of")
    with pytest.raises(
        addons.eks.exceptions.InvalidParameterException,
        match=r"Addon version specified is not supported: v1\.99\.0-eksbuild\.1",
    ):
        addons.update(addonVersion="v1.99.0-eksbuild.1")
    with pytest.raises(addons.eks.exceptions.ResourceNotFoundException, match="No update found"):
        addons.ended("00000000-0000-0000-0000-000000000000")
    with pytest.raises(addons.eks.exceptions.ResourceInUseException):
        addons.create()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"configurationValues": "mode: ["}, "not in json format"),
        ({"configurationValues": "[]"}, "not a JSON object"),
        ({"configurationValues": '{"mod": "ipvs"}'}, r"\$.mod: is not defined in the schema"),
        ({"configurationValues": '{"mode": "userspace"}'}, r"\$.mode: does not have a value"),
        ({"addonVersion": "latest"}, "Addon version specified is not supported"),
    ],
)
def test_an_add_on_that_eks_would_refuse_is_refused(
    addons: Addons, settings: dict[str, str], words: str
) -> None:
    with pytest.raises(ClientError, match=words):
        addons.create("kube-proxy", **settings)


def test_update_of_a_stack_waits_for_the_version_and_reports_why_it_failed(
    lab: Lab, addons: Addons
) -> None:
    template = """
        Parameters:
          Version: {Type: String}
        Resources:
          Cni:
            Type: AWS::EKS::Addon
            Properties:
              ClusterName: %s
              AddonName: vpc-cni
              AddonVersion: !Ref Version
    """

    stack = lab.created(template % addons.name, {"Version": OLD})
    assert lab.update(stack["StackId"], parameters={"Version": NEW}) == "UPDATE_COMPLETE"
    assert addons.setup.recorded.addons == {"vpc-cni": (NEW, {})}
    addons.setup.recorded.rollout_fails = AddonConflict("DaemonSet.apps aws-node", [FIELD])
    back = lab.update(stack["StackId"], parameters={"Version": OLD})
    assert back.startswith("UPDATE_ROLLBACK")
    assert "Conflicts found" in lab.reasons(stack["StackId"])["Cni"]
