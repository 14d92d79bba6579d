"""Sweeps over add-ons: what cannot work is found first, and a step waits for every node."""

from __future__ import annotations

import datetime
import json

import pytest
from botocore.exceptions import ClientError

from rackrate.changes.kube_proxy import ANNOTATION, KubeProxy
from rackrate.changes.rollout import PATIENCE_SECONDS
from rackrate.changes.vpc_cni import VpcCni
from rackrate.errors import ChangeFailed
from tests.unit.changes.fake_eks import NEW, OLD, Eks
from tests.unit.given import Given
from tests.unit.measure.fake_cluster import FakeCluster
from tests.unit.samples import SETTINGS


@pytest.fixture
def eks():
    eks = Eks(FakeCluster())
    for name in eks.addons:
        eks.roll(name, 4)
    return eks


@pytest.fixture
def resources(eks):
    return Given(settings=SETTINGS, eks=eks, cluster=eks.cluster)


class TestFaults:
    def test_versions_that_eks_lists_have_none(self, resources):
        assert VpcCni().faults([OLD, NEW], resources) == []

    def test_a_version_for_another_kubernetes_is_refused_with_those_there_are(self, resources):
        [fault] = VpcCni().faults([OLD, "v1.7.0-eksbuild.1"], resources)
        assert fault.path == "sweep.vpc_cni[1]"
        assert "v1.7.0-eksbuild.1 of the VPC CNI for Kubernetes 1.36" in fault.problem
        assert fault.remedy == f"use one of {NEW} or {OLD}"

    def test_a_mode_that_the_version_does_not_have_is_refused(self, resources):
        [fault] = KubeProxy().faults(["iptables", "ipvs"], resources)
        assert fault.path == "sweep.kube_proxy[1]"
        assert fault.remedy == "use one of iptables or nftables"

    @pytest.mark.parametrize("change", [VpcCni(), KubeProxy()])
    def test_a_cluster_without_the_addon_is_told_so(self, change, resources, eks):
        eks.addons.clear()
        [fault] = change.faults(["any"], resources)
        assert fault.path == f"sweep.{change.name}"
        assert "has no EKS add-on" in fault.problem


class TestVpcCni:
    def make(self, resources, progress):
        return VpcCni().make(NEW, progress, resources)

    def test_it_is_made_when_it_is_active_and_every_node_has_it(self, resources, eks):
        eks.addons["vpc-cni"]["configurationValues"] = '{"env": {"MAX_ENI": "1"}}'
        result = self.make(resources, {})
        assert not result.done
        assert eks.addons["vpc-cni"]["addonVersion"] == NEW
        configuration = json.loads(eks.addons["vpc-cni"]["configurationValues"])
        assert configuration == {"env": {"MAX_ENI": "1"}}, "the configuration stays"
        assert not self.make(resources, result.progress).done
        eks.end("vpc-cni", have=3)
        result = self.make(resources, result.progress)
        assert (result.done, result.phase) == (
            False,
            "the add-on vpc-cni is ACTIVE, and 3 of 4 nodes have it",
        )
        eks.roll("vpc-cni", 4)
        assert self.make(resources, result.progress).done
        assert len(eks.updates) == 1

    def test_a_call_whose_answer_got_lost_does_not_update_twice(self, resources, eks):
        self.make(resources, {})
        assert not self.make(resources, {}).done
        eks.end("vpc-cni")
        assert self.make(resources, {}).done
        assert len(eks.updates) == 1

    def test_a_version_that_is_there_already_needs_no_update(self, resources, eks):
        assert VpcCni().make(OLD, {}, resources).done
        assert eks.updates == {}

    def test_an_update_of_somebody_else_is_waited_for(self, resources, eks):
        busy = {"Error": {"Code": "ResourceInUseException"}}
        eks.refusal = ClientError(busy, "UpdateAddon")
        waiting = self.make(resources, {})
        assert not waiting.done
        eks.refusal = None
        result = self.make(resources, waiting.progress)
        assert result.progress["since"] == waiting.progress["since"], "the time goes on"
        assert len(eks.updates) == 1

    def test_a_failed_update_is_quoted(self, resources, eks):
        result = self.make(resources, {})
        errors = [{"errorCode": "ConfigurationConflict", "errorMessage": "Conflicts found"}]
        eks.end("vpc-cni", status="Failed", active="UPDATE_FAILED", errors=errors)
        with pytest.raises(ChangeFailed, match=r"is Failed\nConfigurationConflict: Conf"):
            self.make(resources, result.progress)

    def test_a_later_attempt_updates_an_addon_whose_update_failed(self, resources, eks):
        eks.addons["vpc-cni"].update(addonVersion=NEW, status="UPDATE_FAILED")
        self.make(resources, {})
        assert len(eks.updates) == 1

    def test_an_addon_that_does_not_get_active_ends_the_wait_with_its_issues(self, resources, eks):
        result = self.make(resources, {})
        health = {"issues": [{"code": "InsufficientNumberOfReplicas", "message": "3 of 4"}]}
        eks.addons["vpc-cni"]["health"] = health
        eks.end("vpc-cni", have=3, active="DEGRADED")
        assert not self.make(resources, result.progress).done
        since = datetime.datetime.fromisoformat(result.progress["since"])
        late = since - datetime.timedelta(seconds=PATIENCE_SECONDS + 1)
        with pytest.raises(ChangeFailed, match=r"3 of 4 nodes have it after .*\nInsuff.*: 3 of 4"):
            self.make(resources, {**result.progress, "since": late.isoformat()})

    def test_what_was_there_before_is_put_back(self, resources, eks):
        before = json.loads(json.dumps(VpcCni().before(resources)))
        self.make(resources, {})
        eks.end("vpc-cni")
        assert not VpcCni().undo(before, resources).done
        assert not VpcCni().undo(before, resources).done
        eks.end("vpc-cni")
        assert VpcCni().undo(before, resources).done
        assert eks.addons["vpc-cni"]["addonVersion"] == OLD
        assert len(eks.updates) == 2, "one there and one back"

    def test_an_addon_that_is_gone_is_told(self, resources, eks):
        eks.addons.clear()
        with pytest.raises(ChangeFailed, match="has no add-on vpc-cni"):
            self.make(resources, {})


