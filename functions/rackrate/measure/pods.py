"""The outcomes of a client pod's tests, read from the API's JSON of the pod. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rackrate.measure.manifests import MAIN
from rackrate.measure.starts import NO_PROGRAM_CODE, TOO_LATE_CODE, agreed, awaited
from rackrate.times import seconds_between

_MESSAGE_LENGTH = 300
#: The kubelet's reason while a container waits for the init containers.
INITIALIZING = "PodInitializing"
#: The kubelet's reasons for containers that could not start. It dates their start to 1970.
_NEVER_RAN = frozenset({"StartError", "ContainerCannotRun"})
#: Part of runc's message when the image lacks a program.
_NO_PROGRAM = "executable file not found"
#: The kubelet's reasons while it cannot pull an image.
_PULL_FAILED = frozenset({"ErrImagePull", "ImagePullBackOff"})
_BUILD = 'update the stack with "ToolImage=build"'
_NO_VARIANT = (
    "the image {image} has no variant for the architecture or the operating system of its node;"
    f" build it for that, or {_BUILD}"
)
#: Parts of a container runtime's message when a pull cannot succeed later either, and ours. The
#: first part that occurs counts, because each of these messages also ends with `: not found`.
_PULLS = {
    "no match for platform in manifest": _NO_VARIANT,
    "no matching manifest for": _NO_VARIANT,
    "content at ": f"the registry lacks a part of the image {{image}}; push it again, or {_BUILD}",
    **dict.fromkeys(
        (": not found", "manifest unknown"),
        "there is no image {image} in its registry; update the stack with the name of one that"
        ' there is, or with "ToolImage=build"',
    ),
}


@dataclass(frozen=True)
class Outcome:
    """How one test's container ended.

    Attributes:
        started: whether the container ran, so that it may have output.
        failure: why the test failed, or None when its container succeeded.
        started_at: ISO 8601, or None. A container that waits for an agreed start starts then.
        finished_at: ISO 8601, or None.
    """

    started: bool
    failure: str | None
    started_at: str | None = None
    finished_at: str | None = None


def is_finished(pod: Mapping[str, Any]) -> bool:
    """Whether the pod will produce no more output.

    The kubelet reports the phase only after it has removed the pod's sandbox, a second or two after
    the last test ended. The containers' states show it at once: either the tests, or the main
    container, have ended, or a container before it failed and Kubernetes starts no further one.
    What others inject beside them, such as a service mesh, does not count.
    """
    status = pod.get("status", {})
    if status.get("phase") in ("Succeeded", "Failed"):
        return True
    ours = agreed(pod).keys() or {pod.get("metadata", {}).get("annotations", {}).get(MAIN)}
    ended = {
        c["name"] for c in status.get("containerStatuses", []) if "terminated" in c.get("state", {})
    }
    if ended and (ours <= ended or ours == {None}):
        return True
    # Kubernetes restarts a sidecar among the init containers.
    inits = pod.get("spec", {}).get("initContainers", [])
    sidecars = {each["name"] for each in inits if each.get("restartPolicy") == "Always"}
    return any(
        c.get("state", {}).get("terminated", {}).get("exitCode", 0) != 0
        for c in status.get("initContainerStatuses", [])
        if c["name"] not in sidecars
    )


def has_started(pod: Mapping[str, Any]) -> bool:
    """Whether a container of the pod runs or has run."""
    status = pod.get("status", {})
    containers = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    return any({"running", "terminated"} & c.get("state", {}).keys() for c in containers)


def started_after(pods: Iterable[Mapping[str, Any]]) -> float:
    """How long after the first pod's creation the last container of some pods started, in seconds.

    The cluster tells whole seconds. It is 0 if no container started.
    """
    created, started = [], []
    for pod in pods:
        created.append(pod["metadata"]["creationTimestamp"])
        for container in pod.get("status", {}).get("containerStatuses", []):
            states = container.get("state", {}).values()
            started += [state["startedAt"] for state in states if state.get("startedAt")]
    return seconds_between(min(created), max(started)) if started else 0.0


def age_seconds(thing: Mapping[str, Any]) -> float:
    """How long ago an object was created."""
    created = datetime.datetime.fromisoformat(thing["metadata"]["creationTimestamp"])
    return (datetime.datetime.now(datetime.UTC) - created).total_seconds()


def outcome(pod: Mapping[str, Any] | None, test: str) -> Outcome:
    """How a test's container ended in a pod that finished, exceeded its deadline, or is missing."""
    if pod is None:
        return Outcome(False, "the client pod was deleted before its output could be read")
    status = pod.get("status", {})
    containers = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    container = next((c for c in containers if c["name"] == test), None)
    state = container.get("state", {}) if container else {}
    ended = state.get("terminated")
    if (lacking := missing_part(pod, test)) is not None:
        return Outcome(False, lacking)
    ran = ended is not None and ended.get("reason") not in _NEVER_RAN
    if ended is not None and ended.get("exitCode") == TOO_LATE_CODE and test in agreed(pod):
        return Outcome(False, "could not start in time to end before the tests after it")
    if ended is not None and ran and ended.get("startedAt"):
        started_at = _started_at(ended, agreed(pod).get(test))
        return Outcome(True, _why_ended(status, ended), started_at, ended.get("finishedAt"))
    if "running" in state:
        return Outcome(
            True,
            f"did not finish before the deadline{_because(status)}",
            _started_at(state["running"], agreed(pod).get(test)),
        )
    waiting = (ended or state.get("waiting") or {}).get("message") or (
        ended or state.get("waiting") or {}
    ).get("reason")
    detail = f" ({waiting})" if waiting and waiting != INITIALIZING else ""
    failed = [words for name, words in failed_init_containers(pod).items() if name != test]
    before = f": {failed[0]}" if failed else ""
    return Outcome(False, f"was not started{before}{_because(status)}{detail}"[:_MESSAGE_LENGTH])


