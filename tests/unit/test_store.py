"""The table and the bucket: stored trials, and the few changes that writers may make to them."""

from __future__ import annotations

import gzip
import json
from concurrent.futures import ThreadPoolExecutor

import boto3
import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rackrate.errors import Throttled
from rackrate.executions.store import Store
from rackrate.executions.trials import Replaced
from rackrate.measure.trials import RawValues, TrialState
from rackrate.tools.base import Interval
from tests import ROOT
from tests.unit.builders import failed_trial, trial, verdict
from tests.unit.samples import SETTINGS

RUN = "run-1"
MEASURED = trial(details={"retransmits": 3, "client_cpu_percent": 12.5, "note": "none"})
KEY = MEASURED.key


def test_a_trial_comes_back_as_it_was_stored(store):
    replaced = {"client_node": "node-x"}
    stored = [MEASURED.model_copy(update=replaced), failed_trial(block=0, warm_up=True, **replaced)]
    for each in stored:
        store.trials.put(RUN, each)
    assert store.trials.of(RUN) == {each.key: each for each in stored}


def test_a_trials_item_has_the_documented_keys(store, dynamodb):
    store.trials.put(RUN, MEASURED)
    (item,) = dynamodb.scan(TableName="results")["Items"]
    assert item["pk"] == {"S": "run#run-1"}
    assert item["sk"] == {"S": "trial#0001#treatment#tcp-1#node-a#node-b"}
    assert float(item["value"]["N"]) == MEASURED.value


def test_an_object_is_sent_without_asking_first(store, monkeypatch):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    sent = []
    own = Store(SETTINGS.table_name, SETTINGS.bucket_name)
    events = own.objects._s3.meta.events
    events.register("before-send.s3.PutObject", lambda request, **_: sent.append(request.headers))
    own.runs.put_text(RUN, "raw/a", "a", "text/plain")
    (headers,) = sent
    assert "Expect" not in headers
    assert store.runs.find_text(RUN, "raw/a") == b"a"


@pytest.mark.parametrize(
    "change",
    [{"block": 2}, {"arm": "host"}, {"test": "rtt"}, {"client": "node-c"}, {"server": "node-d"}],
    ids=lambda change: next(iter(change)),
)
def test_trials_that_differ_in_anything_that_names_them_are_two(store, change):
    other = MEASURED.model_copy(update=change)
    for each in (MEASURED, other):
        assert store.trials.put(RUN, each) == Replaced(True, None)
    assert set(store.trials.of(RUN)) == {KEY, other.key}
    assert KEY.id != other.key.id


def test_what_was_measured_is_never_overwritten(store):
    store.trials.put(RUN, MEASURED)
    for later in (failed_trial(), trial(attempt=2, value=1.0)):
        assert store.trials.put(RUN, later) == Replaced(False, None)
    assert store.trials.of(RUN)[KEY] == MEASURED


def test_a_later_attempt_replaces_a_failed_one_and_reports_what_was_there(store):
    store.trials.put(RUN, failed_trial(attempt=2))
    early = store.trials.put(RUN, failed_trial())
    assert not early.written, "an earlier attempt comes too late"
    written, before = store.trials.put(RUN, trial(attempt=3))
    assert written
    assert before == TrialState(status="failed", attempt=2, reason="refused")


def test_many_trials_are_written_as_each_alone(store):
    many = [trial(client=f"node-{number}") for number in range(60)]
    measured, failed = many[3], many[40]
    store.trials.put(RUN, measured.model_copy(update={"value": 1.0}))
    store.trials.put(RUN, failed_trial(client=failed.client, attempt=1))
    with ThreadPoolExecutor(4) as pool:
        outcomes = store.trials.put_many(RUN, many, pool)
        expected = {
            measured.key: Replaced(False, None),
            failed.key: Replaced(True, TrialState(status="failed", attempt=1, reason="refused")),
        }
        assert outcomes == [expected.get(each.key, Replaced(True, None)) for each in many]
        stored = store.trials.of(RUN)
        assert stored.pop(measured.key).value == 1.0
        assert stored == {each.key: each for each in many if each != measured}
        assert store.trials.put_many(RUN, many, pool) == [Replaced(False, None)] * 60
        assert store.trials.put_many(RUN, [], pool) == []


@pytest.mark.parametrize(
    ("code", "error"),
    [("AccessDeniedException", ClientError), ("ThrottlingException", Throttled)],
)
def test_trials_that_dynamodb_does_not_take_are_an_error(store, monkeypatch, code, error):
    def refuse(**_):
        raise ClientError({"Error": {"Code": code, "Message": "no"}}, "TransactWriteItems")

    monkeypatch.setattr(store.table.client, "transact_write_items", refuse)
    with ThreadPoolExecutor(1) as pool, pytest.raises(error):
        store.trials.put_many(RUN, [MEASURED], pool)
    assert store.trials.of(RUN) == {}


