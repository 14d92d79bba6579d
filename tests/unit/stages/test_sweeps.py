"""A sweep through the functions, as the state machine takes it: its steps, cells and clean-up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rackrate.errors import InvalidCampaign
from rackrate.plan.items import block_items
from rackrate.stages.campaign.change import change
from rackrate.stages.campaign.finish_campaign import finish_campaign
from rackrate.stages.campaign.judge import judge
from rackrate.stages.campaign.plan_campaign import plan_campaign
from rackrate.stages.campaign.report_campaign import report_campaign
from rackrate.stages.campaign.restore import restore
from rackrate.stages.execution.take_lease import take_campaign_lease, take_lease
from rackrate.stages.run.analyze import analyze
from rackrate.stages.run.collect import collect
from rackrate.stages.run.deploy import deploy
from rackrate.stages.run.finish import finish
from rackrate.stages.run.launch import launch
from rackrate.stages.run.plan import plan
from rackrate.stages.run.report import report
from rackrate_contract.campaign import CampaignResults
from tests.unit.changes.fake_eks import NEW, OLD, Eks
from tests.unit.samples import SETTINGS
from tests.unit.stages.runs import EXECUTIONS

CAMPAIGN = "upgrade"
CAMPAIGN_ARN = "arn:aws:states:us-east-1:123456789012:execution:rackrate-campaign:upgrade"
#: Short enough to match the output of the fake cluster's pods.
PLAN = {"tests": [{"name": "tcp-1", "seconds": 2}], "blocks": 1, "warm_up": False}


@pytest.fixture
def settings():
    return replace(SETTINGS, owns_nodes=True)


@pytest.fixture
def eks(cluster):
    return Eks(cluster)


@pytest.fixture
def resources(resources, eks):
    return resources.but(eks=eks)


@pytest.fixture
def begin(resources):
    def do(**given):
        raw = {"plan": PLAN, **given}
        planned = plan_campaign(raw, resources, campaign_id=CAMPAIGN, execution_arn=CAMPAIGN_ARN)
        assert take_campaign_lease(CAMPAIGN, resources).taken
        return planned

    return do


@pytest.fixture
def run(resources, store):
    """Make a child run as the benchmark's state machine does."""

    def do(judged):
        run_id, arn = judged.run_id, EXECUTIONS + judged.run_id
        plan(judged.plan, resources, run_id=run_id, execution_arn=arn)
        assert take_lease(run_id, resources).taken
        deploy(run_id, resources)
        for item in store.runs.items(run_id):
            launched = launch(run_id, item, resources)
            if launched.pods:
                known = {"attempt": launched.attempt, "deadline": launched.deadline}
                collect(
                    run_id,
                    launched.repeated or block_items([item]),
                    resources,
                    watch_seconds=1,
                    **known,
                )
        analyze(run_id, resources, after_failure=False)
        page = report(run_id, resources, failure=None)
        finish(run_id, resources, execution_arn=arn, failure=None, report_key=page.report_key)

    return do


class TestVpcCni:
    @pytest.fixture
    def swept(self, begin, run, resources, eks):
        begin(sweep={"vpc_cni": [OLD, NEW]})
        versions = []
        while not (judged := judge(CAMPAIGN, resources, failure=None)).enough:
            while not change(CAMPAIGN, resources).ready:
                eks.end("vpc-cni")
            versions.append(eks.addons["vpc-cni"]["addonVersion"])
            run(judged)
        return versions

    @pytest.fixture
    def results(self, swept, resources, store):
        report_campaign(CAMPAIGN, resources, failure=None)
        return resources.store.campaigns.find_document(CAMPAIGN, "campaign.json", CampaignResults)

    def test_every_value_has_its_runs_and_each_is_made_with_its_version(self, swept, results):
        assert sorted(swept) == [OLD, OLD, NEW, NEW]
        assert [step.value for step in results.steps] == swept
        assert [step.change for step in results.steps] == [f"VPC CNI {each}" for each in swept]
        assert {step.status for step in results.steps} == {"succeeded"}
        assert results.stopped.text == "Every step of the sweep is made: 4 runs."

    def test_each_arm_and_metric_has_a_cell_for_each_value_and_the_output_a_line(
        self, results, resources
    ):
        assert [(cell.arm, cell.value, cell.runs) for cell in results.sweep] == [
            ("treatment", OLD, 2),
            ("treatment", NEW, 2),
            ("baseline", OLD, 2),
            ("baseline", NEW, 2),
        ]
        first, second = results.sweep[:2]
        assert (first.ratio, first.verdict) == (None, None)
        assert second.ratio == pytest.approx(1.0), "the pods print the same with each version"
        assert second.share_of_nominal == second.mean / 10e9, "the peak of c5.large"
        assert "VPC CNI v1.15.4-eksbuild.1" in results.conclusion
        finished = finish_campaign(
            CAMPAIGN, resources, execution_arn=CAMPAIGN_ARN, failure=None, report_key=None
        )
        assert finished.output.status == "succeeded"
        assert len(finished.output.answers) == len(results.sweep)


def test_the_phase_names_the_value_that_is_made(begin, resources, store):
    begin(sweep={"vpc_cni": [NEW, OLD]})
    judge(CAMPAIGN, resources, failure=None)
    assert not change(CAMPAIGN, resources).ready
    phase = store.campaigns.get(CAMPAIGN).phase
    assert phase == f"step 1 of 4: VPC CNI {NEW}: EKS updates the add-on vpc-cni"


def test_what_a_step_changed_is_put_back(begin, resources, eks):
    begin(sweep={"vpc_cni": [NEW, OLD]})
    judge(CAMPAIGN, resources, failure=None)
    assert not change(CAMPAIGN, resources).ready
    assert eks.addons["vpc-cni"]["addonVersion"] == NEW
    assert not restore(CAMPAIGN, resources).done, "EKS still updates it"
    eks.end("vpc-cni")
    while not restore(CAMPAIGN, resources).done:
        eks.end("vpc-cni")
    assert eks.addons["vpc-cni"]["addonVersion"] == OLD
    assert resources.store.campaigns.get(CAMPAIGN).changed is None


def test_what_limits_a_step_is_refused_before_the_first(begin, eks, store, resources):
    with pytest.raises(InvalidCampaign, match=r"sweep.vpc_cni\[1\]: EKS does not offer v9"):
        begin(sweep={"vpc_cni": [OLD, "v9.9.9-eksbuild.1"]})
    assert eks.updates == {}
    assert resources.store.campaigns.find(CAMPAIGN) is None


def test_a_stack_that_did_not_make_the_cluster_is_told_to_pool(resources):
    guest = resources.but(settings=SETTINGS)
    raw = {"plan": PLAN, "sweep": {"vpc_cni": [OLD, NEW]}}
    with pytest.raises(InvalidCampaign, match="this stack did not make the cluster"):
        plan_campaign(raw, guest, campaign_id=CAMPAIGN, execution_arn=CAMPAIGN_ARN)
