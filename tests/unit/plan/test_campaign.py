"""The check of a campaign's input and the arithmetic of its steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate.plan.campaign import Campaign, Sweep, check_plans, read_campaign
from rackrate.plan.campaign_estimate import (
    campaign_estimate,
    change_span,
    check_budget,
    step_estimate,
)
from rackrate.plan.campaign_fields import MAX_DRAWS, Draws
from rackrate.plan.faults import Faults
from tests.unit.builders import estimates
from tests.unit.samples import SETTINGS

SWEEPS = ("nodes", "vpc_cni")


def read(raw, *, before=None, owns_nodes=True, campaign_id="camp"):
    """The campaign of an input, and its faults as texts."""
    faults = Faults()
    campaign = read_campaign(
        raw,
        campaign_id=campaign_id,
        sweeps=SWEEPS,
        owns_nodes=owns_nodes,
        before=before,
        faults=faults,
    )
    return campaign, [str(fault) for fault in faults]


def test_the_schemas_name_and_whole_numbers_with_a_fraction_are_read():
    campaign, faults = read({"$schema": "x.json", "draws": 6.0, "plan": {"blocks": 7.0}})
    assert faults == []
    assert (campaign.least, campaign.plan) == (6, {"blocks": 7})
    continuing = {"$schema": "x.json", "continue": "before"}
    assert read(continuing, before={"draws": {"least": 5.0, "most": 6.0}})[1] == []
    assert read({"sweep": {"nodes": [2.0, 4.0]}})[0].sweep.values == (2, 4)


def test_an_empty_input_is_a_campaign_of_four_to_twelve_draws():
    campaign, faults = read({})
    assert faults == []
    assert campaign.kind == "draws"
    assert (campaign.least, campaign.most) == (4, 12)
    assert campaign.budget_dollars == 5


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        ([], "$: must be an object, not a list; write {} or an object of fields"),
        ({"draw": 1}, "draw: is not a field here (did you mean draws?)"),
        ({"draws": 0}, "draws: must be at least 1, not 0"),
        ({"draws": MAX_DRAWS + 1}, "draws: must be at most 60, not 61"),
        ({"draws": {"least": 5, "most": 4}}, "draws.most: must be no less than draws.least, 5"),
        (
            {"draws": {"last": 5, "most": 4}},
            "draws.last: is not a field here (did you mean least?)",
        ),
        ({"sweep": {"nods": [2, 4]}}, "sweep.nods: is nothing that a campaign can change (did you"),
        ({"$schema": 1}, "$schema: must be a valid string"),
        ({"draws": 4, "pool": ["a"]}, "pool: excludes draws: a campaign does one of draws, sweep"),
        ({"draws": 4, "sweep": {"nodes": [2, 4]}}, "sweep: excludes draws"),
        ({"draws": "x", "sweep": {"nodes": [2, 4]}}, "sweep: excludes draws"),
        ({"sweep": {}}, "sweep: is empty; use one of nodes or vpc_cni"),
        ({"sweep": {"kernel": ["a", "b"]}}, "sweep.kernel: is nothing that a campaign can change"),
        ({"sweep": {"nodes": [2, 4], "vpc_cni": ["a", "b"]}}, "sweep: changes nodes and vpc_cni"),
        ({"sweep": {"nodes": [2]}}, "sweep.nodes: has fewer than two values"),
        ({"sweep": {"nodes": [2, 2]}}, "sweep.nodes[1]: 2 is named twice"),
        ({"sweep": {"nodes": [2, True]}}, "sweep.nodes[1]: must be a text or a whole number"),
        ({"sweep": {"nodes": list(range(2, 30))}}, "sweep.nodes: has more than 20 entries"),
        ({"runs_per_step": 3}, "runs_per_step: is only for a sweep"),
        ({"sweep": {"nodes": [2, 4]}, "series": "a"}, "series: is only for draws"),
        ({"pool": []}, "pool: is empty"),
        ({"pool": ["a", "a"]}, "pool[1]: is named twice"),
        ({"pool": ["a"] * 61}, "pool: has more than 60 entries; name fewer"),
        ({"pool": ["a"], "budget_dollars": 1}, "budget_dollars: is not for a pool"),
        ({"plan": {"dry_run": True}}, "plan.dry_run: is not a field of a campaign's plan; write"),
        ({"plan": {"campaign": "x"}}, "plan.campaign: is not a field of a campaign's plan; remove"),
        ({"budget_dollars": 0}, "budget_dollars: must be more than 0"),
        ({"series": "Not A Name"}, "series: 'Not A Name' is not a name"),
        ({"plan": {"tests": ["x" * 40_000]}}, "$: is 40"),
    ],
)
def test_a_mistake_is_told_with_its_path_and_remedy(raw, fault):
    _, faults = read(raw)
    assert any(text.startswith(fault) for text in faults), faults


def test_all_mistakes_are_told_at_once():
    _, faults = read({"draws": 0, "budget_dollars": -1, "sede": 1, "pool": [1]})
    assert len(faults) >= 4


def test_a_name_so_long_that_its_runs_would_have_none_is_refused():
    assert read({}, campaign_id="c" * 76)[1] == []
    (fault,) = read({}, campaign_id="c" * 77)[1]
    assert "give the execution a name of at most 76 characters" in fault


def test_the_field_that_step_functions_adds_is_no_mistake():
    assert read({"AWS_STEP_FUNCTIONS_STARTED_BY_EXECUTION_ID": "arn"})[1] == []


@pytest.mark.parametrize("raw", [{}, {"sweep": {"nodes": [2, 4]}}, {"draws": 4}])
def test_a_stack_without_nodes_of_its_own_only_pools(raw):
    (fault,) = read(raw, owns_nodes=False)[1]
    assert "rackrate pool" in fault
    assert read({"pool": ["a"]}, owns_nodes=False)[1] == []


def test_a_continued_campaign_takes_over_the_input_but_no_dry_run():
    before = {"plan": {"tests": ["rtt"]}, "draws": 5, "seed": 3, "dry_run": True}
    campaign, faults = read({"continue": "old", "draws": 8}, before=before)
    assert faults == []
    assert (campaign.plan, campaign.seed, campaign.most) == ({"tests": ["rtt"]}, 3, 8)
    assert (campaign.continues, campaign.dry_run) == ("old", False)


def test_a_sweep_goes_forth_and_back_so_that_a_drift_cancels():
    sweep = Sweep(change="nodes", values=(1, 2, 3), runs_per_step=3)
    assert sweep.order == (1, 2, 3, 3, 2, 1, 1, 2, 3)


@given(
    st.lists(st.integers(2, 9), min_size=2, max_size=5, unique=True),
    st.integers(1, 5),
    st.data(),
)
def test_a_sweep_makes_each_value_as_often_as_it_is_asked_for_whatever_is_lost(values, runs, data):
    campaign, _ = read({"sweep": {"nodes": values}, "runs_per_step": runs})
    done = []
    for _ in range(20 * campaign.most):
        if len(done) == campaign.most:
            break
        value = campaign.value_after(done)
        if data.draw(st.booleans(), label="has a result"):
            done.append(value)
    assert all(done.count(value) <= runs for value in values)
    if len(done) == campaign.most:
        assert sorted(done) == sorted(values * runs)
        with pytest.raises(LookupError):
            campaign.value_after(done)


def test_runs_differ_in_their_seed_unless_the_plan_has_one():
    campaign, _ = read({})
    seeds = {campaign.plan_of_step("camp", number)["seed"] for number in range(1, 61)}
    assert len(seeds) == 60
    same, _ = read({"plan": {"seed": 7}})
    assert {same.plan_of_step("camp", number)["seed"] for number in (1, 2)} == {7}


def test_a_plan_is_checked_with_the_nodes_of_each_step_and_each_fault_told_once():
    faults = Faults()
    plans = check_plans(
        {"pairing": {"random": 5}, "blocks": 0},
        [2, 4, 2],
        settings=SETTINGS,
        campaign_id="camp",
        faults=faults,
    )
    assert plans == {}
    paths = [fault.path for fault in faults]
    assert sorted(paths) == ["plan.blocks", "plan.pairing.random"]


def test_a_misspelt_field_of_the_runs_plan_is_told_with_the_nearest_right_one():
    faults = Faults()
    plan = {"tests": [{"name": "tcp-1", "stream": 2}]}
    check_plans(plan, [4], settings=SETTINGS, campaign_id="camp", faults=faults)
    (fault,) = faults
    assert fault.path == "plan.tests[0].stream" and "did you mean streams?" in fault.problem


def campaign_of(**changes):
    fields = {
        "plan": {},
        "draws": Draws(least=4, most=12),
        "sweep": None,
        "pool": None,
        "series": None,
        "budget_dollars": 5.0,
        "continues": None,
        "seed": 1,
        "dry_run": False,
    }
    return Campaign(**{**fields, **changes})


def estimate_of(campaign, done=()):
    step = step_estimate(None, 2, (240.0, 480.0), estimates(seconds=600.0))
    return campaign_estimate(campaign, [step], done=done, power=(), guards=())


def test_an_estimate_is_of_the_steps_that_are_left():
    campaign = campaign_of()
    for number in range(5):
        steps = estimate_of(campaign, [None] * number).steps
        assert (steps.least, steps.most) == (4 - number, 12 - number)
    estimate = estimate_of(campaign)
    assert estimate.seconds.most == 12 * (480 + 600)
    assert estimate.seconds.least == 4 * (240 + 600)


def test_an_estimate_says_whether_its_change_was_measured_or_is_assumed():
    assert change_span([]) is change_span([11.0]) is None
    assert change_span([11.0, 14.0, 12.0]) == (11.0, 21.0)
    step = step_estimate(None, 2, (11.0, 21.0), estimates(seconds=600.0))
    for changes, words in ((3, "11 s to 21 s, by the last 3 on this stack"), (1, "as on AWS")):
        campaign = campaign_of()
        estimate = campaign_estimate(
            campaign, [step], done=(), power=(), guards=(), changes=changes
        )
        assert words in estimate.assumptions[0]


def test_a_sweep_is_estimated_value_by_value():
    sweep = Sweep(change="nodes", values=(2, 4), runs_per_step=2)
    campaign = campaign_of(draws=None, sweep=sweep)
    steps = [
        step_estimate(value, value, (0.0, 0.0), estimates(seconds=100.0 * value))
        for value in sweep.values
    ]
    estimate = campaign_estimate(campaign, steps, done=[4], power=(), guards=())
    assert estimate.steps.most == 3
    assert estimate.seconds.most == 2 * 200 + 400


def test_without_a_price_the_budget_is_not_checked_and_that_is_told():
    faults = Faults()
    step = step_estimate(None, 2, (240.0, 480.0), estimates(seconds=0.0))
    estimate = campaign_estimate(campaign_of(), [step], done=(), power=(), guards=())
    assert estimate.usd is None
    (warning,) = check_budget(campaign_of(budget_dollars=0.01), estimate, faults)
    assert "not known" in warning
    assert faults == []
