"""Campaigns for the tests of pages. The real code analyzes their runs and builds their results."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from rackrate.report.campaign_page import render_campaign
from rackrate.results.build_campaign import build_campaign, pooled_step
from rackrate.verdict.campaign import stop
from rackrate_contract.campaign import CampaignFacts, CampaignResults, CampaignStopped, Step
from rackrate_contract.document import Json
from rackrate_contract.results import Results
from tests.browser.runs import SEED, measured_run, with_nasty_words
from tests.unit.report.pages import changed

PLAN: Json = {"tests": ["tcp-1", "tcp-8", "rtt"], "blocks": 6}
LEAST, MOST = 4, 12
CAMPAIGN_ID = "campaign-20261121-160000-3d1a"
#: The seconds of a step, and of the replacement of the nodes before it.
STEP, CHANGE = 600.0, 140.0


@dataclass(frozen=True)
class Campaign:
    """A campaign that is over."""

    results: CampaignResults

    def page(self) -> str:
        """report.html."""
        return render_campaign(self.results)


def run_of_step(
    number: int,
    *,
    campaign_id: str = CAMPAIGN_ID,
    plan: Json = PLAN,
    luck: float = 0.0,
    nodes: int = 4,
) -> Results:
    """Make up the run of a step, with new nodes and their luck.

    Args:
        number: the step.
        campaign_id: the campaign that made it.
        plan: its plan.
        luck: how much placements differ: the standard deviation of the logarithm of a value.
        nodes: number of nodes of both arms together.
    """
    chance = random.Random(SEED + number)
    measured = measured_run(
        {**plan, "seed": number},
        run_id=f"{campaign_id}-{number:02d}",
        nodes=nodes,
        lab_scale=0.1,
        luck={arm: math.exp(-abs(chance.gauss(0, luck))) for arm in ("treatment", "baseline")},
    )
    results = measured.results
    assert isinstance(results, Results)
    return _on_new_nodes(results, number)


def _on_new_nodes(results: Results, number: int) -> Results:
    """The results at a time of their own, with other nodes: each draw has new ones."""
    arms = tuple(
        arm.model_copy(
            update={
                "nodes": tuple(
                    node.model_copy(
                        update={
                            "name": f"ip-10-{number}-{index}-{place}.ec2.internal",
                            "instance_id": f"i-{number:02d}{index:02d}{place:013d}",
                        }
                    )
                    for place, node in enumerate(arm.nodes)
                )
            }
        )
        for index, arm in enumerate(results.arms)
    )
    minutes = 12 * number
    started_at = f"2026-11-21T{16 + minutes // 60}:{minutes % 60:02d}:00Z"
    run = results.run.model_copy(update={"started_at": started_at})
    return results.model_copy(update={"arms": arms, "run": run})


def step_of(number: int, run: Results, *, change: str, value: str | int | None = None) -> Step:
    """The finished step of a run."""
    return pooled_step(number, run, None).model_copy(
        update={
            "change": change,
            "value": value,
            "change_seconds": CHANGE + number,
            "dollars": 0.19,
        }
    )


def facts(steps: Sequence[Step], **more: object) -> CampaignFacts:
    """The facts of a campaign with these steps."""
    arn = "arn:aws:states:us-east-1:123456789012:execution:rackrate-campaign:" + CAMPAIGN_ID
    fields = {
        "id": CAMPAIGN_ID,
        "kind": "draws",
        "status": "succeeded",
        "started_at": "2026-11-21T16:00:00.120Z",
        "seconds": STEP * len(steps),
        "execution_arn": arn,
        "lab_scale": None,
        "budget_dollars": 5.0,
        "dollars": sum(step.dollars or 0.0 for step in steps),
        "error": None,
        "cause": None,
    }
    return CampaignFacts.model_validate({**fields, **more})


def _campaign_of_draws(
    runs: Sequence[Results],
    *lost: Step,
    before: Sequence[Results] = (),
    draws: tuple[int, int] = (LEAST, MOST),
    warnings: Sequence[str] = (),
    **more: object,
) -> Campaign:
    steps = [*(step_of(n, run, change="new nodes") for n, run in enumerate(runs, 1)), *lost]
    least, most = draws

    def build(stopped: CampaignStopped | None) -> CampaignResults:
        return build_campaign(
            facts(steps, **more),
            plan=PLAN,
            steps=steps,
            runs=[*before, *runs],
            least=least,
            most=most,
            stopped=stopped,
            warnings=warnings,
        )

    answers = build(None).answers
    return Campaign(build(stop(answers, after=len(steps), least=least, most=most)))


# -- the campaigns


@cache
def draws() -> Campaign:
    """Six draws whose placements differ."""
    return _campaign_of_draws([run_of_step(n, luck=0.12) for n in range(1, 7)])


@cache
def series() -> Campaign:
    """The newest of many draws of a series, slower than those before it."""
    nights = [
        run_of_step(n, campaign_id=f"campaign-202611{n:02d}-010000-77aa", luck=0.03)
        for n in range(1, 21)
    ]
    return _campaign_of_draws(
        [run_of_step(24, luck=0.7)], before=nights, draws=(1, 1), series="nightly"
    )


NO_NODES = "The node group treatment did not come back."


def _cause(message: str) -> str:
    """The cause of a function that raised, in the form of Step Functions."""
    return json.dumps({"errorMessage": message, "stackTrace": []})


@cache
def few() -> Campaign:
    """Two draws and a step whose nodes did not come back: too few for the placement group."""
    lost = Step(
        number=3,
        change="new nodes",
        value=None,
        run_id=f"{CAMPAIGN_ID}-03",
        status="lost",
        started_at=None,
        change_seconds=905.0,
        run_seconds=None,
        dollars=None,
        nodes={},
        reason="InsufficientInstanceCapacity: no c5.large in us-east-1a (node group treatment)",
    )
    return _campaign_of_draws(
        [run_of_step(n, luck=0.12) for n in (1, 2)],
        lost,
        warnings=("1 of 3 draws has no result.",),
        status="failed",
        error="NodesUnavailable",
        cause=_cause(NO_NODES),
    )


def _sweep(
    values: Sequence[str | int], swept: str, titles: str, runs: Sequence[Results]
) -> Campaign:
    steps = [
        step_of(n, run, change=titles.format(value), value=value)
        for n, (value, run) in enumerate(zip(values, runs, strict=True), 1)
    ]
    return Campaign(
        build_campaign(
            facts(steps, kind="sweep", swept=swept),
            plan=PLAN,
            steps=steps,
            runs=runs,
            least=len(steps),
            most=len(steps),
            stopped=None,
        )
    )


@cache
def nodes() -> Campaign:
    """A sweep over numbers of nodes, which are measured together."""
    plan = {"tests": ["tcp-1", "rtt"], "blocks": 6, "pairing": "ring", "load": "together"}
    values = (4, 8, 16, 16, 8, 4)
    runs = [
        run_of_step(n, plan=plan, luck=0.02, nodes=2 * value) for n, value in enumerate(values, 1)
    ]
    return _sweep(values, "nodes", "{} nodes", runs)


@cache
def versions() -> Campaign:
    """A sweep over two versions of an add-on."""
    values = (
        "v1.14.1-eksbuild.1",
        "v1.15.4-eksbuild.1",
        "v1.15.4-eksbuild.1",
        "v1.14.1-eksbuild.1",
    )
    runs = [run_of_step(n, luck=0.01) for n, _ in enumerate(values, 1)]
    return _sweep(values, "vpc_cni", "VPC CNI {}", runs)


@cache
def pool() -> Campaign:
    """Runs of two stacks and with different images of the tools; two runs are on the same nodes."""
    runs = [run_of_step(n, luck=0.1) for n in range(1, 6)]
    runs[1] = runs[1].model_copy(update={"arms": runs[0].arms})
    runs[4] = runs[4].model_copy(
        update={"versions": runs[4].versions.model_copy(update={"image": "example.test/tools:2"})}
    )
    steps = [
        pooled_step(n, run, "the stack rackrate-eu" if n > 3 else None)
        for n, run in enumerate(runs, 1)
    ]
    return Campaign(
        build_campaign(
            facts(steps, kind="pool", budget_dollars=None, dollars=None),
            plan={},
            steps=steps,
            runs=runs,
            least=len(runs),
            most=len(runs),
            stopped=None,
        )
    )


@cache
def hostile() -> Campaign:
    """The campaign with a lost step, with markup and right-to-left text in names and reasons."""
    results = changed(few().results, with_nasty_words)
    cause = {"cause": _cause(with_nasty_words(NO_NODES))}
    return Campaign(
        results.model_copy(update={"campaign": results.campaign.model_copy(update=cause)})
    )


CAMPAIGNS: Mapping[str, Callable[[], Campaign]] = {
    "draws": draws,
    "series": series,
    "few draws": few,
    "sweep of nodes": nodes,
    "sweep of versions": versions,
    "pool": pool,
    "hostile campaign": hostile,
}
