"""Add-ons: what EKS answers is read as it is, and its refusals are quoted."""

from __future__ import annotations

import json
from typing import ClassVar

import boto3
import pytest
from botocore.stub import Stubber

from rackrate.errors import ChangeFailed, Throttled
from rackrate.measure import addons
from rackrate.measure.addons import Addon, nodes_with_it

CNI = Addon(
    "vpc-cni", "v1.14.1-eksbuild.1", "ACTIVE", {"env": {"ENABLE_PREFIX_DELEGATION": "true"}}
)
#: The schema of kube-proxy v1.28.8-eksbuild.5, shortened.
SCHEMA = {
    "$ref": "#/definitions/KubeProxy",
    "$schema": "http://json-schema.org/draft-06/schema#",
    "definitions": {
        "Ipvs": {"properties": {"scheduler": {"type": "string"}}, "type": "object"},
        "KubeProxy": {
            "additionalProperties": False,
            "properties": {
                "ipvs": {"$ref": "#/definitions/Ipvs"},
                "mode": {"enum": ["iptables", "ipvs"], "type": "string"},
                "podAnnotations": {"properties": {}, "type": "object"},
            },
            "type": "object",
        },
    },
}


@pytest.fixture(scope="module")
def eks():
    return boto3.client("eks", region_name="us-east-1")


@pytest.fixture
def stub(eks):
    with Stubber(eks) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


class TestDescribe:
    ASKED: ClassVar = {"clusterName": "house", "addonName": "vpc-cni"}

    def describe(self, eks):
        return addons.describe(eks, "house", "vpc-cni")

    def test_version_configuration_and_issues_are_read(self, eks, stub):
        stub.add_response(
            "describe_addon",
            {
                "addon": {
                    "addonName": "vpc-cni",
                    "addonVersion": CNI.version,
                    "status": "DEGRADED",
                    "configurationValues": json.dumps(CNI.configuration),
                    "health": {"issues": [{"code": "AccessDenied", "message": "no role"}]},
                }
            },
            self.ASKED,
        )
        addon = self.describe(eks)
        assert (addon.name, addon.version, addon.status) == ("vpc-cni", CNI.version, "DEGRADED")
        assert addon.configuration == CNI.configuration
        assert addon.issues == ("AccessDenied: no role",)

    def test_throttling_is_told_from_other_errors(self, eks, stub):
        stub.add_client_error("describe_addon", "ThrottlingException")
        with pytest.raises(Throttled):
            self.describe(eks)


def test_versions_of_all_pages_are_listed(eks, stub):
    request = {"addonName": "vpc-cni", "kubernetesVersion": "1.36"}
    for page, (version, more) in enumerate([("v2", {"nextToken": "more"}), ("v1", {})]):
        listed = [{"addonName": "vpc-cni", "addonVersions": [{"addonVersion": version}]}]
        token = {"nextToken": "more"} if page else {}
        stub.add_response(
            "describe_addon_versions", {"addons": listed, **more}, {**request, **token}
        )
    assert addons.versions(eks, "vpc-cni", "1.36") == ["v2", "v1"]


class TestAllowedValues:
    ADDON = Addon("kube-proxy", "v1.28.8-eksbuild.5", "ACTIVE")

    def values(self, eks, stub, schema, option="mode"):
        stub.add_response(
            "describe_addon_configuration",
            {"configurationSchema": schema},
            {"addonName": "kube-proxy", "addonVersion": self.ADDON.version},
        )
        return addons.allowed_values(eks, self.ADDON, option)

    def test_they_are_those_of_the_schema(self, eks, stub):
        assert self.values(eks, stub, json.dumps(SCHEMA)) == ["iptables", "ipvs"]

    @pytest.mark.parametrize("schema", ["", "{}", json.dumps({"properties": {"mode": {}}})])
    def test_a_schema_that_lists_none_is_no_error(self, eks, stub, schema):
        assert self.values(eks, stub, schema) is None

    def test_an_option_that_the_schema_does_not_have_has_none(self, eks, stub):
        assert self.values(eks, stub, json.dumps(SCHEMA), option="scheduler") is None


class TestUpdate:
    def update(self, eks):
        return addons.update(eks, "house", CNI)

    def test_conflicts_are_overwritten_and_the_configuration_is_kept(self, eks, stub):
        stub.add_response(
            "update_addon",
            {"update": {"id": "u-1", "status": "InProgress"}},
            {
                "clusterName": "house",
                "addonName": "vpc-cni",
                "addonVersion": CNI.version,
                "configurationValues": json.dumps(CNI.configuration),
                "resolveConflicts": "OVERWRITE",
            },
        )
        assert self.update(eks) == "u-1"

    @pytest.mark.parametrize("code", ["InvalidParameterException", "InvalidRequestException"])
    def test_a_refusal_is_quoted(self, eks, stub, code):
        stub.add_client_error("update_addon", code, "Addon version specified is not supported")
        with pytest.raises(ChangeFailed, match="Addon version specified is not supported"):
            self.update(eks)

    def test_an_update_tells_why_it_failed(self, eks, stub):
        error = {"errorCode": "ConfigurationConflict", "errorMessage": "Conflicts found"}
        stub.add_response(
            "describe_update",
            {"update": {"id": "u-1", "status": "Failed", "errors": [error]}},
            {"name": "house", "addonName": "vpc-cni", "updateId": "u-1"},
        )
        of = {"name": "house", "addonName": "vpc-cni", "updateId": "u-1"}
        with pytest.raises(ChangeFailed, match="of it is Failed\nConfigurationConflict: Conflicts"):
            addons.require_no_failure(eks, "it", **of)


def daemon_set(*, generation=2, observed=2, nodes=4, updated=4, available=4):
    return {
        "metadata": {"generation": generation},
        "status": {
            "observedGeneration": observed,
            "desiredNumberScheduled": nodes,
            "updatedNumberScheduled": updated,
            "numberAvailable": available,
        },
    }


@pytest.mark.parametrize(
    ("read", "counts"),
    [
        (None, (0, 0)),
        (daemon_set(), (4, 4)),
        (daemon_set(updated=1), (1, 4)),
        (daemon_set(available=3), (3, 4)),
        (daemon_set(observed=1), (0, 4)),
        (daemon_set(nodes=0, updated=0, available=0), (0, 0)),
        ({"metadata": {"generation": 1}}, (0, 1)),
    ],
)
def test_a_node_has_it_when_its_pod_is_new_and_available(read, counts):
    assert nodes_with_it(read) == counts
