"""Items of the table and events that somebody wrote otherwise stop nothing but themselves."""

from __future__ import annotations

import functools
import json
from decimal import Context, Decimal

import pytest
from botocore.exceptions import ClientError, ParamValidationError
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rackrate.executions.leases import Lease
from rackrate.measure import manifests
from rackrate.stages.campaign.restore import sweep_campaigns
from rackrate.stages.execution.take_lease import take_lease
from rackrate.stages.run.finish import finish
from rackrate.stages.run.plan import plan as plan_run
from rackrate.stages.run.teardown import STATUSES, stop_all, sweep, teardown_stopped
from rackrate.table import to_item
from rackrate.times import later, now
from rackrate_contract.executions import CampaignRecord, RunRecord
from rackrate_text.printable import printable
from tests.unit.samples import SETTINGS
from tests.unit.stages.campaigns import CAMPAIGNS, Executions
from tests.unit.stages.runs import ARN, EXECUTIONS, PLAN, RUN, States

few = functools.partial(
    settings,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)


def fields_of(record):
    """Attributes of a record with values of any kind."""
    return st.dictionaries(st.sampled_from(sorted(record.model_fields)), VALUES, max_size=4)


@pytest.fixture
def write(dynamodb):
    """Return a function that writes an item."""

    def do(**item):
        dynamodb.put_item(TableName=SETTINGS.table_name, Item=to_item(item))

    return do


@pytest.fixture
def plan(resources):
    return lambda: plan_run(PLAN, resources, run_id=RUN, execution_arn=ARN)


@few(max_examples=15)
@given(odd=fields_of(RunRecord))
def test_an_odd_run_hides_no_other_from_the_sweep(store, write, cluster, resources, odd):
    store.runs.start(RUN, "running", "2026-11-22T07:00:00.000Z", execution_arn=ARN)
    cluster.objects.clear()
    for run_id in (RUN, "odd"):
        cluster.create(
            "/api/v1/namespaces/rackrate/configmaps", manifests.owner(run_id, EXECUTIONS + run_id)
        )
    keys = {"pk": "run#odd", "sk": "run", "gsi1pk": "runs", "gsi1sk": "2026-11-22T07"}
    write(**{"run_id": "odd", "status": "running", **odd, **keys})
    swept = sweep(resources.but(step_functions=States("ABORTED")))
    assert RUN in swept.runs
    assert store.runs.find(RUN).status == "aborted"
    assert cluster.objects == {}, "the odd one's objects are deleted all the same"
    store.table.delete(f"run#{RUN}", "run")


@few(max_examples=15)
@given(odd=fields_of(CampaignRecord))
def test_an_odd_campaign_hides_no_other(write, resources, odd):
    good = {"campaign_id": "good", "kind": "draws", "started_at": "2026-11-22T07:00:00.000Z"}
    for name, more in (("good", good), ("odd", odd)):
        keys = {"pk": f"campaign#{name}", "sk": "campaign", "gsi1pk": "campaigns", "gsi1sk": "2026"}
        write(**{**more, **keys, "status": "running"})
    running = {each.id for each in resources.store.campaigns.running()}
    assert "good" in running


@few(max_examples=30)
@given(
    status=st.sampled_from(sorted(STATUSES)),
    error=st.none() | st.text(max_size=30),
    cause=st.none() | st.text(max_size=200) | VALUES.map(json.dumps),
    given_input=st.none() | st.text(max_size=30) | VALUES.map(json.dumps),
)
@example(status="FAILED", error=None, cause="[" * 100_000, given_input="[" * 100_000)
@example(status="ABORTED", error="\x1f", cause=None, given_input=None)
@example(status="FAILED", error="E", cause='{"errorMessage": {"a": 1}}', given_input="{}")
def test_an_end_is_recorded_whatever_its_event_says(
    store, resources, status, error, cause, given_input
):
    store.runs.start(RUN, "running", "2026-11-22T07:00:00.000Z", execution_arn=ARN)
    detail = {"name": RUN, "status": status, "executionArn": ARN, "error": error, "cause": cause}
    if given_input is not None:
        detail["input"] = given_input
    teardown_stopped(detail, resources.but(step_functions=States(status)))
    record = store.runs.find(RUN)
    assert record.status == STATUSES[status]
    assert printable(record.cause) == record.cause
    store.table.delete(f"run#{RUN}", "run")


TIMES = st.sampled_from(["", "yesterday", "2026-11-22", "0001-01-01T00:00:00Z", "9" * 40])
GARBAGE = (
    VALUES
    | st.decimals(allow_nan=False, allow_infinity=False, places=20).map(
        lambda number: Context(prec=38).create_decimal(number)
    )
    | st.just(Decimal("9.9e125"))
    | st.fixed_dictionaries(
        {"run_id": VALUES | st.just("x"), "taken_at": TIMES, "expires_at": TIMES | VALUES},
        optional={"expected_end": TIMES, "kind": VALUES},
    )
)
START = "2026-11-22T07:00:00.000Z"


def running(noun, name, **fields):
    """The item of a run or of a campaign that goes on, with other values for some fields."""
    keys = {"pk": f"{noun}#{name}", "sk": noun, "gsi1pk": f"{noun}s", "gsi1sk": START}
    usual = {f"{noun}_id": name, "status": "running", "started_at": START}
    return {**usual, "execution_arn": EXECUTIONS + name, **fields, **keys}


