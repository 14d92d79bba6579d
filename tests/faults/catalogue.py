"""The faults: what is done to a run or a campaign, when, for how long, and what it may cost."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tests.faults.acts import (
    Act,
    all_of,
    bucket_closed,
    cordoned,
    delete_namespace,
    delete_owner,
    delete_pod,
    delete_servers,
    disk_full,
    disk_pressure,
    drained,
    event_lost,
    evict_pod,
    hanging_webhook,
    image_missing,
    interrupt,
    lose_map_child,
    means,
    nothing,
    on_baseline,
    on_client,
    once,
    print_as_tool,
    quota,
    refusing_policy,
    results_edited,
    several,
    signal_tool,
    start_again,
    start_another,
    start_as_schedule,
    start_of_the_other_kind,
    stop_and_redrive,
    stop_execution,
    stop_tool,
    tainted,
    terminate,
    time_limit,
    unknown_type,
    update_stack,
    withdraw_rights,
)
from tests.faults.odd_items import garbage_swept


@dataclass(frozen=True)
class Case:
    """A fault that is tried.

    Attributes:
        name: its name in the table.
        act: how it is made and taken back.
        seconds: how long it lasts.
        block: it begins with this block; 0 while the servers start.
        of: what it meets.
        cost: what it may cost, for people.
        ends: the errors with which the run may end; none where every trial must be measured.
        words: what the sentence must contain; `{node}` is the node that the fault met.
        stops: whether the run is stopped by it, and is continued.
        around: what is there before the run begins, and is taken back after its end.
        complains: whether the command must end badly and say so, though the run ends well.
    """

    name: str
    act: Act
    seconds: float = 0.0
    block: int = 2
    of: Literal["run", "campaign"] = "run"
    cost: str = "repetitions"
    ends: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    stops: bool = False
    around: Act = nothing
    complains: bool = False


#: Faults that are tried elsewhere, or that the lab cannot make.
ELSEWHERE = {
    "stack deleted": "tests/lab/test_existing_cluster.py deletes a stack whose run measures",
    "a node's clock moved": "the nodes share the machine's clock, and Linux has no namespace for"
    " it; tests/unit/verdict/test_marks.py marks the trials of such a node",
}


def _cluster() -> Iterator[Case]:
    yield Case("client pod deleted", delete_pod("client"))
    yield Case("server pod deleted", delete_pod("server"))
    yield Case("client pod evicted", evict_pod("client"))
    yield Case("server pod evicted", evict_pod("server"))
    yield Case("client killed, as when out of memory", signal_tool("client", signal.SIGKILL))
    yield Case("server killed, as when out of memory", signal_tool("server", signal.SIGKILL))
    yield Case("owner object deleted", once(delete_owner))
    yield Case("owner object deleted while servers start", once(delete_owner), block=0)
    yield Case("servers' DaemonSets deleted", once(delete_servers))
    yield Case("quota of pods used up", quota, 8)
    yield Case(
        "admission policy refuses pods",
        refusing_policy,
        8,
        cost="the run ends at once; it is continued without the policy",
        words=("images come from registry.corp only",),
        stops=True,
    )
    yield Case("admission webhook hangs", hanging_webhook, 8)
    yield Case("namespace deleted", once(delete_namespace))
    yield Case("namespace deleted while servers start", once(delete_namespace), block=0)
    yield Case("namespace deleted in a campaign", once(delete_namespace), of="campaign")
    yield Case("rights in the namespace withdrawn", once(withdraw_rights))
    yield Case("node cordoned", cordoned, 12)
    yield Case("node drained", drained, 12)
    yield Case("node tainted NoExecute", tainted, 12)
    yield Case("kubelet killed", means("kubelet-killed", on_client), 3)
    yield Case("kubelet frozen", means("kubelet-frozen", on_client), 12)
    yield Case("kubelets of both arms frozen", means("kubelet-frozen", "all"), 12)
    yield Case("containerd killed", means("containerd-killed", on_client), 3)
    yield Case("containerd frozen", means("containerd-frozen", on_client), 10)
    yield Case("API server killed", means("api-server-killed"), 3)
    yield Case("API server frozen", means("api-server-frozen"), 15)
    yield Case("etcd killed", means("etcd-killed"), 3)
    yield Case("etcd frozen", means("etcd-frozen"), 12)
    yield Case("scheduler killed", means("scheduler-killed"), 3)
    yield Case("controller manager killed", means("controller-manager-killed"), 3)
    yield Case("node off for 20 s", means("node-lost", on_client), 20)
    yield Case(
        "two of four nodes off for 20 s, one of each arm",
        all_of(means("node-lost", on_client), means("node-lost", on_baseline)),
        20,
    )
    yield Case(
        "two of four nodes off for 20 s, both of an arm",
        means("node-lost", "placementGroup=true"),
        20,
    )
    yield Case("a node's disk full, as Kubernetes is told, for 15 s", disk_pressure, 15)
    yield Case(
        "image missing",
        nothing,
        240,
        block=0,
        cost="all trials: the run ends at once",
        ends=("ServersNotReady",),
        words=("{image}", "ToolImage"),
        around=image_missing,
    )
    yield Case(
        "a node tells an unknown instance type",
        nothing,
        cost="the ceilings of its arm; the result names the type",
        words=("c99.mega",),
        around=unknown_type,
    )
    yield Case(
        "node terminated and replaced",
        once(terminate),
        cost="repetitions; the result names both nodes",
    )
    yield Case(
        "node terminated while servers start",
        once(terminate),
        block=0,
        cost="nothing; the result names both nodes",
    )
    yield Case(
        "kubelet gone for good",
        means("kubelet-stopped", on_client),
        240,
        cost="the node's arm has no pair left: the run ends at once",
        ends=("NodesUnavailable", "TrialsLost"),
        words=("{node}",),
    )


def _network() -> Iterator[Case]:
    def on_packets(name: str, rate: float = 1.0, **options: str) -> Act:
        return means(name, on_client, rate=rate, must_hit=False, **options)

    yield Case("1 % of a node's packets lost", on_packets("packets-lost", 0.01), 12)
    yield Case("10 % of a node's packets lost", on_packets("packets-lost", 0.1), 12)
    yield Case("packets delayed", on_packets("packets-delayed"), 12)
    yield Case("packets duplicated", on_packets("packets-duplicated", 0.2), 12)
    yield Case("packets corrupted", on_packets("packets-corrupted", 0.02), 12)
    yield Case("packets between racks lost", on_packets("racks-lost", 0.1), 12)
    yield Case("link flaps", on_packets("link-flapping", 0.3), 12)
    yield Case("an arm's nodes parted", on_packets("partition"), 8)
    yield Case("one direction cut", on_packets("partition", direction="in"), 8)
    yield Case(
        "control plane cut off",
        means("partition", on_client, must_hit=False, peers="control-plane"),
        12,
    )
    yield Case("frames above 1500 bytes dropped", on_packets("mtu-mismatch"), 8)
    yield Case("server accepts and never answers", stop_tool("server"), 10)
    yield Case("tool never ends", stop_tool("client"), 120)
    yield Case("tool prints garbage", print_as_tool(0.01))
    yield Case("tool prints 1 GB", print_as_tool(1000))
    # The API server reads the log from its kubelet, over a link that loses many frames by then.
    losing = means("packets-lost", "all", rate=0.3, must_hit=False)
    yield Case("a slow log", all_of(print_as_tool(4), losing), 25)


def _aws() -> Iterator[Case]:
    for call in (
        "dynamodb:TransactWriteItems",
        "dynamodb:UpdateItem",
        "dynamodb:Query",
        "s3:PutObject",
        "s3:GetObject",
    ):
        yield Case(f"{call} throttled", means("api-throttled", call, rate=0.5), 15)
    # A function asks these once, and a run may have asked before its servers are awaited.
    for call in ("eks:DescribeCluster", "ec2:DescribeInstances"):
        act = means("api-throttled", call, rate=0.5, must_hit=False)
        yield Case(f"{call} throttled", act, 15, block=0)
    yield Case("dynamodb answers 500", means("api-failing", "dynamodb:*", rate=0.5), 12)
    yield Case("s3 answers 500", means("api-failing", "s3:*", rate=0.5), 12)
    yield Case("all AWS calls fail", means("api-failing", "*"), 10)
    yield Case("dynamodb hangs", means("api-hanging", "dynamodb:*"), 10)
    yield Case("connections cut", means("api-cut", "*", rate=0.3), 12)
    yield Case("answers of dynamodb lost", means("api-answer-lost", "dynamodb:*", rate=0.3), 12)
    yield Case("credentials expired", means("token-expired", "*", rate=0.3), 10)
    # The API server asks about a token again after 30 s, so a shorter fault may meet no question.
    expired = means("token-expired", "kubernetes", rate=0.5)
    yield Case("EKS token expired", expired, 30, block=0)
    yield Case("bucket's policy refuses writes", bucket_closed, 8)
    yield Case(
        "KMS key disabled, enabled again, then continued",
        means("key-disabled", "s3:*"),
        240,
        stops=True,
    )
    yield Case("functions' clocks wrong", means("clock-moved", "*", rate=0.3), 10)
    yield Case("six functions crash", several("function-crash", times=6))
    yield Case("a function freezes", several("function-frozen", times=1))
    yield Case("functions starve", means("function-starved", "all", rate=0.9, must_hit=False), 12)
    yield Case("a function is out of memory", several("function-out-of-memory", times=1))
    yield Case("a map child lost", once(lose_map_child))
    yield Case("execution stopped, then continued", once(stop_execution), stops=True)
    yield Case(
        "execution timed out, then continued",
        nothing,
        240,
        block=0,
        stops=True,
        around=time_limit(45),
    )
    yield Case("end's event lost, swept in an hour, then continued", event_lost, stops=True)
    yield Case("items of the table that nobody can read, during a sweep", garbage_swept)
    yield Case("execution stopped and redriven", once(stop_and_redrive))
    yield Case("stack updated", once(update_stack))
    yield Case(
        "six functions crash in a campaign", several("function-crash", times=6), of="campaign"
    )
    yield Case("all AWS calls fail in a campaign", means("api-failing", "*"), 10, of="campaign")
    yield Case("API server frozen in a campaign", means("api-server-frozen"), 15, of="campaign")


#: The answer of a service that cannot be used for some seconds.
_ERROR = {"api-failing": {"error": "ServiceUnavailable"}}


def _people() -> Iterator[Case]:
    yield Case("two runs at once", once(start_another))
    yield Case("the same name twice", once(start_again))
    yield Case("a campaign with the run's name", once(start_of_the_other_kind))
    yield Case("a run with the campaign's name", once(start_of_the_other_kind), of="campaign")
    yield Case("a schedule that overlaps", once(start_as_schedule), of="campaign", block=1)
    yield Case("Ctrl-C, then continued", interrupt(1), stops=True)
    yield Case("Ctrl-C twice, then continued", interrupt(2), stops=True)
    yield Case("terminal closed, then continued", interrupt(1, signal.SIGHUP), stops=True)
    yield Case(
        "user's clock wrong",
        means("clock-moved", "states:DescribeExecution", callers="all"),
        8,
        cost="the command's end; the run goes on",
        words=("clock", "rackrate show {name}"),
        complains=True,
    )
    # More calls than botocore tries by itself, which takes three seconds.
    for service, what in (("states", "Step Functions"), ("dynamodb", "DynamoDB"), ("s3", "S3")):
        for fault, words in (("api-failing", "has a fault"), ("api-throttled", "throttles")):
            yield Case(
                f"{what} {words} for the user's calls",
                several(fault, on=f"{service}:*", times=5, callers="user", **_ERROR.get(fault, {})),
                # The command reads S3 at the end.
                block=6 if service == "s3" else 2,
                cost="seconds",
            )
    yield Case(
        "CloudFormation has a fault while the command starts",
        nothing,
        240,
        cost="seconds",
        around=means(
            "api-failing", "cloudformation:*", at_most=3, callers="user", **_ERROR["api-failing"]
        ),
    )
    yield Case(
        "Step Functions has a fault for the user's calls in a campaign",
        several("api-failing", on="states:*", times=5, callers="user", **_ERROR["api-failing"]),
        block=1,
        of="campaign",
        cost="seconds",
    )
    yield Case(
        "disk full while results are written",
        nothing,
        240,
        cost="the copies: `rackrate report` makes them",
        words=("No space left on device", "rackrate report {name}"),
        around=disk_full,
        complains=True,
    )
    yield Case("results file edited", nothing, 240, cost="the edited file", around=results_edited)


CATALOGUE = (*_cluster(), *_network(), *_aws(), *_people())
