"""Take a run through the functions as the state machine does."""

from __future__ import annotations

import pytest

from rackrate.stages.run.deploy import deploy as deploy_servers
from rackrate.stages.run.launch import launch
from rackrate.stages.run.plan import plan as plan_run
from tests.unit.stages.runs import EXECUTIONS, PLAN, RUN, States, collect_pods


@pytest.fixture
def plan(resources):
    def do(raw=PLAN, run_id=RUN, **others):
        return plan_run(
            raw, resources.but(**others), run_id=run_id, execution_arn=EXECUTIONS + run_id
        )

    return do


@pytest.fixture
def deploy(plan, resources, store):
    def do(raw=PLAN, **others):
        plan(raw, **others)
        running = {"step_functions": States("RUNNING"), **others}
        deploy_servers(RUN, resources.but(**running))
        return store.runs.items(RUN)

    return do


@pytest.fixture
def measure(resources):
    """Return a function that runs items as the state machine does.

    It returns what Launch returned for the last one.
    """

    def do(*items):
        for item in items:
            launched = launch(RUN, item, resources)
            if launched.pods:
                assert collect_pods(resources, item, launched).finished
        return launched

    return do
