"""Faults that can be injected into the lab that is up: their names, and how to inject one.

The lab's region makes a fault and takes it back; whoever injects it holds a lease and renews it. So
a fault ends with the process that injected it, however that process ends.
"""

from __future__ import annotations

import contextlib
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lab import stack
from lab.errors import LabError

#: A fault whose holder does not renew its lease for so long is taken back.
LEASE_SECONDS = 6.0
_RENEW_SECONDS = 1.0
# Long enough for the region to wait until a program of a node has ended or begun.
_ANSWER_SECONDS = 60.0

_CALLS = "service:Operation, with * (dynamodb:PutItem, s3:*)"
_FUNCTION = "a part of a function's name"
_NODE = "a node, or a label key=value of nodes, or all"
_SOURCE = "the source of events, such as aws.states"
_STRATEGY = "a strategy of placement groups, none for nodes without one, or all"
_RACK = "a node in the rack, or a label of nodes in it, or all"


@dataclass(frozen=True)
class Fault:
    """A fault by name. `on` says what its target may be, `default` is the target without one."""

    name: str
    summary: str
    on: str
    default: str


def _of_aws() -> Iterator[Fault]:
    """Faults of calls, events and functions."""
    yield Fault("api-throttled", "answers a share of calls with throttling", _CALLS, "*")
    yield Fault("api-failing", "answers a share of calls with the service's own 500", _CALLS, "*")
    yield Fault("api-hanging", "never answers a share of calls", _CALLS, "*")
    yield Fault("api-cut", "closes the connection of a share of calls", _CALLS, "*")
    yield Fault(
        "api-answer-lost", "executes a share of calls, then closes the connection", _CALLS, "*"
    )
    yield Fault(
        "token-expired",
        "refuses a share of calls because the caller's credentials expired",
        f"{_CALLS}; or kubernetes, for the EKS token",
        "*",
    )
    yield Fault(
        "clock-moved",
        "lets AWS refuse a share of calls as from a caller whose clock is wrong; no clock moves",
        f"{_CALLS}; or kubernetes, for the EKS token",
        "*",
    )
    yield Fault(
        "key-disabled",
        "lets S3 and DynamoDB refuse a share of calls because their KMS key is disabled",
        _CALLS,
        "*",
    )
    yield Fault(
        "launches-refused",
        "lets EC2 lack capacity for a share of a node group's launches; some of its nodes may come",
        _STRATEGY,
        "cluster",
    )
    yield Fault(
        "launches-delayed",
        "lets a share of launches begin later (--option delay_ms=N)",
        _STRATEGY,
        "all",
    )
    yield Fault("event-lost", "loses a share of EventBridge's events", _SOURCE, "aws.states")
    yield Fault("function-crash", "kills a share of invocations", _FUNCTION, "all")
    yield Fault("function-frozen", "stops the process of a share of invocations", _FUNCTION, "all")
    yield Fault("function-starved", "lets functions run 1-rate of the time", _FUNCTION, "all")
    yield Fault(
        "function-out-of-memory", "takes the memory from a share of invocations", _FUNCTION, "all"
    )


def _of_programs() -> Iterator[Fault]:
    """Faults of nodes and of the control plane."""
    for program in ("kubelet", "containerd"):
        yield Fault(f"{program}-killed", "kills it once; it starts again in 5 s", _NODE, "first")
        yield Fault(f"{program}-frozen", "stops it where it is (SIGSTOP)", _NODE, "first")
        yield Fault(f"{program}-stopped", "kills it, and no systemd starts it", _NODE, "first")
    for program in ("api-server", "etcd", "scheduler", "controller-manager"):
        yield Fault(f"{program}-killed", "kills it once; it starts again in 1 s", "nothing", "")
        yield Fault(f"{program}-frozen", "stops it where it is (SIGSTOP)", "nothing", "")
        yield Fault(f"{program}-stopped", "kills it, and nobody starts it", "nothing", "")
    yield Fault("node-lost", "powers a node off; taken back, it boots again", _NODE, "first")


