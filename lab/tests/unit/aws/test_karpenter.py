"""Which pools take a pod, and which nodes their pods keep."""

from __future__ import annotations

import pytest

from lab.aws.eks.karpenter import fits, is_needed, seconds, wants_to_be_alone
from rackrate_contract.selectors import Selector, parse_tolerations

HELD = {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}
SERVER = {"metadata": {"ownerReferences": [{"kind": "DaemonSet"}]}}
OTHER = {"metadata": {}}
POOL = {
    "metadata": {"name": "fast"},
    "spec": {
        "template": {
            "metadata": {"labels": {"team": "storage", "cpus": "8"}},
            "spec": {
                "taints": [
                    {"key": "dedicated", "value": "bench", "effect": "NoSchedule"},
                    {"key": "slow", "effect": "PreferNoSchedule"},
                ]
            },
        }
    },
}


def pod(selector: str, tolerations: str = "dedicated=bench:NoSchedule") -> dict:
    return {
        "spec": {
            "affinity": Selector.parse(selector).affinity,
            "tolerations": [each.manifest for each in parse_tolerations(tolerations)],
        }
    }


@pytest.mark.parametrize(
    ("selector", "fitting"),
    [
        ("karpenter.sh/nodepool=fast", True),
        ("karpenter.sh/nodepool in (fast,faster),team", True),
        ("karpenter.sh/nodepool!=fast", False),
        ("team notin (network),!other", True),
        ("!team", False),
        ("other", False),
        ("kubernetes.io/os=linux", True),
        ("cpus>4,cpus<16", True),
        ("cpus>8", False),
        ("cpus<8", False),
        ("team>1", False),
        ("other<1", False),
    ],
)
def test_a_pool_takes_pods_whose_selector_meets_its_labels(selector, fitting):
    assert fits(pod(selector), POOL) is fitting


@pytest.mark.parametrize(
    ("tolerations", "fitting"),
    [
        ("dedicated", True),
        ("dedicated=bench", True),
        ("dedicated:NoSchedule", True),
        ("dedicated:NoExecute", False),
        ("dedicated=other", False),
        ("slow", False),
        ("", False),
    ],
)
def test_a_pool_takes_pods_that_tolerate_its_taints(tolerations, fitting):
    assert fits(pod("team", tolerations), POOL) is fitting


@pytest.mark.parametrize(
    ("pods", "policy", "stays"),
    [
        ([], "WhenEmpty", False),
        ([SERVER], "WhenEmpty", False),
        ([SERVER, OTHER], "WhenEmpty", True),
        ([SERVER, OTHER], "WhenEmptyOrUnderutilized", False),
        ([{"metadata": {**SERVER["metadata"], **HELD["metadata"]}}], "WhenEmpty", True),
        ([OTHER, HELD], "WhenEmptyOrUnderutilized", True),
    ],
)
def test_a_node_stays_while_a_pod_keeps_it(pods, policy, stays):
    assert is_needed(pods, policy) is stays


@pytest.mark.parametrize(
    ("text", "expected"), [("0s", 0), ("30s", 30), ("1m30s", 90), ("2h", 7200), ("Never", None)]
)
def test_a_duration_is_read_as_kubernetes_writes_it(text, expected):
    assert seconds(text) == expected


def test_only_a_pod_that_keeps_others_off_its_node_needs_one_of_its_own():
    apart = {"labelSelector": {}, "topologyKey": "kubernetes.io/hostname"}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
    assert wants_to_be_alone({"spec": {"affinity": {"podAntiAffinity": required}}})
    assert not wants_to_be_alone(pod("team"))