def test_a_repetition_leaves_the_measured_trial_alone_until_it_replaces_it(store):
    store.trials.put(RUN, MEASURED)
    again = trial(attempt=2, value=1.0)
    for expected in (Replaced(True, None), Replaced(False, None)):
        assert store.trials.put_repeat(RUN, again) == expected
    assert store.trials.of(RUN)[KEY] == MEASURED
    assert store.trials.of(RUN, 1, "repeat") == {KEY: again}
    assert store.trials.states(RUN, kind="repeat") == {
        KEY: TrialState(status="measured", attempt=2)
    }
    assert store.trials.replace(RUN, again).before == TrialState(status="measured", attempt=1)
    assert store.trials.of(RUN, block=1)[KEY] == again
    assert not store.trials.replace(RUN, MEASURED).written, "an earlier attempt comes too late"


def test_states_are_those_of_one_block_or_all(store):
    trials = [failed_trial(block=block) for block in (0, 1, 10)]
    for each in trials:
        store.trials.put(RUN, each)
    state = TrialState(status="failed", attempt=1, reason="refused")
    assert store.trials.states(RUN) == {each.key: state for each in trials}
    assert store.trials.states(RUN, block=1) == {trials[1].key: state}


def test_states_of_many_trials_are_read_by_their_keys(store):
    trials = [failed_trial(client=f"node-{number}") for number in range(230)]
    for each in trials[::2]:
        store.trials.put(RUN, each)
    keys = [each.key for each in trials[10:]]
    states = store.trials.states_of(RUN, keys)
    assert states == {each.key: states[each.key] for each in trials[10::2]}
    assert store.trials.states_of(RUN, []) == {}


def test_keys_that_a_batch_left_out_are_asked_for_again(store, monkeypatch):
    monkeypatch.setattr("rackrate.table._RETRY_SECONDS", 0.0)
    trials = [failed_trial(client=f"node-{number}") for number in range(3)]
    for each in trials:
        store.trials.put(RUN, each)
    dynamodb = store.table.client
    ask = dynamodb.batch_get_item

    def one_at_a_time(RequestItems):
        ((table, request),) = RequestItems.items()
        first, *rest = request["Keys"]
        answer = ask(RequestItems={table: {**request, "Keys": [first]}})
        left = {table: {**request, "Keys": rest}} if rest else {}
        return {**answer, "UnprocessedKeys": left}

    monkeypatch.setattr(dynamodb, "batch_get_item", one_at_a_time)
    assert len(store.trials.states_of(RUN, [each.key for each in trials])) == 3
    monkeypatch.setattr(
        dynamodb,
        "batch_get_item",
        lambda RequestItems: {"Responses": {}, "UnprocessedKeys": RequestItems},
    )
    with pytest.raises(Throttled):
        store.trials.states_of(RUN, [trials[0].key])


def test_a_verdict_comes_back_as_it_was_stored_and_again_overwrites_it(store):
    stored = verdict(marks={"cpu": 2}, confidence_simultaneous=1.0)
    for each in (verdict(ratio=1.0), stored):
        store.trials.put_verdict(RUN, each)
    assert store.trials.verdicts(RUN) == [stored]


@pytest.mark.parametrize(
    ("value", "stored"),
    [(1e-304, 1e-130), (1e304, 9.99e125), (-1e304, -9.99e125), (1e-130, 1e-130), (0.0, 0)],
)
def test_a_bound_that_says_nothing_is_kept_as_far_as_the_tables_numbers_reach(store, value, stored):
    # The interval of two blocks can be extremely wide.
    store.trials.put_verdict(RUN, verdict(ci_simultaneous=(value, 1.5)))
    (stored_verdict,) = store.trials.verdicts(RUN)
    assert stored_verdict.ci_simultaneous == (stored, 1.5)


def test_a_run_of_which_only_a_phase_was_noted_ends_as_one_that_was_never_recorded(store):
    """The run failed before it wrote anything else. Its nodes must still be put to rest."""
    store.runs.update(RUN, phase="putting nodes to rest")
    assert store.runs.find(RUN) is None
    assert store.runs.finish(RUN, "invalid", error="InvalidPlan") == 0
    run = store.runs.find(RUN)
    assert (run.status, run.error, run.seconds) == ("invalid", "InvalidPlan", 0)
    assert run.started_at == run.finished_at


