"""What keeps pairs from being measured: nodes that are absent, servers that are not ready. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from rackrate.plan.items import Pair
from rackrate.times import seconds_between
from rackrate_contract.document import Json
from rackrate_contract.executions import GaveUp, ObstacleError
from rackrate_text.words import listed

#: How long a run waits for a node that is not Ready, or for a server that vanished, and how long an
#: arm may be without a pair that can be measured before the run gives up. When Kubernetes calls a
#: node not Ready, its kubelet has been silent for 40 or 50 s already (`--node-monitor-grace-period`
#: of kube-controller-manager).
PATIENCE_SECONDS = 60
#: The same for an arm that gets another node in place of one that has ended. An Auto Scaling group
#: finds out after one or two minutes that its instance has ended. Another one is launched, boots
#: and joins the cluster in two to three minutes more.
REPLACEMENT_SECONDS = 300
#: How many items in a row may have all of their pods refused before the run gives up.
REFUSED_ITEMS = 3
#: How long, and how often, a run waits before it asks again for pods of which a quota let none in.
#: Pods of others may end meanwhile; the run loses no trial by waiting.
QUOTA_WAIT_SECONDS, QUOTA_WAITS = 10, 12
_REASONS_SHOWN = 4
_MESSAGE_LENGTH = 300

NONE_EXPECTED: Mapping[str, str] = {}


class Obstacle(NamedTuple):
    """Why a pair cannot be measured now.

    Attributes:
        error: the error that the run ends with if no pair can be measured any more.
        reason: a message that names the node.
        since: when it began, ISO 8601; None if that is unknown.
        patience_seconds: how long it may last before the run gives up.
    """

    error: ObstacleError
    reason: str
    since: str | None = None
    patience_seconds: int = PATIENCE_SECONDS


class Absence(NamedTuple):
    """Why a node can run no pod now.

    Attributes:
        reason: a message that names the node.
        is_silent: whether it does not answer either, so that no log of it can be read.
        since: when it began, ISO 8601; None if that is unknown.
    """

    reason: str
    is_silent: bool
    since: str | None = None


def absence(name: str, nodes: Mapping[str, Json]) -> Absence | None:
    """Why a node can run no pod now, or None if it can.

    A cordoned node runs the pods that name it, so it is not absent.

    Args:
        name: the node's name.
        nodes: the cluster's nodes by name.
    """
    if (node := nodes.get(name)) is None:
        return Absence(f"node {name} is gone", is_silent=True)
    ready = next(
        (c for c in node.get("status", {}).get("conditions", []) if c["type"] == "Ready"), None
    )
    if ready is None or ready["status"] != "True":
        state: Mapping[str, Any] = ready or {}
        since = state.get("lastTransitionTime")
        message = str(state.get("message") or "").rstrip(". ")[:_MESSAGE_LENGTH]
        reason = f"node {name} is not Ready" + (f" since {since}" if since else "")
        # Kubernetes writes Unknown when the kubelet is silent, and False when it complains.
        silent = state.get("status") != "False"
        return Absence(reason + (f": {message}" if message else ""), silent, since)
    return None


def obstacle(
    pair: Pair,
    nodes: Mapping[str, Json],
    addresses: Mapping[str, str],
    expected: Mapping[str, str] = NONE_EXPECTED,
) -> Obstacle | None:
    """Why a pair cannot be measured now, or None if it can.

    Args:
        pair: the pair.
        nodes: the cluster's nodes by name.
        addresses: the addresses of the servers that are ready in the pair's network, by node.
        expected: the nodes that have ended and that others will replace, and since when they are
            waited for.
    """
    for name in pair.nodes:
        if (absent := absence(name, nodes)) is not None:
            if name in expected:
                reason = f"{absent.reason}, and no other node has come in its place"
                since = expected[name]
                return Obstacle("NodesUnavailable", reason, since, REPLACEMENT_SECONDS)
            return Obstacle("NodesUnavailable", absent.reason, absent.since)
    if pair.endpoint is None and pair.server not in addresses:
        return Obstacle("ServersNotReady", f"the server on node {pair.server} is not ready")
    return None


def lost_arms(
    obstacles: Mapping[Pair, Obstacle | None], seen: Mapping[str, str], time: str
) -> dict[str, str]:
    """The arms without a pair that can be measured, and since when, ISO 8601.

    Args:
        obstacles: the obstacle of each pair of the plan.
        seen: the answer of the call before, for obstacles whose beginning is unknown.
        time: the time now.
    """
    since: dict[str, list[str]] = {}
    for pair, why in obstacles.items():
        if why is not None:
            since.setdefault(pair.arm, []).append(why.since or seen.get(pair.arm) or time)
    measurable = {pair.arm for pair, why in obstacles.items() if why is None}
    return {arm: max(of_arm) for arm, of_arm in since.items() if arm not in measurable}


def hopeless(
    obstacles: Mapping[Pair, Obstacle | None],
    lost: Mapping[str, str],
    baseline: str,
    time: str,
) -> GaveUp | None:
    """Why no verdict can be had any more, or None while one can.

    A verdict needs the baseline and one other arm. An arm counts as lost for good after the
    patience that its obstacles deserve.

    Args:
        obstacles: the obstacle of each pair of the plan.
        lost: the answer of `lost_arms`.
        baseline: the name of the baseline arm.
        time: the time now, ISO 8601.
    """
    patience = {
        arm: max(each.patience_seconds for p, each in obstacles.items() if each and p.arm == arm)
        for arm in lost
    }
    over = [arm for arm, since in lost.items() if seconds_between(since, time) >= patience[arm]]
    others = {pair.arm for pair in obstacles} - {baseline}
    if not over or not (baseline in over or others <= set(over)):
        return None
    final = [each for pair, each in obstacles.items() if each is not None and pair.arm in over]
    # An absent node explains more than the server that went with it.
    errors = {each.error for each in final}
    error: ObstacleError = "NodesUnavailable" if "NodesUnavailable" in errors else "ServersNotReady"
    arms = f"arm{'s' if len(over) > 1 else ''} {listed(sorted(over))}"
    has = "have" if len(over) > 1 else "has"
    return GaveUp(error=error, message=f"{arms} {has} no pair left to measure: {reasons_of(final)}")


def of_a_quota(refused: Iterable[Obstacle]) -> bool:
    """Whether a namespace's quota refused all of these pods, which may change.

    Kubernetes' words are those of its ResourceQuota admission plugin.
    """
    return all("exceeded quota: " in each.reason for each in refused)


def reasons_of(obstacles: Iterable[Obstacle]) -> str:
    """The distinct reasons of obstacles in one line."""
    reasons = sorted({each.reason for each in obstacles})
    more = [f"and {len(reasons) - _REASONS_SHOWN} more"] if len(reasons) > _REASONS_SHOWN else []
    return "; ".join([*reasons[:_REASONS_SHOWN], *more])
