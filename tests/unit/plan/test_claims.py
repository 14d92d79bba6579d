"""An arm that is not placed as it claims is refused by name; what is unknown is not judged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate.plan.claims import pair_faults, placement_faults
from rackrate.plan.pairing import Pairing
from rackrate_contract.arms import InstancePlacement
from tests.unit.builders import arm, node

WHERE = {"treatment": "nodes labelled a=b", "baseline": "nodes labelled a=c", "other": "x"}
ALONE = InstancePlacement()


def inside(group, strategy="cluster", **more):
    return InstancePlacement(group=group, strategy=strategy, **more)


def treatment(*placements, placement="cluster", name="treatment", **more):
    nodes = [node(f"{name}-{n}", ec2_placement=each) for n, each in enumerate(placements)]
    return arm(name, nodes, placement=placement, **more)


def baseline(*placements):
    return treatment(*placements, placement="none", name="baseline")


def problems(*arms):
    return [(fault.path, str(fault)) for fault in placement_faults(arms, WHERE)]


def only(*arms):
    ((path, problem),) = problems(*arms)
    return path, problem


GOOD = treatment(inside("g"), inside("g"))


def test_arms_that_are_what_they_claim_are_not_refused():
    assert problems(GOOD, baseline(ALONE, ALONE)) == []


def test_a_node_outside_the_group_of_its_arm_is_named():
    path, problem = only(baseline(ALONE), treatment(inside("g"), ALONE))
    assert path == "arms[1]"
    assert "the arm 'treatment' is to be in a cluster placement group" in problem
    assert "1 of its 2 nodes (treatment-1) is in none" in problem
    assert "nodes labelled a=b" in problem


def test_a_node_in_another_group_than_the_others_is_named_with_both_groups():
    _, problem = only(treatment(inside("g"), inside("g"), inside("h")), baseline(ALONE))
    assert "one cluster placement group, g" in problem
    assert "(treatment-2) is in the cluster placement group h" in problem


@pytest.mark.parametrize("strategy", ["spread", "partition", "precision-time"])
def test_a_group_of_another_strategy_is_named_with_its_strategy(strategy):
    _, problem = only(treatment(inside("g", strategy), inside("g", strategy)), baseline(ALONE))
    assert (
        f"2 of its 2 nodes (treatment-0 and treatment-1) are in the {strategy} placement" in problem
    )


def test_a_node_of_the_baseline_in_a_group_is_named():
    path, problem = only(GOOD, baseline(ALONE, inside("g")))
    assert path == "arms[1]"
    assert "the arm 'baseline' is to be in no placement group" in problem
    assert "(baseline-1) is in the cluster placement group g" in problem


def test_two_arms_in_one_cluster_group_are_refused():
    other = treatment(inside("g"), inside("g"), name="other")
    path, problem = only(GOOD, other, baseline(ALONE))
    assert path == "arms[1]"
    assert "'treatment' and 'other' are both in the cluster placement group g" in problem


def test_two_arms_on_the_same_nodes_are_one_claim():
    of_host = treatment(inside("g"), ALONE, stack_arm="treatment")
    renamed = of_host.model_copy(update={"name": "host-to-pod"})
    assert len(problems(of_host, renamed, baseline(ALONE))) == 1


def test_many_nodes_are_counted_after_the_first():
    _, problem = only(treatment(inside("g"), *[ALONE] * 20), baseline(ALONE))
    assert "20 of its 21 nodes (treatment-1, treatment-2, treatment-3 and 17 more) are" in problem


def test_what_ec2_did_not_say_is_not_judged():
    unsure = inside("g", None)
    assert problems(treatment(None, None), baseline(None)) == []
    assert problems(treatment(unsure, unsure, None), baseline(ALONE, None)) == []


def express(*has, **more):
    """An arm with ENA Express; whether each node has it on all interfaces that pods may use."""
    where = [inside("g", ena_express=each) for each in has]
    return treatment(*where, **{"ena_express": True, **more})


def test_an_arm_with_ena_express_whose_pods_may_be_on_interfaces_without_it_is_refused():
    path, problem = only(baseline(ALONE), express(True, False))
    assert path == "arms[1]"
    assert "1 of its 2 nodes (treatment-1) is with a network interface without it" in problem
    assert "set MAX_ENI=1 in the cluster's VPC CNI and replace these nodes" in problem


def test_pods_are_a_claim_also_where_another_arm_uses_their_nodes_own_network():
    of_host = express(False, client_network="host", server_network="host")
    assert problems(of_host) == [], "it uses the first interface"
    to_host = of_host.model_copy(update={"name": "pod-to-host", "client_network": "pod"})
    assert only(of_host, to_host)[0] == "arms[1]"


def test_nodes_with_ena_express_everywhere_or_of_which_ec2_tells_nothing_are_not_refused():
    assert problems(express(True, None), baseline(ALONE)) == []
    assert problems(express(False, False, ena_express=False), baseline(ALONE)) == []


PLACEMENTS = st.one_of(
    st.none(),
    st.just(ALONE),
    st.builds(
        inside, st.sampled_from("gh"), st.sampled_from(["cluster", "partition", "spread", None])
    ),
)


@given(
    st.lists(PLACEMENTS, min_size=1, max_size=6),
    st.sampled_from(["cluster", "spread", "partition"]),
)
def test_an_arm_passes_only_if_all_known_nodes_are_in_one_group_of_its_strategy(
    placements, strategy
):
    known = [where for where in placements if where is not None]
    fits = (
        all(where.group is not None and where.strategy in (None, strategy) for where in known)
        and len({where.group for where in known}) <= 1
    )
    assert (problems(treatment(*placements, placement=strategy)) == []) == fits


def zoned(pairs, *zones, **facts):
    nodes = [node(f"n{n}", zone=zone, **facts) for n, zone in enumerate(zones)]
    return arm("baseline", nodes, pairs=pairs)


ONE = Pairing("one")


def pair_problems(*arms, pairing=ONE):
    return [(fault.path, str(fault)) for fault in pair_faults(arms, pairing, WHERE)]


def test_nodes_of_one_zone_make_no_pair_across_zones():
    ((path, problem),) = pair_problems(GOOD, zoned("across-zones", "us-east-1a", "us-east-1a"))
    assert path == "arms[1].pairs"
    assert "in us-east-1a, make no pair across zones" in problem
    assert "let the nodes labelled a=c be in several zones" in problem


def test_nodes_of_different_zones_make_no_pair_within_one():
    ((_, problem),) = pair_problems(zoned("within-zone", "us-east-1a", "us-east-1b"))
    assert "in us-east-1a and us-east-1b, make no pair within zone" in problem


def test_nodes_of_two_zones_make_both_kinds_of_pairs():
    zones = ("us-east-1a", "us-east-1b", "us-east-1a")
    assert pair_problems(zoned("across-zones", *zones), zoned("within-zone", *zones)) == []


def test_more_random_pairs_than_there_are_across_zones_are_refused():
    far = zoned("across-zones", "us-east-1a", "us-east-1b", "us-east-1b")
    ((path, problem),) = pair_problems(far, pairing=Pairing("random", 3))
    assert path == "pairing.random"
    assert "2 pairs across zones, fewer than 3" in problem


def test_a_node_without_a_known_zone_is_named():
    ((path, problem),) = pair_problems(zoned("across-zones", "us-east-1a", None))
    assert path == "arms[0].pairs"
    assert "the zone of n1" in problem


def test_nodes_that_do_not_exist_yet_have_no_zone_and_are_not_refused():
    nobody = {"instance_id": None, "kubernetes": None}
    assert pair_problems(zoned("across-zones", None, None, **nobody)) == []
