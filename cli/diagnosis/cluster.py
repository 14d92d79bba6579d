"""Check the cluster: its state and its node groups in EKS, and whether kubectl reaches it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from rackrate_text.launches import failed_launch
from rackrate_text.quotas import divided

from ..errors import unless_missing
from ..reading.stack import Stack
from .check import Check, required

_KUBECTL_SECONDS = 15

# The values of eks:DescribeClusterVersions for a version's support.
_SUPPORT = {
    "STANDARD_SUPPORT": "in standard support",
    "EXTENDED_SUPPORT": "in extended support, which costs more",
    "UNSUPPORTED": "not supported any more",
}


def cluster(stack: Stack) -> Check:
    """Check that the cluster is active and that EKS reports no problem with it."""
    name = required(stack.outputs, "ClusterName")
    state = unless_missing(_described, "ResourceNotFoundException", stack=stack)
    if state is None:
        return Check("cluster", "failed", f"there is no cluster {name}", "deploy the stack again")
    issues = _issues(state)
    finding = f"{name}, Kubernetes {state.get('version', '?')}, {state['status']}{issues}"
    if state["status"] in {"CREATING", "UPDATING"}:
        return Check("cluster", "warning", finding, "wait until it is ACTIVE")
    look_there = "see its health in the EKS console"
    if state["status"] != "ACTIVE":
        return Check("cluster", "failed", finding, look_there)
    if issues:
        return Check("cluster", "warning", finding, look_there)
    return Check("cluster", "ok", finding)


def _described(stack: Stack) -> Mapping[str, Any]:
    name = required(stack.outputs, "ClusterName")
    description: Mapping[str, Any] = stack.client("eks").describe_cluster(name=name)["cluster"]
    return description


def version_support(stack: Stack) -> Check:
    """Check that EKS still supports the cluster's Kubernetes version."""
    name = "Kubernetes version"
    version = _described(stack).get("version")
    versions = stack.client("eks").describe_cluster_versions(clusterVersions=[version])[
        "clusterVersions"
    ]
    if not versions:
        return Check(name, "unknown", f"EKS knows no version {version}")
    support = versions[0]
    # `status` is the older field, with the same values in small letters and hyphens.
    word = (
        str(support.get("versionStatus") or support.get("status") or "").upper().replace("-", "_")
    )
    until = support.get("endOfStandardSupportDate")
    finding = f"{version} is {_SUPPORT.get(word, word.lower() or 'of unknown support')}"
    if word == "STANDARD_SUPPORT":
        return Check(name, "ok", finding + (f" until {until:%F}" if until else ""))
    return Check(
        name,
        "failed" if word == "UNSUPPORTED" else "warning",
        finding,
        "deploy the stack with a newer KubernetesVersion",
    )


def node_groups(stack: Stack) -> Iterator[Check]:
    """Check that each arm has its nodes."""
    if stack.parameters.get("ExistingClusterName"):
        named = ("TreatmentSelector", "BaselineSelector", "LoadNodeSelector")
        selectors = filter(None, (stack.parameters.get(each) for each in named))
        yield Check(
            "node groups", "ok", f"the cluster's own nodes, by the labels {' and '.join(selectors)}"
        )
        return
    nodes = int(stack.parameters.get("NodeCount", "0"))
    counts = {"treatment": nodes}
    if "BaselineNodeGroups" in stack.outputs:
        counts["baseline"] = nodes
    if load := int(stack.parameters.get("LoadNodeCount", "0")):
        counts["load"] = load
    for arm, nodes in counts.items():
        names = required(stack.outputs, f"{arm.capitalize()}NodeGroups").split(",")
        sizes = divided(nodes, len(names))
        for number, (name, size) in enumerate(zip(names, sizes, strict=True), start=1):
            which = f", group {number} of {len(names)}" if len(names) > 1 else ""
            yield _node_group(stack, f"{arm} nodes{which}", name, size)


