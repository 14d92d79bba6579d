"""Items of the table and events that somebody wrote otherwise stop nothing but themselves."""

from __future__ import annotations

import functools
import json

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rackrate.campaign_store import CampaignRecord
from rackrate.measure import manifests
from rackrate.stages.teardown import STATUSES, sweep, teardown_stopped
from rackrate.store import RunRecord
from rackrate.table import to_item
from rackrate_text.printable import printable
from tests.unit.samples import SETTINGS
from tests.unit.stages.runs import ARN, EXECUTIONS, RUN, States

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


@few(max_examples=30)
@given(odd=fields_of(RunRecord))
def test_an_odd_run_hides_no_other_from_the_sweep(store, write, cluster, resources, odd):
    store.start_run(RUN, "running", "2026-11-22T07:00:00.000Z", execution_arn=ARN)
    cluster.objects.clear()
    for run_id in (RUN, "odd"):
        cluster.create(
            "/api/v1/namespaces/rackrate/configmaps", manifests.owner(run_id, EXECUTIONS + run_id)
        )
    keys = {"pk": "run#odd", "sk": "run", "gsi1pk": "runs", "gsi1sk": "2026-11-22T07"}
    write(**{"run_id": "odd", "status": "running", **odd, **keys})
    swept = sweep(resources.but(step_functions=States("ABORTED")))
    assert RUN in swept.runs
    assert store.run(RUN).status == "aborted"
    assert cluster.objects == {}, "the odd one's objects are deleted all the same"
    store.table.delete(f"run#{RUN}", "run")


@few(max_examples=30)
@given(odd=fields_of(CampaignRecord))
def test_an_odd_campaign_hides_no_other(write, resources, odd):
    good = {"campaign_id": "good", "kind": "draws", "started_at": "2026-11-22T07:00:00.000Z"}
    for name, more in (("good", good), ("odd", odd)):
        keys = {"pk": f"campaign#{name}", "sk": "campaign", "gsi1pk": "campaigns", "gsi1sk": "2026"}
        write(**{**more, **keys, "status": "running"})
    found = {each.campaign_id for each in resources.campaigns.running()}
    assert "good" in found


@few(max_examples=100)
@given(
    status=st.sampled_from(sorted(STATUSES)),
    error=st.none() | st.text(max_size=30),
    cause=st.none() | st.text(max_size=200) | VALUES.map(json.dumps),
    given_input=st.none() | st.text(max_size=30) | VALUES.map(json.dumps),
)
@example(status="FAILED", error=None, cause="[" * 100_000, given_input="[" * 100_000)
@example(status="ABORTED", error="\x1f", cause=None, given_input=None)
@example(status="FAILED", error="E", cause='{"errorMessage": {"a": 1}}', given_input="{}")
def test_an_end_is_recorded_whatever_its_event_tells(
    store, resources, status, error, cause, given_input
):
    store.start_run(RUN, "running", "2026-11-22T07:00:00.000Z", execution_arn=ARN)
    detail = {"name": RUN, "status": status, "executionArn": ARN, "error": error, "cause": cause}
    if given_input is not None:
        detail["input"] = given_input
    ended = teardown_stopped(detail, resources.but(step_functions=States(status)))
    if ended.comparison is None:
        record = store.run(RUN)
        assert record.status == STATUSES[status]
        assert printable(record.cause) == record.cause
    store.table.delete(f"run#{RUN}", "run")
