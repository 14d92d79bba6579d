"""Items of the schedule: start, watch and read their pods, and store their trials."""

from __future__ import annotations

import json
import re
import statistics
import time
from collections import Counter

import pytest

from rackrate.errors import AdmissionRefused, ClusterUnreachable, NodesUnavailable
from rackrate.measure import manifests
from rackrate.measure.obstacles import (
    PATIENCE_SECONDS,
    QUOTA_WAIT_SECONDS,
    QUOTA_WAITS,
    REFUSED_ITEMS,
)
from rackrate.measure.starts import agreed
from rackrate.results.build import RunFailure
from rackrate.stages.run.analyze import analyze
from rackrate.stages.run.collect import give_up
from rackrate.stages.run.launch import launch
from rackrate.stages.run.teardown import teardown_stopped
from rackrate.times import later, now
from tests.unit.samples import node
from tests.unit.stages.runs import (
    ARN,
    PLAN,
    PODS,
    RUN,
    States,
    collect_pods,
    failing,
    in_cluster,
    missed,
    trials,
)


def names(s3, folder):
    listed = s3.list_objects_v2(Bucket="results", Prefix=f"runs/{RUN}/{folder}/")
    return [entry["Key"] for entry in listed.get("Contents", [])]


def test_an_item_measures_each_arm_at_once_and_removes_its_pods(deploy, measure, cluster, store):
    launched = measure(deploy()[0])
    assert launched.pods == 2
    assert 1 <= launched.wait_seconds <= 6
    stored = trials(store)
    assert len(stored) == 6 and {trial.status for trial in stored} == {"measured"}
    assert {trial.arm for trial in stored} == {"treatment", "baseline"}
    assert cluster.of_role("client") == []
    run = store.runs.find(RUN)
    assert (run.trials_measured, run.trials_failed, run.block) == (6, 0, 1)
    assert run.phase == "block 1 of 6"


def test_all_pairs_of_an_item_start_each_test_at_one_time(deploy, cluster, resources):
    cluster.nodes += [node(f"{arm}-{n}", arm) for arm in ("ng-1", "ng-2") for n in (1, 2)]
    item = deploy({**PLAN, "pairing": "ring", "load": "together"})[0]
    before = time.time()
    launched = launch(RUN, item, resources)
    pods = cluster.of_role("client")
    assert len(pods) == 4
    assert len({json.dumps(agreed(pod)) for pod in pods}) == 1
    for pod in pods:
        for each in pod["spec"]["containers"]:
            assert each["command"][3].startswith(f"{agreed(pod)[each['name']]},")
        ends = max(agreed(pod).values()) / 1000
        assert ends < before + launched.wait_seconds + pod["spec"]["activeDeadlineSeconds"]
        assert ends < launched.deadline


def test_a_series_measures_its_blocks_by_one_pod_of_each_pair(
    deploy, measure, cluster, store, resources
):
    deploy()
    (series, *_) = store.runs.items(RUN, "blocks_1.json")
    assert (series.kind, series.progress) == ("series", "blocks 1 to 6 of 6")
    launched = launch(RUN, series, resources)
    # Blocks alternate the direction, so each node of an arm has a pod with every second block.
    pods = cluster.of_role("client")
    assert len(pods) == launched.pods == 4
    assert {len(pod["spec"]["containers"]) for pod in pods} == {3 * 3}
    assert collect_pods(resources, series, launched).measured == 36
    assert {(t.block, t.status) for t in trials(store)} == {(n, "measured") for n in range(1, 7)}
    run = store.runs.find(RUN)
    assert (run.block, run.last_block, run.phase) == (1, 6, series.progress)
    assert cluster.of_role("client") == [] and measure(series).pods == 0


def test_a_series_that_lost_trials_of_several_blocks_is_repeated_by_one_makeup(
    deploy, measure, cluster, store
):
    deploy()
    (series, *makeups) = store.runs.items(RUN, "blocks_1.json")
    cluster.on_client = failing(cluster, "treatment", "rtt")
    measure(series)
    assert store.runs.find(RUN).trials_failed == 6
    cluster.on_client = cluster.succeed
    launched = measure(makeups[0])
    assert [item.block for item in launched.repeated] == [1, 2, 3, 4, 5, 6]
    assert store.runs.find(RUN).trials_failed == 0
    assert all(t.repeated_together for t in trials(store) if t.test == "rtt")


