"""The table and the bucket: what is kept of trials, and how little of it a writer may change."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import boto3
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rackrate.schedule import TrialKey
from rackrate.store import Store

RUN = "run-1"
KEY = TrialKey(1, "treatment", "tcp-1", "node-a", "node-b")
MEASURED = {
    "status": "measured",
    "attempt": 1,
    "value": 9.5e9,
    "values": {"throughput": 9.5e9},
    "samples": {},
    "details": {"retransmits": 3, "client_cpu_percent": 12.5},
}
FAILED = {"status": "failed", "attempt": 1, "reason": "refused"}


def test_a_trial_comes_back_as_it_was_stored(store):
    store.put_trial(RUN, KEY, MEASURED)
    (found,) = store.trials(RUN).values()
    assert found.items() >= MEASURED.items()
    assert found["sk"] == "trial#0001#treatment#tcp-1#node-a#node-b"
    assert [found[name] for name in ("block", "arm", "test", "client", "server")] == [
        *(1, "treatment", "tcp-1", "node-a", "node-b")
    ]


@pytest.mark.parametrize(
    "change",
    [{"block": 2}, {"arm": "host"}, {"test": "rtt"}, {"client": "node-c"}, {"server": "node-d"}],
    ids=lambda change: next(iter(change)),
)
def test_trials_that_differ_in_anything_that_names_them_are_two(store, change):
    other = replace(KEY, **change)
    for key in (KEY, other):
        assert store.put_trial(RUN, key, MEASURED) == {}
    assert set(store.trials(RUN)) == {KEY, other}
    assert KEY.id != other.id


def test_what_was_measured_is_never_overwritten(store):
    store.put_trial(RUN, KEY, MEASURED)
    for later in (FAILED, {**MEASURED, "attempt": 2, "value": 1.0}):
        assert store.put_trial(RUN, KEY, later) is None
    assert store.trials(RUN)[KEY]["value"] == 9.5e9


def test_a_later_attempt_replaces_a_failed_one_and_tells_what_was_there(store):
    store.put_trial(RUN, KEY, {**FAILED, "attempt": 2})
    assert store.put_trial(RUN, KEY, FAILED) is None, "an earlier attempt comes too late"
    before = store.put_trial(RUN, KEY, {**MEASURED, "attempt": 3})
    assert (before["status"], before["attempt"]) == ("failed", 2)


def test_states_are_those_of_one_block_or_all_without_the_bulk(store):
    keys = [replace(KEY, block=block) for block in (0, 1, 10)]
    for key in keys:
        store.put_trial(RUN, key, FAILED)
    assert set(store.trial_states(RUN)) == set(keys)
    (state,) = store.trial_states(RUN, block=1).values()
    assert state.keys() == {
        *("block", "arm", "test", "client", "server"),
        *("status", "attempt", "reason"),
    }


@pytest.mark.parametrize(
    ("value", "stored"),
    [(1e-304, 1e-130), (1e304, 9.99e125), (-1e304, -9.99e125), (1e-130, 1e-130), (0.0, 0)],
)
def test_a_bound_that_says_nothing_is_kept_as_far_as_the_tables_numbers_reach(store, value, stored):
    verdict = {"test": "tcp-1", "metric": "throughput", "arm": "treatment"}
    # What two blocks say of a ratio: it may be next to anything.
    store.put_verdict(RUN, {**verdict, "ci_simultaneous": [value, 1.5]})
    (found,) = store.verdicts(RUN)
    assert found["ci_simultaneous"] == [stored, 1.5]


seconds = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
raw = st.fixed_dictionaries(
    {
        "samples": st.dictionaries(st.sampled_from(["rtt", "latency"]), st.lists(seconds)),
        "series": st.lists(st.fixed_dictionaries({"bits_per_second": seconds})),
    }
)


@given(
    raw_of=st.dictionaries(
        st.builds(lambda block: replace(KEY, block=block).id, st.integers(0, 9999)), raw
    ),
    parts=st.integers(1, 5),
)
@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_raw_values_come_back_exactly_from_however_many_objects(store, raw_of, parts):
    ids = sorted(raw_of)
    keys = [
        store.put_samples(
            RUN, f"samples/{part}.json.gz", {trial: raw_of[trial] for trial in ids[part::parts]}
        )
        for part in range(parts)
    ]
    # Many trials name the same object; it is read once.
    assert store.samples([*keys, *keys]) == raw_of


def test_raw_values_are_small_and_the_same_values_are_the_same_bytes(store, s3):
    value = {KEY.id: {"samples": {"rtt": [0.000125] * 10_000}, "series": []}}
    bodies = []
    for _ in range(2):
        key = store.put_samples(RUN, "samples/0001-1.1.00000000.json.gz", value)
        bodies.append(s3.get_object(Bucket="results", Key=key)["Body"].read())
    assert key == f"runs/{RUN}/samples/0001-1.1.00000000.json.gz"
    assert bodies[0] == bodies[1]
    assert json.loads(gzip.decompress(bodies[0])) == value
    assert len(bodies[0]) < 1000


@pytest.mark.parametrize("region", ["us-east-1", "eu-west-3", "cn-north-1"])
def test_a_link_names_the_host_of_its_region(region, monkeypatch):
    """The global host sends a reader on to another one, for which the signature does not hold."""
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    session = boto3.Session("key", "secret", region_name=region)
    address = Store("table", "bucket", session).link("runs/r1/report.html", seconds=60)
    assert address.startswith(f"https://bucket.s3.{region}.amazonaws.com")