def _of_network() -> Iterator[Fault]:
    """Faults of frames and links."""
    for prefix, on, where in (
        ("packets", _NODE, "a node sends and receives"),
        ("racks", _RACK, "pass between a rack and the others"),
    ):
        yield Fault(f"{prefix}-lost", f"drops a share of the frames that {where}", on, "first")
        yield Fault(f"{prefix}-delayed", f"delays a share of the frames that {where}", on, "first")
        yield Fault(
            f"{prefix}-duplicated", f"doubles a share of the frames that {where}", on, "first"
        )
        yield Fault(
            f"{prefix}-corrupted", f"flips a bit in a share of frames that {where}", on, "first"
        )
    yield Fault(
        "link-flapping", "takes a node's link down and up, down a share of the time", _NODE, "first"
    )
    yield Fault(
        "partition",
        "drops what a node and its peers send one another (--option peers=nodes, control-plane"
        " or everyone; direction=in, out or both)",
        _NODE,
        "first",
    )
    yield Fault("mtu-mismatch", "drops frames above 1500 bytes (--option mtu=N)", _NODE, "first")


FAULTS: Mapping[str, Fault] = {
    fault.name: fault for fault in (*_of_aws(), *_of_programs(), *_of_network())
}


def active_faults(endpoint_url: str) -> list[dict[str, Any]]:
    """The faults that are active in the lab whose AWS answers there, as they were ordered."""
    return list(_ask(f"{endpoint_url}/_lab/faults", "GET")["faults"])


class Injected:
    """A fault that is active. `hits` is how often it has struck so far."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._hits = 0

    @property
    def hits(self) -> int:
        """How many calls, invocations or programs it has struck; frames are not counted."""
        with contextlib.suppress(OSError, LabError):
            self.renew()
        return self._hits

    def renew(self) -> None:
        """Hold the fault for another lease."""
        self._hits = _ask(self._url, "PUT")["hits"]

    def take_back(self) -> None:
        """End the fault now. Safe when it has ended."""
        self._hits = _ask(self._url, "DELETE")["hits"]


@contextlib.contextmanager
def inject(
    name: str,
    *,
    on: str | None = None,
    rate: float = 1.0,
    seconds: float | None = None,
    endpoint_url: str | None = None,
    **options: str,
) -> Iterator[Injected]:
    """Inject a fault into the lab that is up; it is taken back at the end, also after an exception.

    Args:
        name: a name of `FAULTS`.
        on: the target; without one the fault's default.
        rate: the share of calls, invocations, frames or time that is struck, from 0 to 1.
        seconds: how long the fault lasts at most; without it, as long as the context.
        endpoint_url: where the lab's AWS answers, if it is another lab.
        options: of the fault, such as `error` (a code of the service) or `delay_ms`.

    Raises LabError for an unknown name or target, and when no lab is up.
    """
    faults = f"{endpoint_url or stack.status_of_lab()['endpoint_url']}/_lab/faults"
    if name not in FAULTS:
        raise LabError(f"There is no fault {name!r}: `make lab-fault` lists them all.")
    if not 0 < rate <= 1:
        raise LabError(f"The rate is {rate:g}: give a number above 0 and up to 1, such as 0.3.")
    body = {
        "name": name,
        "on": FAULTS[name].default if on is None else on,
        "rate": rate,
        "seconds": seconds,
        "options": options,
    }
    injected = Injected(f"{faults}/{_ask(faults, 'POST', body)['id']}")
    over = threading.Event()

    def hold() -> None:
        while not over.wait(_RENEW_SECONDS):
            with contextlib.suppress(OSError, LabError):
                injected.renew()

    holder = threading.Thread(target=hold, name=f"fault-{name}", daemon=True)
    holder.start()
    try:
        yield injected
    finally:
        over.set()
        holder.join()
        # A lab that has ended took its faults along.
        with contextlib.suppress(OSError, LabError):
            injected.take_back()


def _ask(url: str, method: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as response:
            return dict(json.loads(response.read()))
    except urllib.error.HTTPError as refusal:
        with refusal:
            raise LabError(json.loads(refusal.read())["error"]) from None
