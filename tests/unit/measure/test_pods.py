"""The outcome of a pod's tests: good, failed, stopped, evicted, never started, gone."""

from __future__ import annotations

import pytest

from rackrate.measure.manifests import MAIN
from rackrate.measure.pods import is_finished, missing_part, outcome
from rackrate.measure.servers import missing_parts, why_waiting

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
    end = outcome(pod("Succeeded", ended("tcp-1"), ended("rtt")), "tcp-1")
    assert (end.started, end.failure) == (True, None)
    assert (end.started_at, end.finished_at) == (STARTED, FINISHED)


@pytest.mark.parametrize(
    ("code", "extra", "words"),
    [
        (1, {"reason": "Error"}, "exit code 1"),
        (137, {"reason": "Error"}, "exit code 137 (signal 9)"),
        (137, {"reason": "OOMKilled"}, "too much memory"),
    ],
)
def test_a_test_that_failed_says_how(code, extra, words):
    end = outcome(pod("Failed", ended("tcp-1", code, **extra), WAITING), "tcp-1")
    assert end.started and words in end.failure


def test_what_comes_after_a_failed_test_was_not_started():
    end = outcome(pod("Failed", ended("tcp-1", 1), WAITING), "rtt")
    assert not end.started and "was not started" in end.failure


def test_an_evicted_pod_says_so():
    evicted = pod("Failed", reason="Evicted", message="the node was low on memory")
    end = outcome(evicted, "rtt")
    assert "Evicted, the node was low on memory" in end.failure


def test_a_pod_stopped_at_its_deadline_says_so():
    stopped = pod("Failed", ended("tcp-1", 137), WAITING, reason="DeadlineExceeded")
    assert "DeadlineExceeded" in outcome(stopped, "tcp-1").failure
    assert "DeadlineExceeded" in outcome(stopped, "rtt").failure


def test_a_test_still_running_when_we_give_up_failed():
    running = {"name": "tcp-1", "state": {"running": {"startedAt": STARTED}}}
    end = outcome(pod("Running", running, WAITING), "tcp-1")
    assert end.started and "did not finish" in end.failure


def test_an_image_that_cannot_be_pulled_is_named():
    waiting = {"reason": "ImagePullBackOff", "message": "no such image tools:9"}
    end = outcome(pod("Pending", {"name": "tcp-1", "state": {"waiting": waiting}}), "tcp-1")
    assert "no such image tools:9" in end.failure


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
    end = outcome(failed, "load")
    assert not end.started and end.started_at is None
    assert "no sockperf in the image tools:1" in end.failure
    assert "ToolImage=build" in end.failure
    assert missing_part(failed, "tcp-1") is None


def test_a_container_that_cannot_start_for_another_reason_is_not_told_of_an_image():
    state = {"state": {"terminated": {**START_ERROR, "message": "no such device"}}}
    failed = {**pod("Failed", ended("tcp-1"), {"name": "load", **state}), "spec": SPEC}
    assert missing_part(failed, "load") is None
    end = outcome(failed, "load")
    assert (end.started, end.started_at) == (False, None), "it printed nothing, in 1970 or ever"
    assert "was not started (no such device)" in end.failure


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


# -- images that cannot be pulled

NO_VARIANT = [
    'rpc error: code = NotFound desc = failed to pull and unpack image "x:1": no match for platform'
    " in manifest: not found",
    'failed to pull and unpack image "x:1": no match for platform in manifest'
    " sha256:b9ab2c28208d75a75807445d4c370801da3992817325cc349764ad740abe40a6: not found",
    "no matching manifest for linux/arm64/v8 in the manifest list entries",
]
NO_IMAGE = (
    'rpc error: code = NotFound desc = failed to pull and unpack image "x:1": failed to resolve'
    ' reference "x:1": x:1: not found'
)
NO_LAYER = (
    'failed to pull and unpack image "x:1": failed to copy: httpReadSeeker: failed open: content at'
    " https://registry/v2/x/blobs/sha256:aa not found: not found"
)
RATE_LIMIT = (
    'failed to pull and unpack image "x:1": failed to copy: httpReadSeeker: failed open: unexpected'
    " status code https://registry/v2/x/manifests/sha256:611e: 429 Too Many Requests"
)