def test_a_runs_record_has_what_was_noted_of_it(store):
    store.runs.start(RUN, "running", "2026-11-22T06:00:00.000Z", blocks=6, seed=7)
    store.runs.update(RUN, phase="block 2", block=2, warnings=("a", "b"))
    for failed in (2, -1):
        store.runs.count_trials(RUN, measured=10, failed=failed)
    store.runs.start(RUN, "running", "2026-11-22T07:00:00.000Z", blocks=6)
    run = store.runs.find(RUN)
    assert (run.started_at, run.is_running) == ("2026-11-22T06:00:00.000Z", True)
    assert (run.phase, run.block, run.blocks, run.seed) == ("block 2", 2, 6, 7)
    assert (run.trials_measured, run.trials_failed) == (20, 1)
    assert run.warnings == ("a", "b")
    assert store.runs.running() == [run]


seconds = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
OTHER_VALUES = RawValues(samples={"rtt": (1.0, 2.0)})
raw = st.builds(
    RawValues,
    samples=st.dictionaries(
        st.sampled_from(["rtt", "latency"]), st.lists(seconds).map(tuple), max_size=2
    ),
    series=st.lists(st.builds(Interval, seconds, seconds, seconds, st.none() | st.integers(0))).map(
        tuple
    ),
)


@given(raw_of=st.dictionaries(st.integers(0, 9999), raw), parts=st.integers(1, 5))
@settings(
    max_examples=20,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_raw_values_come_back_exactly_from_however_many_objects(store, raw_of, parts):
    trials, expected = [], {}
    for part in range(parts):
        of_part = {
            trial(block=block).key.id: values
            for block, values in raw_of.items()
            if block % parts == part
        }
        # Another part has other values of the same trials, as of another attempt at them.
        others = {trial(block=block).key.id: OTHER_VALUES for block in raw_of}
        key = store.trials.put_raw_values(RUN, f"samples/{part}.json.gz", others | of_part)
        trials += [trial(block=b, samples_key=key) for b in raw_of if b % parts == part]
        expected |= of_part
    assert store.trials.raw_values([*trials, failed_trial()]) == expected


def test_raw_values_are_small_and_the_same_values_are_the_same_bytes(store, s3):
    value = {KEY.id: RawValues(samples={"rtt": (0.000125,) * 10_000})}
    bodies = []
    for _ in range(2):
        key = store.trials.put_raw_values(RUN, "samples/0001-1.1.00000000.json.gz", value)
        bodies.append(s3.get_object(Bucket="results", Key=key)["Body"].read())
    assert key == f"runs/{RUN}/samples/0001-1.1.00000000.json.gz"
    assert bodies[0] == bodies[1]
    assert json.loads(gzip.decompress(bodies[0])) == {
        KEY.id: {"samples": {"rtt": [0.000125] * 10_000}, "histograms": {}, "series": []}
    }
    assert len(bodies[0]) < 1000


@pytest.mark.parametrize("region", ["us-east-1", "eu-west-3", "cn-north-1"])
def test_a_link_names_the_host_of_its_region(region, monkeypatch):
    """The global host redirects to another host, for which the signature is not valid."""
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    session = boto3.Session("key", "secret", region_name=region)
    address = Store("table", "bucket", session).objects.link("runs/r1/report.html")
    assert address.startswith(f"https://bucket.s3.{region}.amazonaws.com")


def test_items_of_an_older_rackrate_are_read(store, dynamodb):
    for item in json.loads((ROOT / "tests/unit/data/items-92769ef.json").read_text("utf-8")):
        dynamodb.put_item(TableName=SETTINGS.table_name, Item=item)
    run, campaign = store.runs.get("run-1"), store.campaigns.get("camp")
    assert (run.status, run.error, run.redrives, run.block, run.seed) == ("degraded", "E", 1, 3, 7)
    assert (run.trials_measured, run.trials_failed, run.heals) == (20, 1, 0)
    assert run.replacements[0].node.name == store.runs.nodes_at("run-1")["node-a"].name == "node-x"
    assert (run.gave_up.error, run.stopped.after_blocks) == ("TrialsLost", 3)
    assert (campaign.status, campaign.kind, campaign.step_run_id) == ("failed", "sweep", "camp-01")
    assert (campaign.changed, campaign.stopped.after) == ({"arm": {"sizes": [1, 2]}}, 1)
    assert store.campaigns.unrestored() == [campaign]
    (step,) = store.campaigns.steps("camp")
    assert (step.value, step.progress, step.is_open) == ("v1", {"made": {"a": 1}}, True)
    assert store.campaigns.series("nightly") == ("camp-01",)
    assert store.leases.valid()["baseline"].is_of("campaign", "camp")


def test_a_record_takes_no_attribute_that_it_has_no_field_for(store):
    with pytest.raises(TypeError, match="phsae"):
        store.runs.update(RUN, phsae="planned")