def test_nodes_whose_clocks_disagree_are_named_once(deploy, measure, cluster, store):
    items = deploy()

    def late(pod):
        cluster.succeed(pod)
        for status in pod["status"]["containerStatuses"]:
            if pod["spec"]["nodeName"] == "node-c":
                status["state"]["terminated"]["startedAt"] = "2026-11-21T08:00:30Z"

    cluster.on_client = late
    measure(*(item for item in items[:4]))
    (warning,) = store.runs.find(RUN).warnings
    assert warning.startswith("The clocks of node-c and node-")


def test_pods_of_a_launch_that_crashed_are_replaced_because_their_tests_would_meet(
    deploy, measure, cluster, store, resources
):
    item = deploy()[0]
    cluster.on_client = lambda pod: None
    launch(RUN, item, resources)
    before = cluster.of_role("client")
    cluster.on_client = cluster.succeed
    again = launch(RUN, item, resources)
    assert (again.ready, again.pods, again.wait_seconds > 0) == (False, 0, True)
    assert before and cluster.of_role("client") == []
    assert measure(item).pods == len(before)


def test_a_trial_carries_its_unit_and_its_times(deploy, measure, store):
    measure(deploy()[0])
    trial = next(t for t in trials(store) if t.test == "rtt" and t.arm == "treatment")
    assert (trial.metric, trial.unit, trial.placement) == ("rtt", "s", "cluster")
    assert trial.value == trial.values["rtt"] == pytest.approx(45e-6)
    assert (trial.client_network, trial.server_network) == ("pod", "pod")
    assert not trial.warm_up
    assert trial.started_at < trial.finished_at


def test_raw_values_and_series_of_all_trials_of_a_call_are_in_one_object(deploy, measure, store):
    measure(deploy()[0])
    (key,) = {trial.samples_key for trial in trials(store)}
    name = key.removeprefix(f"runs/{RUN}/")
    assert re.fullmatch(r"samples/0001-1\.1\.[0-9a-f]{8}\.json\.gz", name)
    raw_values = store.trials.raw_values(trials(store))
    assert set(raw_values) == {trial.id for trial in store.trials.of(RUN)}
    for trial_key, trial in store.trials.of(RUN).items():
        raw = raw_values[trial_key.id]
        assert {kind: len(values) for kind, values in raw.samples.items()} == trial.samples
        if trial.test == "rtt":
            assert trial.value == pytest.approx(statistics.median(raw.samples["rtt"]))
        else:
            starts = [interval.start_seconds for interval in raw.series]
            assert starts == sorted(starts)
            assert all(interval.bits_per_second > 0 for interval in raw.series)


def test_raw_output_is_stored_exactly_as_printed(deploy, measure, cluster, store, s3):
    measure(deploy()[0])
    trial = next(t for t in trials(store) if t.test == "tcp-1")
    body = s3.get_object(Bucket="results", Key=trial.raw_key)["Body"]
    assert body.read().decode() in cluster.logs.values()
    assert trial.raw_key.endswith(".1.txt")


def test_a_pod_that_died_leaves_failed_trials_with_reasons_no_zeros_and_no_raw_values(
    deploy, measure, cluster, store, s3
):
    cluster.on_client = lambda pod: cluster.finish(pod, {"rtt": 137, "tcp-1": 137, "tcp-8": 137})
    measure(deploy()[0])
    stored = trials(store)
    assert {trial.status for trial in stored} == {"failed"}
    assert all(trial.reason and trial.value is None for trial in stored)
    assert names(s3, "samples") == [] and not any(trial.samples_key for trial in stored)
    assert store.runs.find(RUN).trials_failed == 6