def not_pulled(message, reason="ErrImagePull"):
    waiting = {"state": {"waiting": {"reason": reason, "message": message}}}
    return {**pod("Pending", {"name": "load", **waiting}), "spec": SPEC}


@pytest.mark.parametrize("message", NO_VARIANT)
def test_an_image_without_a_variant_for_the_node_is_not_called_missing(message):
    reason = missing_part(not_pulled(message), "load")
    assert "tools:1 has no variant for the architecture" in reason and "ToolImage=build" in reason
    assert "no image" not in reason


def test_a_program_for_another_architecture_is_a_variant_that_there_is_not():
    crashed = {"exitCode": 255, "reason": "Error", "startedAt": STARTED}
    crashed["message"] = "exec /usr/bin/sockperf: exec format error"
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    state = {"name": "load", "state": waiting, "lastState": {"terminated": crashed}}
    message = missing_part({**pod("Running", state), "spec": SPEC}, "load")
    assert "tools:1 has no variant for the architecture" in message


def test_only_an_image_that_its_registry_lacks_is_missing():
    assert "no image tools:1 in its registry" in missing_part(not_pulled(NO_IMAGE), "load")
    assert "lacks a part of the image tools:1" in missing_part(not_pulled(NO_LAYER), "load")
    assert missing_part(not_pulled(RATE_LIMIT), "load") is None


# -- containers that others inject


def of_ours(init, *containers):
    """A client pod of the tests tcp-1 and tcp-8 as the API has it."""
    return {
        "metadata": {"annotations": {MAIN: "tcp-8"}},
        "spec": {
            "initContainers": [{"name": each["name"]} for each in init],
            "containers": [{"name": each["name"]} for each in containers],
        },
        "status": {
            "phase": "Running",
            "initContainerStatuses": init,
            "containerStatuses": list(containers),
        },
    }


def running(name):
    return {"name": name, "state": {"running": {"startedAt": STARTED}}}


def waits(name):
    return {"name": name, "state": {"waiting": {"reason": "PodInitializing"}}}


BEFORE = [ended("istio-init"), ended("tcp-1")]


@pytest.mark.parametrize("first", [True, False])
def test_a_sidecar_that_ended_is_not_the_end_of_the_pod(first):
    containers = [running("tcp-8"), ended("istio-proxy")]
    assert not is_finished(of_ours(BEFORE, *(containers if first else containers[::-1])))


def test_a_pod_is_finished_though_a_sidecar_still_runs():
    injected = of_ours(BEFORE, ended("tcp-8"), running("istio-proxy"))
    assert is_finished(injected)
    assert (outcome(injected, "tcp-1").failure, outcome(injected, "tcp-8").failure) == (None, None)


def test_a_sidecar_that_kubernetes_restarts_does_not_end_the_pod():
    injected = of_ours([ended("linkerd-proxy", 1), running("tcp-1")], waits("tcp-8"))
    injected["spec"]["initContainers"][0]["restartPolicy"] = "Always"
    assert not is_finished(injected)


def test_an_injected_init_container_that_fails_is_named_with_its_exit_code():
    failed = ended("istio-validation", 126, reason="Error")
    injected = of_ours([failed, waits("tcp-1")], waits("tcp-8"))
    assert is_finished(injected)
    for test in ("tcp-1", "tcp-8"):
        end = outcome(injected, test)
        assert not end.started
        assert "was not started" in end.failure
        assert "istio-validation ended with exit code 126" in end.failure


def test_a_server_behind_an_init_container_that_fails_again_and_again_names_it():
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 20s"}
    last = ended("linkerd-init", 95)["state"]
    failing = {"name": "linkerd-init", "state": {"waiting": waiting}, "lastState": last}
    reasons = why_waiting([of_ours([failing], waits("iperf3"))])
    assert "the init container linkerd-init ended with exit code 95" in reasons
    assert not any("PodInitializing" in each for each in reasons)


def test_an_injected_container_needs_neither_a_command_nor_an_image_of_ours():
    injected = of_ours([], ended("iperf3"), not_pulled(NO_IMAGE)["status"]["containerStatuses"][0])
    injected["spec"]["containers"][1]["image"] = "mesh:1"
    assert missing_parts([injected]) == []