class Strict(Executions):
    """Step Functions that knows no execution but those of this stack, all of which have ended."""

    def describe_execution(self, *, executionArn):
        self._check(executionArn)
        return {"status": "ABORTED"}

    def stop_execution(self, *, executionArn, error, cause):
        self._check(executionArn)
        self.stopped.append(executionArn)

    def _check(self, arn):
        if not arn:
            raise ParamValidationError(report="Invalid length for parameter executionArn")
        if not arn.startswith((EXECUTIONS, CAMPAIGNS)):
            code = "AccessDeniedException" if arn.startswith("arn:") else "InvalidArn"
            raise ClientError({"Error": {"Code": code, "Message": "no"}}, "DescribeExecution")


ODD_RUNS = [
    {"execution_arn": ""},
    {"execution_arn": "nonsense"},
    {"execution_arn": "arn:aws:states:us-east-1:999999999999:execution:theirs:odd"},
    {"started_at": "yesterday"},
    {"started_at": "2026-11-22"},
    {"started_at": "0001-01-01T00:00:00Z", "expected_seconds": 9e125},
    {"expected_seconds": 9e125},
    {"run_id": RUN},
    {"campaign_id": "camp"},
]


@pytest.mark.parametrize("odd", ODD_RUNS, ids=str)
def test_a_run_that_nobody_can_clean_up_is_named_and_the_others_are_swept(
    store, write, resources, caplog, odd
):
    write(**running("run", "odd", **odd))
    write(**running("run", RUN))
    swept = sweep(resources.but(step_functions=Strict()))
    assert RUN in swept.runs
    assert store.runs.find(RUN).status == "aborted"
    named = {getattr(entry, "item", getattr(entry, "pk", "")) for entry in caplog.records}
    assert "odd" in swept.runs or {"odd", "run#odd"} & named


@pytest.mark.parametrize("odd", ODD_RUNS, ids=str)
def test_a_stack_is_deleted_whatever_a_run_or_a_campaign_looks_like(store, write, resources, odd):
    write(**running("run", "odd", **odd))
    write(**running("run", RUN))
    write(**running("campaign", "odd-2", kind="draws", **odd))
    write(**running("campaign", "camp", kind="draws"))
    executions = Strict()
    stop_all("run", resources.but(step_functions=executions))
    stop_all("campaign", resources.but(step_functions=executions))
    assert {EXECUTIONS + RUN, EXECUTIONS + "camp"} <= {*executions.stopped}
    assert store.runs.find(RUN).status == resources.store.campaigns.get("camp").status == "aborted"


@pytest.mark.parametrize(
    "odd",
    [
        *ODD_RUNS,
        {"changed": {"no": "plan"}},
        {"changed": {"no": "plan"}, "status": "failed"},
        {"restoring_since": "yesterday"},
    ],
    ids=str,
)
def test_a_campaign_that_nobody_can_clean_up_hides_no_other_from_the_sweep(write, resources, odd):
    write(**running("campaign", "a-odd", kind="draws", **odd))
    write(pk="campaign#a-odd", sk="step#0001", number="many")
    write(**running("campaign", "camp", kind="draws"))
    sweep_campaigns(resources.but(step_functions=Strict()), patience_seconds=0)
    assert resources.store.campaigns.get("camp").status == "aborted"


@few(max_examples=20)
@given(garbage=GARBAGE)
def test_a_lease_that_nobody_can_read_keeps_no_node_from_a_run(
    plan, store, write, resources, garbage
):
    plan()
    before = Lease(run_id="other", kind="run", taken_at=START, expected_end=START, expires_at=START)
    write(pk="lease", sk="nodes", baseline=garbage, elsewhere=before.to_json())
    assert store.leases.valid() == {}
    assert take_lease(RUN, resources).taken
    assert {lease.run_id for lease in store.leases.valid().values()} == {RUN}
    finish(RUN, resources, execution_arn=ARN, failure=None, report_key=None)
    assert store.leases.valid() == {}
    store.table.delete("lease", "nodes")
    store.table.delete(f"run#{RUN}", "run")


def test_a_lease_with_fields_of_a_later_rackrate_is_kept(plan, write, resources):
    plan()
    soon = later(now(), 600)
    held = Lease(run_id="other", kind="run", taken_at=START, expected_end=soon, expires_at=soon)
    write(pk="lease", sk="nodes", baseline={**held.to_json(), "reason": "of tomorrow"})
    assert not take_lease(RUN, resources).taken


@few(max_examples=15)
@given(odd=fields_of(RunRecord))
def test_the_lease_of_a_run_whose_item_nobody_can_read_ends_in_time(
    plan, store, write, resources, odd
):
    plan()
    held = Lease(run_id="odd", kind="run", taken_at=START, expected_end=START, expires_at=START)
    write(pk="lease", sk="nodes", baseline=held.to_json())
    write(**{**running("run", "odd"), **odd, "pk": "run#odd", "sk": "run", "gsi1sk": START})
    assert take_lease(RUN, resources.but(step_functions=Strict())).taken
    store.table.delete("lease", "nodes")
    store.table.delete(f"run#{RUN}", "run")


@few(max_examples=20)
@given(odd=st.dictionaries(st.sampled_from(["run_ids", "seconds"]), VALUES))
def test_a_series_or_a_change_that_nobody_can_read_starts_over(store, write, odd):
    campaigns = store.campaigns
    for noun in ("series", "change"):
        write(**odd, pk=f"{noun}#odd", sk=noun)
    assert isinstance(campaigns.series("odd"), tuple)
    assert isinstance(campaigns.change_seconds("odd"), tuple)
    campaigns.add_to_series("odd", "night-2-01")
    campaigns.note_change("odd", 2.5)
    assert campaigns.series("odd")[-1] == "night-2-01"
    assert campaigns.change_seconds("odd")[-1] == 2.5
