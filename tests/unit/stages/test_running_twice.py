"""A function crashes after one of its writes and runs again: the outcome is that of one run."""

from __future__ import annotations

import pytest

from rackrate.plan.items import block_items
from rackrate.results.build import RunFailure
from rackrate.stages.campaign.judge import judge
from rackrate.stages.campaign.plan_campaign import plan_campaign
from rackrate.stages.execution.take_lease import take_campaign_lease, take_lease
from rackrate.stages.run.analyze import analyze
from rackrate.stages.run.collect import collect
from rackrate.stages.run.deploy import deploy
from rackrate.stages.run.finish import finish
from rackrate.stages.run.launch import launch
from rackrate.stages.run.plan import plan
from rackrate.stages.run.report import report
from rackrate.stages.run.teardown import teardown
from rackrate.verdict.model import Analysis
from tests.unit.node_groups import FakeNodeGroups
from tests.unit.stages.campaigns import (
    CAMPAIGN,
    CAMPAIGN_ARN,
    OWNED,
    Executions,
    NodeGroups,
    results_of_run,
    store_run,
)
from tests.unit.stages.crashes import crash_then_repeat
from tests.unit.stages.runs import EXECUTIONS, PLAN

#: Seed and tests are given, so that two runs differ in nothing but their ids.
TWO_BLOCKS = {**PLAN, "tests": PLAN["tests"][:1], "blocks": 2}


def outcome(resources, run_id, after):
    """Take a run through its functions; each crashes after its n-th write, if a number is given."""
    store, arn = resources.store, EXECUTIONS + run_id

    def twice(work):
        return crash_then_repeat(store, work, after=after) if after else work()

    twice(lambda: plan(TWO_BLOCKS, resources, run_id=run_id, execution_arn=arn))
    assert twice(lambda: take_lease(run_id, resources)).taken
    twice(lambda: deploy(run_id, resources))
    for item in store.runs.items(run_id):
        launched = twice(lambda item=item: launch(run_id, item, resources))
        while not launched.ready:
            launched = launch(run_id, item, resources)
        if launched.pods:
            known = {"attempt": launched.attempt, "deadline": launched.deadline}
            twice(
                lambda item=item, launched=launched, known=known: collect(
                    run_id,
                    launched.repeated or block_items([item]),
                    resources,
                    watch_seconds=1,
                    **known,
                )
            )
    twice(lambda: analyze(run_id, resources, after_failure=False))
    reported = twice(lambda: report(run_id, resources, failure=None))
    twice(lambda: teardown(run_id, resources))
    finished = twice(
        lambda: finish(
            run_id,
            resources,
            execution_arn=arn,
            failure=None,
            report_key=reported.report_key,
        )
    )
    run, analysis = (
        store.runs.find(run_id),
        store.runs.find_document(run_id, "analysis.json", Analysis),
    )
    return {
        "status": (run.status, finished.output.status, run.conclusion),
        "counts": (run.trials_measured, run.trials_failed),
        "items": store.runs.items(run_id),
        "trials": {
            key: (trial.status, trial.attempt, trial.values)
            for key, trial in store.trials.of(run_id).items()
        },
        "verdicts": analysis.verdicts,
        "leases": store.leases.valid(),
        "left": list(resources.cluster.objects),
    }


def test_a_run_whose_every_function_crashes_once_ends_as_if_none_had(resources):
    resources = resources.but(eks=FakeNodeGroups())
    once = outcome(resources, "once", None)
    assert once["counts"] == (len(once["trials"]), 0) and once["trials"]
    for after in range(1, 7):
        assert outcome(resources, f"twice-{after}", after) == once, after


@pytest.fixture
def settings():
    return OWNED


@pytest.mark.parametrize("after", range(1, 6))
def test_a_step_of_a_campaign_is_judged_once_and_gets_into_its_series(resources, cluster, after):
    cluster.nodes = []
    owned = resources.but(eks=NodeGroups(cluster), step_functions=Executions())
    store, campaigns = owned.store, owned.store.campaigns
    requested = {"plan": PLAN, "draws": 3, "series": "nightly"}
    plan_campaign(requested, owned, campaign_id=CAMPAIGN, execution_arn=CAMPAIGN_ARN)
    assert take_campaign_lease(CAMPAIGN, owned).taken
    first = judge(CAMPAIGN, owned, failure=None)
    step = campaigns.steps(CAMPAIGN)[0]
    campaigns.put_step(CAMPAIGN, step.model_copy(update={"status": "running"}))
    store_run(store, results_of_run(first.run_id))
    second = crash_then_repeat(
        store, lambda: judge(CAMPAIGN, owned, failure=None, failed=1), after=after
    )
    assert campaigns.series("nightly") == (first.run_id,)
    lost = RunFailure("NodesUnavailable", "no capacity")
    third = crash_then_repeat(
        store, lambda: judge(CAMPAIGN, owned, failure=lost, failed=2), after=after
    )
    assert (second.number, third.number) == (2, 3)
    states = [step.status for step in campaigns.steps(CAMPAIGN)]
    assert states == ["succeeded", "lost", "changing"]
