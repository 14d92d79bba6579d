"""One hostile pod or node costs its own trials, and no other one's."""

from __future__ import annotations

import json
import re
import time
import tracemalloc

import pytest

from rackrate import registry
from rackrate.errors import ClusterUnreachable
from rackrate.measure import manifests
from rackrate.measure.cluster import Log, SlowLog
from rackrate.results.build import RunFailure
from rackrate.stages.run import collect as collecting
from rackrate.stages.run.collect import give_up
from rackrate.stages.run.launch import launch
from rackrate.tools.base import LOG_BYTES
from tests.unit.measure.fake_cluster import PRINTED
from tests.unit.stages.runs import PLAN, PODS, RUN, collect_pods, trials

REPORT = PRINTED["iperf3"]
#: What the client of one arm prints in place of iperf3's report.
HOSTILE = {
    "a window beyond all numbers": re.sub(r'"snd_cwnd":\s*[0-9]+', '"snd_cwnd": 1.7e308', REPORT),
    "rates beyond all numbers": re.sub(
        r'"bits_per_second":\s*[0-9.e+]+', '"bits_per_second": 1.7e308', REPORT
    ),
    "no time at all": re.sub(r'"(end|start|seconds)":\s*[0-9.e+-]+', r'"\1": 0', REPORT),
    "numbers of 4000 digits": re.sub(r":\s*[0-9]+(\.[0-9]+)?", ":" + "9" * 4000, REPORT),
    "nesting": "[" * 100_000,
    "control characters": json.dumps({"error": "\x1b]0;owned\x07\ud800" * 1000}),
    "a version of a megabyte": json.dumps(
        json.loads(REPORT) | {"start": json.loads(REPORT)["start"] | {"version": "v" * 10**6}}
    ),
    "garbage": "\x00\ufffd" * 50_000,
    "too much": "x" * (LOG_BYTES + 1),
}


def printing(cluster, text):
    """Let iperf3 of the treatment's clients print a text."""

    def answer(pod):
        if pod["metadata"]["labels"][manifests.ARM] == "treatment":
            cluster.logs[pod["metadata"]["name"], "tcp-1"] = text
        cluster.succeed(pod)

    cluster.on_client = answer


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_whatever_a_pod_prints_costs_no_trial_but_its_own(deploy, measure, cluster, store, text):
    printing(cluster, text)
    measure(deploy()[0])
    measured = trials(store)
    assert len(measured) == 6
    failed = [trial for trial in measured if not trial.is_measured]
    assert {(trial.arm, trial.test) for trial in failed} <= {("treatment", "tcp-1")}
    for trial in failed:
        assert trial.raw_key is not None
        assert trial.reason and trial.reason.isprintable() and len(trial.reason) <= 500


def test_a_parser_with_a_bug_costs_one_trial_and_says_so(deploy, measure, store, monkeypatch):
    parse = registry.parse

    def broken(test, text):
        return parse(test, text) if test.name != "tcp-1" else 1 // 0

    monkeypatch.setattr(registry, "parse", broken)
    measure(deploy()[0])
    failed = [trial for trial in trials(store) if not trial.is_measured]
    assert {trial.test for trial in failed} == {"tcp-1"}
    assert {trial.reason for trial in failed} == {
        "the output of iperf3 is no report: ZeroDivisionError: integer division or modulo by zero"
    }


def test_of_an_endless_output_the_beginning_is_kept_and_the_trial_says_why_it_failed(
    deploy, measure, cluster, store
):
    printing(cluster, "y\n" * LOG_BYTES)
    measure(deploy()[0])
    (failed,) = [trial for trial in trials(store) if not trial.is_measured]
    assert failed.reason == "iperf3 printed more than 8 MB, of which the first 8 MB are kept"
    assert len(store.objects.find(failed.raw_key)) == LOG_BYTES


class Slow:
    """The logs of the treatment's clients, which take their time on a clock of their own."""

    def __init__(self, cluster, clock, *, seconds, is_large):
        self.reads, self._seconds, self._is_large = [], seconds, is_large
        self._cluster, self._clock, self._log = cluster, clock, cluster.log

    def log(self, namespace, pod, container, most_bytes, *, seconds):
        labels = self._cluster.get(f"{PODS}/{pod}")["metadata"]["labels"]
        if labels[manifests.ARM] != "treatment":
            return self._log(namespace, pod, container, most_bytes)
        if self._is_large and most_bytes < LOG_BYTES:
            return Log("x" * most_bytes, False)
        self.reads.append((pod, container))
        assert 0 < seconds <= 30
        self._clock.seconds += min(seconds, self._seconds)
        if self._seconds > seconds:
            raise SlowLog(f"its node sent 10 bytes of the log in {seconds:.0f} s")
        return self._log(namespace, pod, container, most_bytes)