def test_a_pod_that_vanished_is_a_failure_not_a_hang(deploy, measure, cluster, store):
    def vanish(pod):
        if pod["metadata"]["labels"][manifests.ARM] == "treatment":
            del cluster.objects[f"{PODS}/{pod['metadata']['name']}"]
        else:
            cluster.succeed(pod)

    cluster.on_client = vanish
    measure(deploy()[0])
    by_arm = {trial.arm: trial for trial in trials(store)}
    assert by_arm["baseline"].status == "measured"
    assert "deleted" in by_arm["treatment"].reason


def test_trials_that_a_stop_cuts_are_not_measured_and_have_not_failed(
    deploy, measure, cluster, store, resources
):
    first, second = deploy()[:2]
    measure(first)
    event = {"name": RUN, "status": "ABORTED", "executionArn": ARN, "error": None, "cause": None}
    stopped = resources.but(step_functions=States("ABORTED"))
    cluster.on_client = lambda pod: teardown_stopped(event, stopped)
    measure(second)
    run = store.runs.find(RUN)
    assert (run.status, run.trials_measured, run.trials_failed) == ("aborted", 6, 0)
    assert {trial.block for trial in trials(store)} == {1}
    assert "6 of 36 trials were measured" in run.cause


def test_output_that_does_not_parse_is_a_failure_with_its_text_kept(
    deploy, measure, cluster, store, s3
):
    def garble(pod):
        cluster.logs[pod["metadata"]["name"], "tcp-1"] = '{"error": "server is busy"}'
        cluster.succeed(pod)

    cluster.on_client = garble
    measure(deploy()[0])
    failed = [trial for trial in trials(store) if trial.status == "failed"]
    assert {trial.test for trial in failed} == {"tcp-1"}
    assert all("server is busy" in trial.reason for trial in failed)
    assert all(trial.raw_key in names(s3, "raw") for trial in failed)


def test_pods_that_are_not_finished_are_collected_later(deploy, cluster, store, resources):
    item = deploy()[0]
    cluster.on_client = lambda pod: None
    launched = launch(RUN, item, resources)
    assert collect_pods(resources, item, launched).finished is False
    assert trials(store) == []
    assert collect_pods(resources, item, launched, deadline=time.time() - 1).finished is True
    assert {trial.status for trial in trials(store)} == {"failed"}
    assert cluster.of_role("client") == []


def lose_one(items, cluster, measure, test):
    """Measure the six blocks; the first one loses a trial of the treatment."""
    cluster.on_client = failing(cluster, "treatment", test)
    measure(items[0])
    cluster.on_client = cluster.succeed
    measure(*items[1:6])


def test_a_makeup_repeats_what_was_lost_and_its_partners_and_nothing_else(
    deploy, measure, cluster, store, s3
):
    items = deploy()
    lost_test = items[0].tests[-1].name
    lose_one(items, cluster, measure, lost_test)
    assert store.runs.find(RUN).trials_failed == 1
    launched = measure(items[6])
    assert (launched.pods, launched.attempt) == (2, 2)
    again = [trial for trial in trials(store) if trial.attempt == 2]
    assert [(trial.block, trial.test) for trial in again] == [(1, lost_test)] * 2
    assert {trial.arm for trial in again} == {"treatment", "baseline"}
    assert all(trial.is_measured and trial.repeated_together for trial in again)
    assert not any(trial.repeated_together for trial in trials(store) if trial.attempt == 1)
    run = store.runs.find(RUN)
    assert (run.trials_measured, run.trials_failed) == (36, 0)
    # The raw outputs of both attempts are kept, also of the trial that had a value.
    kept = [name for name in names(s3, "raw") if f"0001_baseline_{lost_test}_" in name]
    assert [name[-5] for name in kept] == ["1", "2"]
    assert set(store.trials.raw_values(trials(store))) == {key.id for key in store.trials.of(RUN)}
    assert measure(items[7]).pods == 0