def failed_init_containers(pod: Mapping[str, Any]) -> dict[str, str]:
    """How the init containers ended that failed, by name; those of others, too, are injected."""
    status = pod.get("status", {})
    return {
        each["name"]: f"the init container {each['name']} {_why_ended({}, ended)}"
        for each in status.get("initContainerStatuses", [])
        # While Kubernetes restarts a container, only its last state has the exit code.
        for state in (each.get("lastState", {}), each.get("state", {}))
        if (ended := state.get("terminated", {})).get("exitCode", 0) != 0
    }


def _started_at(state: Mapping[str, Any], starts_at: int | None) -> str | None:
    """When a test started: with its container, or at the agreed time if the container lived to it.

    Kubernetes and this write times in whole seconds of UTC, so their order is that of the texts.
    """
    started: str | None = state.get("startedAt")
    if started is None or starts_at is None:
        return started
    at = datetime.datetime.fromtimestamp(starts_at // 1000, datetime.UTC)
    time = at.isoformat().replace("+00:00", "Z")
    return time if started < time <= state.get("finishedAt", time) else started


def missing_part(pod: Mapping[str, Any], container: str) -> str | None:
    """A message on the image, or the program in it, that there is not; None if there are both."""
    status, spec = pod.get("status", {}), pod.get("spec", {})
    statuses = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    states = [
        state
        for each in statuses
        if each["name"] == container
        # While Kubernetes restarts a container, only its last state has the reason.
        for of in ("state", "lastState")
        for state in each.get(of, {}).values()
    ]
    messages = [state.get("message") or "" for state in states]
    no_program = any(_NO_PROGRAM in message for message in messages)
    shell_found_none = any(state.get("exitCode") == NO_PROGRAM_CODE for state in states)
    no_image = next(filter(None, map(_why_no_image, states)), None)
    for each in (*spec.get("initContainers", []), *spec.get("containers", [])):
        # Each of our containers has a command; an injected one need not.
        if each["name"] != container or not (command := each.get("command")):
            continue
        if shell_found_none and command != awaited(command):
            no_program, command = True, awaited(command)
        if no_program:
            return no_program_in(each["image"], command[0])
        if no_image:
            return no_image.format(image=each["image"])
    return None


def no_program_in(image: str, program: str) -> str:
    """The message on an image that lacks a program."""
    return (
        f"there is no {program} in the image {image}; the image that the stack builds has it:"
        ' update the stack with "ToolImage=build"'
    )


def _why_no_image(state: Mapping[str, Any]) -> str | None:
    """Our message when a registry lacks the image. None if another pull may succeed later."""
    message = state.get("message") or ""
    # The kernel says so of a program for another architecture, if the image is for one only.
    if "exec format error" in message:
        return _NO_VARIANT
    if state.get("reason") == "InvalidImageName":
        return _PULLS[": not found"]
    if state.get("reason") not in _PULL_FAILED:
        return None
    return next((ours for words, ours in _PULLS.items() if words in message), None)


def _why_ended(status: Mapping[str, Any], ended: Mapping[str, Any]) -> str | None:
    code = ended.get("exitCode", 0)
    if code == 0:
        return None
    reason = ended.get("reason", "Error")
    if reason == "OOMKilled":
        return "was killed because it used too much memory"
    signal = f" (signal {code - 128})" if code > 128 else ""
    return f"ended with exit code {code}{signal}{_because(status)}"[:_MESSAGE_LENGTH]


def _because(status: Mapping[str, Any]) -> str:
    """The pod's own reason, such as Evicted or DeadlineExceeded, with its message."""
    reason, message = status.get("reason"), status.get("message")
    if not reason:
        return ""
    return f": {reason}" + (f", {message}" if message else "")
