"""Pairs within a partition and across partitions, and across zones, are told apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rackrate.verdict.analysis import analyze_run
from rackrate.verdict.kinds import partition_pairs, zones_in_words
from rackrate_contract.arms import InstancePlacement
from tests.unit.builders import arm, node, trial
from tests.unit.verdict.test_analysis import VALUES, evidence, verdict_on


def in_partition(number, **more):
    return InstancePlacement(group="racks", strategy="partition", partition=number, **more)


def partitioned(*numbers, zones=None):
    zones = zones or ["us-east-1a"] * len(numbers)
    return arm(
        "treatment",
        [
            node(name, ec2_placement=number and in_partition(number), zone=zone)
            for name, number, zone in zip("abcdef", numbers, zones, strict=False)
        ],
        placement="partition",
    )


def measured(client, server, value):
    return trial(client=client, server=server, values={"throughput": value})


TRIALS = [
    measured("a", "b", 9.0),
    measured("b", "a", 7.0),
    measured("a", "c", 4.0),
    measured("b", "c", 6.0),
]


def test_pairs_are_counted_once_for_both_directions_with_the_median_of_their_trials():
    kinds = partition_pairs(partitioned(1, 1, 2), TRIALS, "throughput")
    assert (kinds.within.pairs, kinds.within.median) == (1, 8.0)
    assert (kinds.across.pairs, kinds.across.median) == (2, 5.0)


def test_a_kind_without_pairs_has_no_median():
    kinds = partition_pairs(partitioned(1, 2, 3), TRIALS, "throughput")
    assert (kinds.within.pairs, kinds.within.median) == (0, None)
    assert kinds.across.pairs == 3


@pytest.mark.parametrize("numbers", [(1, 1, None), (None, None, None)])
def test_partitions_that_ec2_did_not_tell_are_unknown(numbers):
    assert partition_pairs(partitioned(*numbers), TRIALS, "throughput") is None


def test_an_arm_without_partitions_has_no_kinds():
    plain = arm("treatment", "abc")
    assert partition_pairs(plain, TRIALS, "throughput") is None
    assert partition_pairs(partitioned(1, 1, 2), [], "throughput") is None


def test_a_partition_of_another_zone_is_another_one():
    zones = ["us-east-1a", "us-east-1b", "us-east-1a"]
    kinds = partition_pairs(partitioned(1, 1, 1, zones=zones), TRIALS, "throughput")
    assert (kinds.within.pairs, kinds.across.pairs) == (1, 2)


def test_a_node_knows_whether_it_shares_a_partition_with_another():
    one, same, other = partitioned(1, 1, 2).nodes
    assert one.shares_partition(same) is True
    assert one.shares_partition(other) is False
    assert one.shares_partition(node("z")) is None


def test_zones_of_pairs_are_told_if_they_differ():
    zones = ["us-east-1a", "us-east-1a", "us-east-1b"]
    text = zones_in_words(partitioned(1, 1, 1, zones=zones), TRIALS)
    assert text == "2 of 3 pairs across zones, us-east-1a and us-east-1b"
    assert zones_in_words(partitioned(1, 1, 1), TRIALS) == ""
    assert zones_in_words(partitioned(1, 1, 1, zones=[None] * 3), TRIALS) == ""


def test_a_verdict_of_a_partition_arm_says_how_many_of_its_pairs_share_a_partition():
    run = evidence(VALUES)
    nodes = [
        each.model_copy(update={"ec2_placement": in_partition(number)})
        for number, each in enumerate(run.planned_run.arms[0].nodes, start=1)
    ]
    treatment = run.planned_run.arms[0].model_copy(update={"nodes": tuple(nodes)})
    arms = (treatment, *run.planned_run.arms[1:])
    run = replace(run, planned_run=run.planned_run.model_copy(update={"arms": arms}))
    result = verdict_on(analyze_run(run), "tcp-1")
    assert (result.partitions.within.pairs, result.partitions.across.pairs) == (0, 1)
    assert result.partitions.across.median == result.arm_median
    assert (
        "cluster group: 0 of its 1 pair within one partition, 1 across partitions" in result.claim
    )
    assert verdict_on(analyze_run(evidence(VALUES)), "tcp-1").partitions is None
