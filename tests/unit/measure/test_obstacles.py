"""What keeps pairs from being measured, and when no verdict can be had any more."""

from __future__ import annotations

import pytest

from rackrate.measure.obstacles import (
    PATIENCE_SECONDS,
    REPLACEMENT_SECONDS,
    Obstacle,
    absence,
    hopeless,
    lost_arms,
    obstacle,
)
from rackrate.plan.items import Pair
from rackrate.times import later
from tests.unit.samples import node

NOW = "2026-11-23T12:05:00.000Z"
LONG_AGO, LATELY = later(NOW, -PATIENCE_SECONDS), later(NOW, 1 - PATIENCE_SECONDS)


def pair(arm, client, server):
    return Pair(arm=arm, client=client, server=server, client_network="pod", server_network="pod")


BASE, ONE, OTHER = pair("base", "a", "b"), pair("one", "c", "d"), pair("one", "c", "e")
THIRD = pair("third", "f", "g")


def gone(name, since=LONG_AGO):
    return Obstacle("NodesUnavailable", f"node {name} is gone", since)


def ends(obstacles, seen=None):
    lost = lost_arms(obstacles, seen or {}, NOW)
    return hopeless(obstacles, lost, "base", NOW)


def test_a_node_is_absent_when_it_is_gone_or_not_ready_and_the_reason_tells_since_when():
    there = node("a", "ng-1")
    assert absence("a", {"a": there}) is None
    assert absence("b", {"a": there}).reason == "node b is gone"
    condition = {
        "type": "Ready",
        "status": "False",
        "lastTransitionTime": "2026-11-23T12:03:04Z",
        "message": "container runtime is down",
    }
    there["status"]["conditions"] = [condition]
    absent = absence("a", {"a": there})
    reason = "node a is not Ready since 2026-11-23T12:03:04Z: container runtime is down"
    assert (absent.reason, absent.is_silent) == (reason, False)
    condition["status"] = "Unknown"
    assert absence("a", {"a": there}).is_silent


def test_a_cordoned_node_is_measured_because_a_clients_pod_names_its_node():
    cordoned = node("a", "ng-1")
    cordoned["spec"]["unschedulable"] = True
    nodes = {"a": cordoned, "b": node("b", "ng-1")}
    assert obstacle(pair("base", "a", "b"), nodes, {"b": "10.0.0.1"}) is None


def test_an_absent_node_is_named_rather_than_the_server_that_went_with_it():
    nodes = {"a": node("a", "ng-1")}
    assert obstacle(BASE, nodes, {}).reason == "node b is gone"
    nodes["b"] = node("b", "ng-1")
    assert obstacle(BASE, nodes, {}).reason == "the server on node b is not ready"


@pytest.mark.parametrize(
    ("obstacles", "over"),
    [
        ({BASE: None, ONE: gone("d"), OTHER: None}, False),
        ({BASE: None, ONE: gone("d"), OTHER: gone("c")}, True),
        ({BASE: None, ONE: gone("d"), OTHER: gone("c", LATELY)}, False),
        ({BASE: None, ONE: gone("d"), THIRD: None}, False),
        ({BASE: None, ONE: gone("d"), THIRD: gone("f")}, True),
        ({BASE: gone("a"), ONE: None, THIRD: None}, True),
        ({BASE: None, ONE: None}, False),
        ({}, False),
    ],
    ids=[
        "another pair of the arm is there",
        "no pair of the arm is there",
        "the last pair went lately",
        "another arm can be compared",
        "no other arm can be compared",
        "nothing can be compared with the baseline",
        "all are there",
        "nothing is known",
    ],
)
def test_a_run_gives_up_only_when_no_arm_can_be_compared_with_the_baseline(obstacles, over):
    assert (ends(obstacles) is not None) is over


def test_what_does_not_tell_when_it_began_counts_from_when_it_was_first_seen():
    obstacles = {BASE: None, ONE: Obstacle("ServersNotReady", "the server is not ready")}
    assert lost_arms(obstacles, {}, NOW) == {"one": NOW}
    assert ends(obstacles) is None
    assert ends(obstacles, {"one": LONG_AGO}).error == "ServersNotReady"


def test_an_arm_that_expects_another_node_is_given_the_time_that_this_takes():
    there = {"a": node("a", "ng-1")}
    since = {"b": later(NOW, 1 - REPLACEMENT_SECONDS)}
    result = obstacle(BASE, there, {}, since)
    assert result.reason == "node b is gone, and no other node has come in its place"
    assert ends({BASE: result, ONE: None}) is None
    over = obstacle(BASE, there, {}, {"b": later(NOW, -REPLACEMENT_SECONDS)})
    assert ends({BASE: over, ONE: None}).error == "NodesUnavailable"


def test_the_sentence_names_the_arms_and_the_nodes():
    over = ends({BASE: gone("a"), ONE: gone("c")})
    assert over.error == "NodesUnavailable"
    assert over.message == (
        "arms base and one have no pair left to measure: node a is gone; node c is gone"
    )
