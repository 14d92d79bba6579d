"""`rackrate nodes` prints the ranks of a run's nodes, and an affinity for the best."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.browser.runs import slow_node

from .conftest import DeployedStack, Rackrate

SLOW = "ip-10-1-0-2"


@pytest.fixture
def mesh(stack: DeployedStack) -> DeployedStack:
    stack.record("r1", status="succeeded", trials_measured=720)
    stack.put("r1", "results.json", json.dumps(slow_node().results.to_json()).encode())
    return stack


def test_it_names_the_nodes_that_may_be_the_best_and_those_that_are_worse(
    mesh: DeployedStack, rackrate: Rackrate
) -> None:
    shown = rackrate("nodes", "r1").stdout
    assert f"Worse than the rest: {SLOW}." in shown
    best = shown.split("May be the best: ")[1].split("\n\n")[0]
    assert SLOW not in best.split("Worse")[0]
    assert "nodeAffinity" not in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_the_affinity_is_yaml_that_names_the_best_nodes_of_an_arm(
    mesh: DeployedStack, rackrate: Rackrate
) -> None:
    shown = rackrate("nodes", "r1", "--best", "3").stdout
    assert "The 3 best nodes in the cluster placement group" in shown
    assert max(map(len, shown.splitlines())) <= 80
    pasted = yaml.safe_load(shown[shown.index("affinity:") :].split("\n\n")[0])
    required = pasted["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    fields = [field for term in required["nodeSelectorTerms"] for field in term["matchFields"]]
    # The API server refuses more than one value of metadata.name in a term.
    assert [field["key"] for field in fields] == ["metadata.name"] * 3
    named = {name for field in fields for name in field["values"]}
    assert len(named) == 3
    assert f"{SLOW}.ec2.internal" not in named


def test_programs_get_the_ranks_and_the_best(mesh: DeployedStack, rackrate: Rackrate) -> None:
    document = json.loads(rackrate("nodes", "r1", "--best", "2", "--json").stdout)
    treatment, baseline = document["rankings"]
    assert treatment["nodes"][-1]["name"] == f"{SLOW}.ec2.internal"
    best = document["best"]["baseline"]
    assert best["nodes"] == [node["name"] for node in baseline["nodes"][:2]]
    assert yaml.safe_load(best["affinity"])


def test_more_nodes_than_an_arm_has_are_refused_in_one_sentence(
    mesh: DeployedStack, rackrate: Rackrate
) -> None:
    assert "more than the 4 ranked nodes" in rackrate.refused("nodes", "r1", "--best", "5")


def test_a_run_without_ranks_is_refused_with_what_ranks_nodes(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.measure("old", status="succeeded", trials_measured=36)
    refused = rackrate.refused("nodes", "old")
    assert "ranks no nodes" in refused
    assert '"mesh"' in refused
    stack.record("going", status="running", phase="measuring")
    assert "still going" in rackrate.refused("nodes", "going")
    assert "no run" in rackrate.refused("nodes", "nope")