class Clock:
    def __init__(self):
        self.seconds = time.time()

    def time(self):
        return self.seconds


@pytest.fixture
def slow(deploy, cluster, store, resources, monkeypatch):
    """An item whose logs of the treatment are slow, and what collects it again until it is done."""
    clock = Clock()
    monkeypatch.setattr(collecting.time, "time", clock.time)
    monkeypatch.setattr(collecting, "WORKERS", 1)
    item = deploy()[0]

    def collected(**kind):
        launched = launch(RUN, item, resources)
        logs = Slow(cluster, clock, **kind)
        monkeypatch.setattr(cluster, "log", logs.log)
        calls = []
        while not (calls and calls[-1].finished):
            began = clock.seconds
            calls.append(collect_pods(resources, item, launched))
            assert clock.seconds - began < 1 + collecting.READ_SECONDS + 30
        return logs, calls

    return collected


@pytest.mark.parametrize("is_large", [False, True])
def test_slow_logs_cost_their_own_trials_alone_and_say_so(slow, store, is_large):
    logs, calls = slow(seconds=1000, is_large=is_large)
    assert sum(call.measured for call in calls) == 3
    assert sum(call.failed for call in calls) == 3
    of = {True: set(), False: set()}
    for trial in trials(store):
        of[trial.is_measured].add(trial.arm)
        assert trial.is_measured or "10 bytes of the log" in trial.reason
    assert of == {True: {"baseline"}, False: {"treatment"}}
    assert len(logs.reads) == len(set(logs.reads)), "a slow log is read once"


def test_logs_for_which_a_call_has_no_time_are_left_to_the_next(slow, store, cluster, monkeypatch):
    monkeypatch.setattr(collecting, "READ_SECONDS", 40)
    _, calls = slow(seconds=29, is_large=True)
    assert [(call.finished, call.measured) for call in calls] == [(False, 5), (True, 1)]
    assert all(trial.is_measured for trial in trials(store))
    assert store.runs.find(RUN).trials_measured == 6
    assert not cluster.of_role("client")


def test_what_was_read_before_the_cluster_was_lost_is_kept(deploy, cluster, resources, monkeypatch):
    item = deploy()[0]
    launched = launch(RUN, item, resources)

    def unreachable(*where, **options):
        raise ClusterUnreachable("no route to host")

    monkeypatch.setattr(cluster, "log", unreachable)
    with pytest.raises(ClusterUnreachable):
        collect_pods(resources, item, launched)
    given_up = give_up(RUN, item, RunFailure("ClusterUnreachable", "no route to host"), resources)
    assert (given_up.measured, given_up.failed) == (0, 6)


@pytest.fixture
def sixteen(deploy, resources, cluster, monkeypatch):
    """An item of sixteen tests whose clients print as much as they may, at a tenth of the size."""
    for name in ("LOG_BYTES", "_SMALL_LOG_BYTES"):
        monkeypatch.setattr(collecting, name, getattr(collecting, name) // 10)
    tests = [{"name": f"tcp-{n}", "tool": "iperf3", "seconds": 2} for n in range(1, 9)]
    item = deploy({**PLAN, "tests": tests})[0]
    # Each three bytes become an object of 64 bytes and a pointer to it.
    text = '{"x": [' + "{}," * ((collecting.LOG_BYTES - 8) // 3)

    def answer(pod):
        for test in tests:
            cluster.logs[pod["metadata"]["name"], test["name"]] = text
        cluster.succeed(pod)

    cluster.on_client = answer
    return item, launch(RUN, item, resources)


def test_sixteen_hostile_logs_at_once_fit_into_the_functions_memory(
    sixteen, resources, store, monkeypatch
):
    item, launched = sixteen
    # moto would keep what the function only sends.
    monkeypatch.setattr(store.runs, "put_text", lambda run_id, name, text, kind: name)
    tracemalloc.start()
    try:
        collect_pods(resources, item, launched)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(trials(store)) == 16
    # The function has 512 MB, of which the process itself takes about 120.
    assert peak < 300_000_000 / 10
