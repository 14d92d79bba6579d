"""The check of a hunt's input: what it hunts for, and the plan of its runs."""

from __future__ import annotations

import pytest

from rackrate.plan.campaign import read_campaign
from rackrate.plan.faults import Faults
from tests.unit.samples import SETTINGS

EVERY_UNIT = [("rtt", "at_most", "90 us", 90e-6), ("tcp-1", "at_least", "9.5 Gbit/s", 9.5e9)]


def read(hunt, *, idles=False, owns_nodes=True, **more):
    faults = Faults()
    campaign = read_campaign(
        {"hunt": hunt, **more},
        campaign_id="camp",
        sweeps=(),
        owns_nodes=owns_nodes,
        before=None,
        faults=faults,
        arms=SETTINGS.arms,
        idles=idles,
    )
    return campaign, [str(fault) for fault in faults]


def test_a_hunt_draws_the_arm_that_is_not_the_baseline_and_measures_it_alone():
    campaign, faults = read({"test": "rtt"})
    assert faults == []
    assert (campaign.kind, campaign.least, campaign.most) == ("hunt", 1, 12)
    assert (campaign.hunt.arm, campaign.hunt.metric) == ("treatment", "rtt")
    assert campaign.plan == {"tests": ["rtt"], "arms": ["treatment"]}


def test_a_hunt_may_be_towards_an_endpoint():
    campaign, faults = read({"test": "rtt", "endpoint": "instance"})
    assert faults == []
    arm = {"name": "treatment", "nodes": "treatment", "endpoint": "instance"}
    assert campaign.plan == {"tests": ["rtt"], "arms": [arm]}


@pytest.mark.parametrize(("draws", "most"), [({"most": 12}, 12), ({"most": 2}, 2), (3, 3)])
def test_a_hunt_may_have_a_number_of_draws(draws, most):
    campaign, faults = read({"test": "rtt"}, draws=draws)
    assert (faults, campaign.most) == ([], most)


@pytest.mark.parametrize(("test", "field", "text", "value"), EVERY_UNIT)
def test_a_target_is_read_in_the_metrics_unit(test, field, text, value):
    campaign, faults = read({"test": test, field: text})
    assert faults == []
    assert campaign.hunt.target == pytest.approx(value)


def test_a_plan_keeps_its_own_tests():
    own = {"name": "rtt", "count": 20}
    campaign, faults = read({"test": "rtt", "arm": "baseline"}, plan={"tests": ["tcp-1", own]})
    assert faults == []
    assert campaign.plan == {"tests": ["tcp-1", own], "arms": ["baseline"]}


@pytest.mark.parametrize(
    ("hunt", "fault"),
    [
        ({}, "hunt.test: is missing; add it"),
        ({"test": "rtt", "at_mots": "1 ms"}, "hunt.at_mots: is not a field here (did you mean"),
        ({"test": "rtt", "metric": "loss"}, "hunt.metric: rtt has no metric 'loss'; use one of"),
        ({"test": "rt"}, "hunt.test: the plan has no test 'rt' (did you mean rtt?); use one of"),
        ({"test": "rtt", "arm": "x"}, "hunt.arm: the stack has no arm 'x'; use one of treatment"),
        ({"test": "rtt", "at_least": "1 ms"}, "hunt.at_least: of rtt less is better; use at_most"),
        ({"test": "tcp-1", "at_most": "1 Gbit/s"}, "hunt.at_most: of throughput more is better"),
        (
            {"test": "rtt", "at_most": "90 Mbit/s"},
            "hunt.at_most: '90 Mbit/s' is no value of rtt; write a number above 0 with its unit,"
            " such as 1.00 s",
        ),
        ({"test": "rtt", "at_most": "0 s"}, "hunt.at_most: '0 s' is no value of rtt"),
        (
            {"test": "rtt", "at_most": "90 us", "best_share": 0.1},
            "hunt.best_share: excludes at_most: a hunt has one goal; remove at_most, or remove",
        ),
        ({"test": "rtt", "best_share": 1}, "hunt.best_share: must be less than 1.0, not 1"),
        ({"test": "rtt", "best_share": 0.001}, "hunt.best_share: must be at least 0.01"),
        (
            {"test": "rtt", "best_share": 0.05},
            "hunt.best_share: takes 14 draws to be shown, more than the most, 12; write a larger",
        ),
    ],
)
def test_a_mistake_is_told_with_its_field_and_remedy(hunt, fault):
    _, faults = read(hunt)
    assert [text for text in faults if text.startswith(fault)], faults
    assert len(faults) == 1


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ({"plan": {"tests": ["tcp-1"]}}, "hunt.test: the plan has no test 'rtt'; use one of tcp-1"),
        ({"plan": {"arms": ["treatment", "baseline"]}}, "plan.arms: is not for a hunt, which"),
        ({"idles": True}, "hunt: nodes that are found are to stay, but this stack removes its"),
        ({"owns_nodes": False}, "hunt: this stack did not make the cluster, and replaces and"),
        ({"sweep": {"nodes": [2, 4]}}, "hunt: excludes sweep: a campaign does one of draws, sweep"),
        ({"series": "nightly"}, "series: is only for draws; remove it"),
    ],
)
def test_what_a_hunt_cannot_go_with_is_told(more, fault):
    _, faults = read({"test": "rtt"}, **more)
    assert [text for text in faults if text.startswith(fault)], faults
