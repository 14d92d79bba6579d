"""The outcome of a pod's tests: good, failed, stopped, evicted, never started, gone."""

from __future__ import annotations

import pytest

from rackrate.measure.pods import is_finished, missing_part, outcome

STARTED, FINISHED = "2026-11-21T08:00:00Z", "2026-11-21T08:00:03Z"


def ended(name, code=0, **extra):
    state = {"exitCode": code, "startedAt": STARTED, "finishedAt": FINISHED, **extra}
    return {"name": name, "state": {"terminated": state}}


def pod(phase, *containers, **status):
    return {
        "status": {
            "phase": phase,
            "initContainerStatuses": list(containers[:-1]),
            "containerStatuses": list(containers[-1:]),
            **status,
        }
    }


WAITING = {"name": "rtt", "state": {"waiting": {"reason": "PodInitializing"}}}


def test_a_test_that_ended_well_has_its_times():
    found = outcome(pod("Succeeded", ended("tcp-1"), ended("rtt")), "tcp-1")
    assert (found.started, found.failure) == (True, None)
    assert (found.started_at, found.finished_at) == (STARTED, FINISHED)


@pytest.mark.parametrize(
    ("code", "extra", "words"),
    [
        (1, {"reason": "Error"}, "exit code 1"),
        (137, {"reason": "Error"}, "exit code 137 (signal 9)"),
        (137, {"reason": "OOMKilled"}, "too much memory"),
    ],
)
def test_a_test_that_failed_says_how(code, extra, words):
    found = outcome(pod("Failed", ended("tcp-1", code, **extra), WAITING), "tcp-1")
    assert found.started and words in found.failure


def test_what_comes_after_a_failed_test_was_not_started():
    found = outcome(pod("Failed", ended("tcp-1", 1), WAITING), "rtt")
    assert not found.started and "was not started" in found.failure


def test_an_evicted_pod_says_so():
    gone = pod("Failed", reason="Evicted", message="the node was low on memory")
    found = outcome(gone, "rtt")
    assert "Evicted, the node was low on memory" in found.failure


def test_a_pod_stopped_at_its_deadline_says_so():
    stopped = pod("Failed", ended("tcp-1", 137), WAITING, reason="DeadlineExceeded")
    assert "DeadlineExceeded" in outcome(stopped, "tcp-1").failure
    assert "DeadlineExceeded" in outcome(stopped, "rtt").failure


def test_a_test_still_running_when_we_give_up_failed():
    running = {"name": "tcp-1", "state": {"running": {"startedAt": STARTED}}}
    found = outcome(pod("Running", running, WAITING), "tcp-1")
    assert found.started and "did not finish" in found.failure


def test_an_image_that_cannot_be_pulled_is_named():
    waiting = {"reason": "ImagePullBackOff", "message": "no such image tools:9"}
    found = outcome(pod("Pending", {"name": "tcp-1", "state": {"waiting": waiting}}), "tcp-1")
    assert "no such image tools:9" in found.failure


NO_PROGRAM = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc"
    ' create failed: unable to start container process: exec: "sockperf": executable file not found'
    " in $PATH: unknown"
)
#: The kubelet's state of a container that could not start. It never ran, despite its startedAt.
START_ERROR = {
    "exitCode": 128,
    "reason": "StartError",
    "message": NO_PROGRAM,
    "startedAt": "1970-01-01T00:00:00Z",
    "finishedAt": FINISHED,
}
SPEC = {
    "initContainers": [{"name": "tcp-1", "image": "tools:1", "command": ["iperf3", "-c"]}],
    "containers": [{"name": "load", "image": "tools:1", "command": ["sockperf", "pp"]}],
}


@pytest.mark.parametrize(
    "state",
    [
        {"state": {"terminated": START_ERROR}},
        {"state": {"waiting": {"reason": "RunContainerError", "message": NO_PROGRAM}}},
        # A server that Kubernetes restarts again and again.
        {
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
            "lastState": {"terminated": START_ERROR},
        },
    ],
    ids=["ended", "waiting", "waiting again"],
)
def test_a_program_that_the_image_lacks_is_named_with_the_image_that_has_it(state):
    failed = {**pod("Failed", ended("tcp-1"), {"name": "load", **state}), "spec": SPEC}
    found = outcome(failed, "load")
    assert not found.started and found.started_at is None
    assert "no sockperf in the image tools:1" in found.failure
    assert "ToolImage=build" in found.failure
    assert missing_part(failed, "tcp-1") is None


def test_a_container_that_cannot_start_for_another_reason_is_not_told_of_an_image():
    state = {"state": {"terminated": {**START_ERROR, "message": "no such device"}}}
    failed = {**pod("Failed", ended("tcp-1"), {"name": "load", **state}), "spec": SPEC}
    assert missing_part(failed, "load") is None
    found = outcome(failed, "load")
    assert (found.started, found.started_at) == (False, None), "it printed nothing, in 1970 or ever"
    assert "was not started (no such device)" in found.failure


def test_a_pod_that_vanished_is_a_failure_not_a_wait():
    assert "deleted" in outcome(None, "rtt").failure


def test_a_pod_without_any_status_was_not_started():
    assert "was not started" in outcome({"metadata": {}}, "rtt").failure


@pytest.mark.parametrize(
    ("phase", "expected"),
    [("Pending", False), ("Running", False), ("Succeeded", True), ("Failed", True)],
)
def test_when_a_pod_is_finished(phase, expected):
    assert is_finished(pod(phase)) is expected


RUNNING = {"name": "rtt", "state": {"running": {"startedAt": STARTED}}}


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([ended("tcp-1"), ended("rtt")], True),
        ([ended("tcp-1"), ended("rtt", 1)], True),
        ([ended("tcp-1"), RUNNING], False),
        ([ended("tcp-1"), WAITING], False),
        ([ended("tcp-1", 1), WAITING], True),
    ],
)
def test_containers_tell_that_a_pod_is_finished_before_its_phase_does(containers, expected):
    assert is_finished(pod("Running", *containers)) is expected


def test_a_pod_is_finished_when_its_last_test_ended_though_its_phase_says_running():
    assert is_finished(pod("Running", ended("tcp-1"), ended("rtt")))


def test_a_pod_is_finished_when_a_test_before_the_last_failed():
    assert is_finished(pod("Pending", ended("tcp-1", 1), WAITING))


def test_a_pod_between_two_tests_is_not_finished():
    assert not is_finished(pod("Pending", ended("tcp-1"), WAITING))