def test_a_partner_whose_repetition_fails_keeps_its_first_value(deploy, measure, cluster, store):
    items = deploy()
    lost_test = items[0].tests[-1].name
    lose_one(items, cluster, measure, lost_test)
    before = store.trials.of(RUN)
    cluster.on_client = failing(cluster, "baseline", lost_test)
    measure(items[6])
    (lost,) = (trial for trial in trials(store) if trial.attempt == 2)
    assert (lost.arm, lost.is_measured, lost.repeated_together) == ("treatment", True, False)
    for key, trial in store.trials.of(RUN).items():
        assert key == lost.key or trial == before[key]
    run = store.runs.find(RUN)
    assert (run.trials_measured, run.trials_failed) == (36, 0)
    assert measure(items[7]).pods == 0, "nothing is missing"


def test_partners_of_a_trial_that_is_lost_again_keep_their_values_and_are_repeated_again(
    deploy, measure, cluster, store
):
    items = deploy({**PLAN, "blocks": 4, "tolerated_loss": 0.5})
    lost_test = items[0].tests[-1].name
    cluster.on_client = failing(cluster, "treatment", lost_test)
    measure(*items[:5])
    of_first = [t for t in trials(store) if t.block == 1 and t.test == lost_test]
    assert {trial.arm: (trial.status, trial.attempt) for trial in of_first} == {
        "treatment": ("failed", 2),
        "baseline": ("measured", 1),
    }
    cluster.on_client = cluster.succeed
    assert measure(items[5]).attempt == 3
    of_first = [t for t in trials(store) if t.block == 1 and t.test == lost_test]
    assert [(trial.attempt, trial.repeated_together) for trial in of_first] == [(3, True)] * 2
    assert measure(items[5]).pods == 0


def test_collecting_a_repetition_twice_changes_nothing(deploy, measure, cluster, store, resources):
    items = deploy()
    lose_one(items, cluster, measure, "rtt")
    launched = measure(items[6])
    before, run = store.trials.of(RUN), store.runs.find(RUN)
    again = collect_pods(resources, launched.repeated, launched)
    assert (again.finished, again.measured, again.failed) == (True, 0, 0)
    assert store.trials.of(RUN) == before
    assert store.runs.find(RUN).trials_measured == run.trials_measured