def _node_group(stack: Stack, title: str, name: str, size: int) -> Check:
    described = unless_missing(
        stack.client("eks").describe_nodegroup,
        "ResourceNotFoundException",
        clusterName=required(stack.outputs, "ClusterName"),
        nodegroupName=name,
    )
    if described is None:
        return Check(title, "failed", f"there is no node group {name}", "deploy the stack again")
    rests = stack.parameters.get("IdleScaleToZero") == "true"
    group = described["nodegroup"]
    check = node_group_check(title, group, size=size, rests=rests)
    return _with_failed_launches(check, group, stack)


def _with_failed_launches(check: Check, described: Mapping[str, Any], stack: Stack) -> Check:
    """Add why launches of a node group fail, which EKS itself reports half an hour later."""
    failures: list[str] = []
    try:
        for group in (described.get("resources") or {}).get("autoScalingGroups", ()):
            response = stack.client("autoscaling").describe_scaling_activities(
                AutoScalingGroupName=group["name"]
            )
            if failure := failed_launch(response["Activities"], check.finding):
                failures.append(failure)
    except (BotoCoreError, ClientError, ResponseParserError) as error:
        note = f"{check.finding}; the activities of its Auto Scaling group were not read ({error})"
        return replace(check, finding=note, state="unknown" if check.state == "ok" else check.state)
    if not failures:
        return check
    remedy = check.remedy or "remove the reason; Auto Scaling tries again"
    return replace(
        check, state="failed", finding="; ".join([check.finding, *failures]), remedy=remedy
    )


def node_group_check(title: str, group: Mapping[str, Any], *, size: int, rests: bool) -> Check:
    """Turn EKS's description of a node group that should have `size` nodes into a finding.

    `rests` says that the node group has no nodes between runs.
    """
    status, issues = group["status"], _issues(group)
    desired = int((group.get("scalingConfig") or {}).get("desiredSize", 0))
    finding = f"{group['nodegroupName']}, {status}, {desired} of {size} nodes wanted now{issues}"
    if status == "UPDATING" and not issues:
        return Check(title, "warning", finding, "wait until it is ACTIVE")
    if status != "ACTIVE" or issues:
        return Check(title, "failed", finding, "see the node group's health in the EKS console")
    if rests and desired == 0:
        return Check(title, "ok", f"{group['nodegroupName']}, ACTIVE, at rest until a run wakes it")
    if desired < size:
        return Check(title, "failed", finding, f"set its desired size to {size}, or deploy again")
    return Check(title, "ok", f"{group['nodegroupName']}, ACTIVE, {desired} nodes")


def _issues(described: Mapping[str, Any]) -> str:
    issues = (described.get("health") or {}).get("issues") or []
    return "".join(f"; {issue.get('code')}: {issue.get('message')}" for issue in issues)


def kubectl(stack: Stack) -> Check:
    """Check that the caller's kubectl reaches the cluster. rackrate itself does not need it."""
    name = "your kubectl"
    advice = f"only if you want to look around: {stack.outputs.get('UpdateKubeconfigCommand', '')}"
    program = shutil.which("kubectl")
    if program is None:
        return Check(name, "ok", "not installed; rackrate does without")
    endpoint = _described(stack).get("endpoint")
    path = "jsonpath={.clusters[0].cluster.server}"
    try:
        server = _kubectl(program, "config", "view", "--minify", "--output", path)
        if server is None or server.rstrip("/").lower() != str(endpoint).rstrip("/").lower():
            elsewhere = "looks at another cluster or none; rackrate does without"
            return Check(name, "ok", elsewhere, advice)
        allowed = _kubectl(program, "auth", "can-i", "list", "nodes", "--request-timeout=10s")
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check(name, "unknown", f"kubectl did not answer ({type(error).__name__})", advice)
    if allowed == "yes":
        return Check(name, "ok", "reaches the cluster and may list its nodes")
    return Check(
        name,
        "warning",
        "does not reach the cluster or may not list its nodes; rackrate does without",
        "make an access entry for yourself if you want to look around",
    )


def _kubectl(program: str, *arguments: str) -> str | None:
    done = subprocess.run(
        [program, *arguments], capture_output=True, text=True, timeout=_KUBECTL_SECONDS, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else None
