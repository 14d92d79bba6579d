"""A plan or a campaign that somebody wrote otherwise is refused with its faults, or can be made."""

from __future__ import annotations

import contextlib
import copy
import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from rackrate.errors import InvalidCampaign, InvalidComparison, InvalidPlan
from rackrate.plan.campaign import check_plans, read_campaign
from rackrate.plan.check import check_plan
from rackrate.plan.endpoints import resolve
from rackrate.plan.estimate import estimate
from rackrate.plan.faults import Faults
from rackrate.plan.items import build_schedule, build_warm_up
from rackrate.results.comparison import read_request
from rackrate.stack.preflight import PreflightFailed
from tests import ROOT
from tests.unit.builders import usual_arm
from tests.unit.samples import ARMS, ENDPOINTS, HOST_SETTINGS

NODES = {arm.name: [f"{arm.name}-{number}" for number in range(4)] for arm in ARMS}
COUNTS = {name: len(nodes) for name, nodes in NODES.items()}
#: Most of what can be written in a plan or a campaign.
FULL_PLAN = {
    "arms": [
        "treatment",
        {"name": "host", "nodes": "baseline", "client_network": "host", "server_network": "pod"},
    ],
    "baseline": "treatment",
    "tests": [
        {"name": "tcp-1", "tool": "iperf3", "seconds": 2, "streams": 4},
        {"name": "rtt", "tool": "ping", "count": 10, "interval_seconds": 0.2},
        {"name": "load", "tool": "sockperf", "seconds": 1},
    ],
    "blocks": {"least": 6, "most": 12},
    "pairing": {"random": 2},
    "direction": "both",
    "load": "together",
    "pause_seconds": 1,
    "threshold": 0.05,
    "tolerated_loss": 0.1,
    "seed": 7,
    "warm_up": True,
    "dry_run": False,
    "compare_with": ["main"],
    "if_busy": "refuse",
}
PLANS = [json.loads(path.read_text()) for path in sorted((ROOT / "docs/plans").glob("*.json"))]
CAMPAIGNS = [
    json.loads(path.read_text()) for path in sorted((ROOT / "docs/campaigns").glob("*.json"))
]
CAMPAIGNS += [{"draws": {"least": 4, "most": 8}, "plan": FULL_PLAN, "budget_dollars": 5, "seed": 1}]
CAMPAIGNS += [{"pool": ["a", {"results": "pools/x/1.json"}]}, {"continue": "c", "draws": 4}]
OTHER = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, 1, 2, 3, 10**400, -1])
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["treatment", "baseline", "host", "mesh", "ring", "iperf", "both"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=4,
)


def places(value, path=()):
    """The way to each part of a document, and to one that it does not have."""
    if isinstance(value, dict):
        yield (*path, "another")
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*path, key)
            yield from places(each, (*path, key))


@st.composite
def edited(draw, documents):
    """One of the documents with up to three parts that are something else, or gone."""
    document = copy.deepcopy(draw(st.sampled_from(documents)))
    for *way, last in draw(st.lists(st.sampled_from(list(places(document))), max_size=3)):
        with contextlib.suppress(KeyError, IndexError, TypeError):
            at = document
            for key in way:
                at = at[key]
            if draw(st.integers(0, 4)) == 0:
                del at[last]
            else:
                at[last] = draw(OTHER)
    return document


def lay_out(plan):
    """The schedule and the estimate of a checked plan."""
    arms = [
        usual_arm(choice.nodes, NODES[choice.nodes]).model_copy(
            update={
                "name": choice.name,
                "client_network": choice.client_network,
                "server_network": choice.server_network,
                "baseline": choice.name == plan.baseline,
                "endpoint": choice.endpoint and resolve(choice.endpoint, ENDPOINTS),
            }
        )
        for choice in plan.arms
    ]
    items = build_schedule(plan, arms)
    warm_ups = build_warm_up(plan, arms) if plan.warm_up else []
    return items, estimate(plan, items, warm_ups, arms, pricing=None, region="us-east-1")


#: What a plan of 32 kB may have of one thing, at most.
MANY = 2500
LONG = st.sampled_from(["x" * 30_000, "\U0001f600" * 2_000, "\x9d\x1b]" * 2_000, 10**4000])


@given(
    st.fixed_dictionaries({}, optional={"seed": LONG, "blocks": LONG, "pairing": LONG}),
    st.dictionaries(st.text(max_size=4), OTHER, max_size=3),
    st.integers(0, MANY),
)
def test_a_refusal_fits_into_a_cause_and_counts_what_it_leaves_out(long, few, many):
    test = {"name": "tcp-1", **{f"{number}": 0 for number in range(many)}}
    try:
        check_plan({"tests": [test], **few, **long}, HOST_SETTINGS, nodes=COUNTS, run_id="r")
    except InvalidPlan as invalid:
        faults = invalid.faults
    else:
        assert not (many or long)
        return
    for kind in (InvalidPlan, InvalidCampaign, InvalidComparison, PreflightFailed):
        message = str(kind(faults))
        # Step Functions keeps 32 KiB, and Lambda adds up to 4 KiB of stack trace.
        assert len(json.dumps(message)) < 28 * 1024
        lines = message.split("\n")
        assert all(line.isprintable() for line in lines)
        if len(faults) <= 5:
            assert len(lines) == len(faults)
        elif len(faults) > 20:
            named = len(lines) - 1
            assert 5 <= named <= 20
            assert f" {len(faults) - named} more" in lines[-1]


@given(edited([{}, FULL_PLAN, *PLANS]))
def test_an_edited_plan_is_refused_with_its_faults_or_can_be_laid_out(raw):
    try:
        settings = replace(HOST_SETTINGS, endpoints=ENDPOINTS)
        plan = check_plan(raw, settings, nodes=COUNTS, run_id="r")
    except InvalidPlan as invalid:
        assert invalid.faults
        for fault in invalid.faults:
            assert "\n" not in str(fault)
            assert len(str(fault)) < 1000
        return
    items, faults = lay_out(plan)
    assert items
    assert 0 < faults.seconds < 10**7
    assert faults.trials >= 1


@given(edited([{}, *CAMPAIGNS]), st.none() | edited(CAMPAIGNS))
def test_an_edited_campaign_is_read_and_its_faults_are_told(raw, before):
    faults = Faults()
    campaign = read_campaign(
        raw,
        campaign_id="c",
        sweeps=("nodes", "vpc_cni"),
        owns_nodes=True,
        before=before if isinstance(raw, dict) and "continue" in raw else None,
        faults=faults,
    )
    check_plans(
        campaign.plan,
        [2, 4],
        settings=HOST_SETTINGS,
        campaign_id="c",
        faults=faults,
    )
    assert all("\n" not in str(fault) and len(str(fault)) < 1000 for fault in faults)
    assert campaign.kind in ("draws", "sweep", "pool")
    if not faults:
        assert 1 <= campaign.least <= campaign.most


@given(edited([{"compare": {"run": "a", "with": ["b", "c"]}}]))
def test_an_edited_comparison_is_read_or_its_faults_are_told(raw):
    with contextlib.suppress(InvalidComparison):
        assert read_request(raw).run