def test_a_crash_between_storing_and_counting_is_mended_by_the_next_call(
    deploy, measure, cluster, store, resources, monkeypatch
):
    items = deploy()
    lose_one(items, cluster, measure, "rtt")
    launched = launch(RUN, items[6], resources)
    with monkeypatch.context() as crashing:
        crashing.setattr(store.trials, "put_many", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            collect_pods(resources, launched.repeated, launched)
    assert all(trial.attempt == 1 for trial in trials(store))
    collect_pods(resources, launched.repeated, launched)
    again = [trial for trial in trials(store) if trial.attempt == 2]
    assert sorted((t.arm, t.test, t.repeated_together) for t in again) == [
        ("baseline", "rtt", True),
        ("treatment", "rtt", True),
    ]


# -- pairs that cannot be measured


def lose_node(cluster, name, *, seconds=0):
    """Let a node's kubelet be silent, and Kubernetes notice it so many seconds ago."""
    condition = {
        "type": "Ready",
        "status": "Unknown",
        "message": "Kubelet stopped posting node status.",
        "lastTransitionTime": later(now(), -seconds),
    }
    in_cluster(cluster, name)["status"]["conditions"] = [condition]
    return condition["lastTransitionTime"]


def return_node(cluster, name):
    in_cluster(cluster, name)["status"]["conditions"] = [{"type": "Ready", "status": "True"}]


def counts_by_arm(store, status):
    return Counter(trial.arm for trial in trials(store) if trial.status == status)


def test_an_arms_only_pair_waits_for_a_node_whose_kubelet_has_just_started(
    deploy, measure, cluster, store
):
    item = deploy()[0]
    lose_node(cluster, "node-a")
    (condition,) = in_cluster(cluster, "node-a")["status"]["conditions"]
    condition |= {"status": "False", "message": "CSINode is not initialized"}
    launched = measure(item)
    assert (launched.ready, launched.pods) == (False, 0)
    assert launched.wait_seconds and not trials(store)
    return_node(cluster, "node-a")
    measure(item)
    assert counts_by_arm(store, "measured") == {"treatment": 3, "baseline": 3}


def test_a_pair_without_its_node_is_left_out_and_the_others_are_measured(
    deploy, measure, cluster, store
):
    item = deploy()[0]
    since = lose_node(cluster, "node-a")
    assert measure(item).pods == 1
    assert counts_by_arm(store, "measured") == {"baseline": 3}
    assert counts_by_arm(store, "failed") == {"treatment": 3}
    assert {trial.reason for trial in trials(store) if trial.reason} == {
        f"node node-a is not Ready since {since}: Kubelet stopped posting node status"
    }
    run = store.runs.find(RUN)
    assert (run.trials_measured, run.trials_failed, run.gave_up) == (3, 3, None)


def test_a_node_that_comes_back_costs_a_repetition_in_which_the_arms_are_paired(
    deploy, measure, cluster, store
):
    items = deploy()
    lose_node(cluster, "node-a")
    measure(items[0])
    return_node(cluster, "node-a")
    measure(*items[1:])
    run = store.runs.find(RUN)
    assert (run.trials_measured, run.trials_failed, run.lost_arms) == (36, 0, {})
    first = [trial for trial in trials(store) if trial.block == 1]
    assert all(trial.attempt == 2 and trial.repeated_together for trial in first)


def test_no_partner_is_repeated_for_a_trial_whose_node_is_still_gone(
    deploy, measure, cluster, store
):
    items = deploy()
    lose_node(cluster, "node-a")
    measure(items[0])
    return_node(cluster, "node-a")
    measure(*items[1:6])
    lose_node(cluster, "node-a")
    before = store.trials.of(RUN)
    assert measure(items[6]).pods == 0
    after = store.trials.of(RUN)
    assert {t.attempt for t in after.values() if not t.is_measured} == {2}
    assert {k: t for k, t in after.items() if t.arm == "baseline"} == {
        k: t for k, t in before.items() if t.arm == "baseline"
    }


def test_a_server_that_stays_away_costs_only_the_trials_of_its_pairs(
    deploy, measure, cluster, store
):
    item = deploy()[0]
    (pair,) = (pair for pair in item.pairs if pair.arm == "treatment")
    del cluster.objects[f"{PODS}/server-{pair.server}"]
    assert not measure(item).ready, "it may come back"
    assert store.runs.find(RUN).phase.startswith("waiting for servers on "), (
        "nothing is measured yet"
    )
    missed(store, 61, pair.server)
    assert measure(item).pods == 1
    assert counts_by_arm(store, "measured") == {"baseline": 3}
    reason = f"the server on node {pair.server} is not ready"
    assert {trial.reason for trial in trials(store) if trial.reason} == {reason}


def test_a_run_gives_up_when_an_arm_has_had_no_pair_for_longer_than_its_patience(
    deploy, measure, cluster, store, resources
):
    items = deploy()
    measure(items[0])
    since = lose_node(cluster, "node-a", seconds=PATIENCE_SECONDS + 1)
    last = measure(items[1])
    assert last.pods == 1, "the healthy arm of the item is measured"
    message = (
        f"arm treatment has no pair left to measure: node node-a is not Ready since {since}:"
        " Kubelet stopped posting node status"
    )
    run = store.runs.find(RUN)
    assert (run.gave_up.error, run.gave_up.message) == ("NodesUnavailable", message)
    assert run.phase == f"giving up: {message}"
    assert last.gave_up == run.gave_up, "the map ends after these pods"
    stored = store.trials.of(RUN)
    assert all((again := measure(item)).pods == 0 and again.gave_up for item in items[2:])
    assert store.trials.of(RUN) == stored, "nothing is tried any more"
    with pytest.raises(NodesUnavailable) as ended:
        analyze(RUN, resources, after_failure=False)
    assert str(ended.value) == f"{message}; 9 of 36 trials were measured"


def test_a_run_gives_up_as_soon_as_more_trials_are_lost_than_can_be_repeated(
    deploy, measure, cluster, store
):
    # Its tests are so long that each item is a series of its own.
    tests = [{**test, "seconds": 30} for test in PLAN["tests"][:2]]
    items = deploy({**PLAN, "tests": [*tests, PLAN["tests"][2]]})
    names = {"tcp-1": 1, "tcp-8": 1, "rtt": 1}
    cluster.on_client = lambda pod: cluster.finish(
        pod, names if pod["metadata"]["labels"][manifests.ARM] == "treatment" else {}
    )
    done = 0
    for item in items:
        measure(item)
        if store.runs.find(RUN).gave_up:
            break
        done += 1
    # Each item loses three trials. Two make-up items can repeat six, and the plan tolerates 3.6.
    run = store.runs.find(RUN)
    assert (run.gave_up.error, run.trials_failed) == ("TrialsLost", 12)
    assert done == 4 and items[done].kind == "block"
    assert "at least 6 of 36 trials are lost for good, and the plan tolerates 10%" in (
        run.gave_up.message
    )


def refuse(cluster, monkeypatch, *arms, why="denied by the webhook"):
    """Refuse the client pods of some arms, in the API server's words."""
    create = cluster.create

    def answer(path, manifest):
        if manifest["kind"] == "Pod" and manifest["metadata"]["labels"][manifests.ARM] in arms:
            raise AdmissionRefused(f'pods "{manifest["metadata"]["name"]}" is forbidden: {why}')
        return create(path, manifest)

    monkeypatch.setattr(cluster, "create", answer)


def test_a_client_pod_that_is_refused_costs_only_its_own_trials(
    deploy, measure, cluster, store, monkeypatch
):
    item = deploy()[0]
    refuse(cluster, monkeypatch, "treatment")
    assert measure(item).pods == 1
    assert counts_by_arm(store, "measured") == {"baseline": 3}
    reason = "the client pod was refused: denied by the webhook"
    assert {trial.reason for trial in trials(store) if trial.reason} == {reason}


def test_a_run_gives_up_when_all_pods_of_several_items_in_a_row_are_refused(
    deploy, measure, cluster, store, monkeypatch
):
    items = deploy({**PLAN, "tolerated_loss": 0.9})
    with monkeypatch.context() as passing:
        refuse(cluster, passing, "treatment", "baseline")
        measure(items[0])
        measure(items[1])
    measure(items[2])
    assert store.runs.find(RUN).refused_items == 0
    refuse(cluster, monkeypatch, "treatment", "baseline")
    for item in items[3:6]:
        assert store.runs.find(RUN).gave_up is None
        measure(item)
    over = store.runs.find(RUN).gave_up
    assert over.error == "AdmissionRefused"
    assert over.message == (
        "no client pod of 3 items in a row was let in:"
        " the client pod was refused: denied by the webhook"
    )


def test_a_run_whose_quota_is_used_up_waits_for_room_and_loses_nothing(
    deploy, measure, cluster, store, monkeypatch, resources
):
    item = deploy()[0]
    with monkeypatch.context() as passing:
        refuse(cluster, passing, "treatment", "baseline", why="exceeded quota: pods, limited: 0")
        launched = launch(RUN, item, resources)
    assert (launched.ready, launched.pods) == (False, 0)
    assert launched.wait_seconds == QUOTA_WAIT_SECONDS
    assert "exceeded quota: pods, limited: 0" in store.runs.find(RUN).phase
    assert not trials(store)
    measure(item)
    assert counts_by_arm(store, "measured") == {"treatment": 3, "baseline": 3}
    assert store.runs.find(RUN).quota_waits == 0


def test_a_run_whose_quota_stays_used_up_ends_in_minutes(
    deploy, cluster, store, monkeypatch, resources
):
    items = deploy({**PLAN, "tolerated_loss": 0.9})
    refuse(cluster, monkeypatch, "treatment", "baseline", why="exceeded quota: pods, limited: 0")
    while launch(RUN, items[0], resources).wait_seconds:
        assert store.runs.find(RUN).quota_waits <= QUOTA_WAITS
    for item in items[1:REFUSED_ITEMS]:
        launch(RUN, item, resources)
    over = store.runs.find(RUN).gave_up
    assert over.error == "AdmissionRefused" and "exceeded quota" in over.message


def test_a_pod_on_a_silent_node_is_not_awaited_and_its_log_not_asked_for(
    deploy, cluster, store, resources
):
    item = deploy()[0]
    (lost,) = (pair for pair in item.pairs if pair.arm == "treatment")

    def answer(pod):
        if pod["spec"]["nodeName"] != lost.client:
            cluster.succeed(pod)

    cluster.on_client = answer
    launched = launch(RUN, item, resources)
    assert launched.pods == 2
    lose_node(cluster, lost.client)
    for _ in range(2):
        done = collect_pods(resources, item, launched, seconds=30)
        if done.finished:
            break
    assert (done.measured, done.failed) == (3, 3)
    reasons = {trial.reason for trial in trials(store) if trial.reason}
    assert len(reasons) == 1 and f"node {lost.client} is not Ready" in reasons.pop()
    assert cluster.of_role("client") == []


@pytest.mark.parametrize("comes_back", [False, True])
def test_logs_that_a_node_does_not_give_cost_only_its_own_trials_and_none_if_it_comes_back(
    deploy, cluster, store, resources, monkeypatch, comes_back
):
    item = deploy()[0]
    (lost,) = (pair for pair in item.pairs if pair.arm == "treatment")
    launched = launch(RUN, item, resources)
    log = cluster.log

    def answer(namespace, pod, container, most_bytes, *, seconds):
        if cluster.get(f"{PODS}/{pod}")["spec"]["nodeName"] == lost.client:
            raise ClusterUnreachable("the kubelet does not answer")
        return log(namespace, pod, container, most_bytes)

    with monkeypatch.context() as silent:
        silent.setattr(cluster, "log", answer)
        with pytest.raises(ClusterUnreachable):
            # The state machine tries again while the node is still believed to be Ready.
            collect_pods(resources, item, launched)
        assert counts_by_arm(store, "measured") == {"baseline": 3}, "they are stored already"
        if not comes_back:
            lose_node(cluster, lost.client)
            assert collect_pods(resources, item, launched).finished
    if comes_back:
        assert collect_pods(resources, item, launched).measured == 3
    run = store.runs.find(RUN)
    assert (run.trials_measured, run.trials_failed) == ((6, 0) if comes_back else (3, 3))


def test_an_item_that_could_not_be_launched_costs_its_trials_also_without_a_cluster(
    deploy, store, resources
):
    item = deploy()[0]
    lost = resources.but(cluster=ClusterUnreachable("no route"))
    give_up(RUN, item, RunFailure("ServersNotReady", "gone"), lost)
    assert {trial.reason for trial in trials(store)} == {"ServersNotReady: gone"}
    assert store.runs.find(RUN).trials_failed == 6


# -- the warm-up


def warm_up(store):
    return store.runs.items(RUN, "warm_up.json")


def test_every_pair_is_warmed_up_by_one_short_test_that_counts_for_nothing(deploy, measure, store):
    deploy()
    measure(*warm_up(store))
    stored = trials(store)
    assert [(t.block, t.test, t.warm_up) for t in stored] == [(0, "tcp-1", True)] * 2
    assert {trial.status for trial in stored} == {"measured"}
    run = store.runs.find(RUN)
    assert (run.trials_measured, run.trials_failed, run.block) == (0, 0, 0)
    assert run.phase == "warm-up"


def test_a_warm_up_that_failed_is_repeated_by_its_own_makeup(deploy, measure, cluster, store):
    deploy()
    *items, makeup = warm_up(store)
    cluster.on_client = lambda pod: cluster.finish(pod, {"tcp-1": 1})
    measure(*items)
    assert store.runs.find(RUN).trials_failed == 0
    cluster.on_client = cluster.succeed
    assert measure(makeup).attempt == 2
    assert {(t.block, t.status) for t in trials(store)} == {(0, "measured")}


def test_a_makeup_of_the_blocks_leaves_a_failed_warm_up_alone(deploy, measure, cluster, store):
    items = deploy()
    cluster.on_client = lambda pod: cluster.finish(pod, {"tcp-1": 1})
    measure(warm_up(store)[0])
    cluster.on_client = cluster.succeed
    measure(*items)
    assert {t.status for t in trials(store) if t.block == 0} == {"failed"}