class TestKubeProxy:
    def configuration(self, eks):
        return json.loads(eks.addons["kube-proxy"].get("configurationValues", "{}"))

    def make(self, mode, resources, eks):
        result = KubeProxy().make(mode, {}, resources)
        if not result.done:
            eks.end("kube-proxy")
            result = KubeProxy().make(mode, result.progress, resources)
        return result

    def test_the_annotation_of_its_pods_restarts_it(self, resources, eks):
        assert self.make("nftables", resources, eks).done
        assert self.configuration(eks) == {
            "mode": "nftables",
            "podAnnotations": {ANNOTATION: "nftables"},
        }

    def test_the_mode_that_it_has_restarts_nothing(self, resources, eks):
        assert KubeProxy().make("iptables", {}, resources).done
        assert eks.updates == {}

    def test_each_mode_has_an_annotation_of_its_own_and_the_rest_stays(self, resources, eks):
        configuration = {"podAnnotations": {"team": "net"}, "resources": {"requests": {"cpu": "1"}}}
        eks.addons["kube-proxy"]["configurationValues"] = json.dumps(configuration)
        self.make("nftables", resources, eks)
        self.make("iptables", resources, eks)
        assert self.configuration(eks) == {
            **configuration,
            "mode": "iptables",
            "podAnnotations": {"team": "net", ANNOTATION: "iptables"},
        }
        assert len(eks.updates) == 2

    def test_its_configuration_is_put_back_as_it_was(self, resources, eks):
        before = KubeProxy().before(resources)
        self.make("nftables", resources, eks)
        KubeProxy().undo(before, resources)
        eks.end("kube-proxy")
        assert KubeProxy().undo(before, resources).done
        assert self.configuration(eks) == {}


@pytest.mark.parametrize(
    ("change", "value", "title"),
    [
        (VpcCni(), NEW, f"VPC CNI {NEW}"),
        (KubeProxy(), "ipvs", "kube-proxy in mode ipvs"),
    ],
)
def test_a_step_is_named_after_its_value_and_keeps_the_nodes(change, value, title):
    assert change.title(value) == title
    assert change.node_count(value, 7) == 7
    assert change.needs_nodes
