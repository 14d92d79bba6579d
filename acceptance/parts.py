"""The parts of the acceptance in their order: what a person does with the stack, and checks."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from botocore.exceptions import ClientError
from rackrate_cli.errors import Refusal

from acceptance.script import REPOSITORY, Script
from rackrate.measure.releases import Images, releases
from rackrate_text.words import listed

#: Each kind of update of docs/updates.yaml by a parameter whose entry needs no other one.
UPDATES = {
    "kept": "LogRetentionDays",
    "refused": "VpcCidr",
    "replaced": "TreatmentStrategy",
    "nodes": "VolumeSize",
}
#: The checks of the doctor that settle an assumption of docs/aws-checks.md.
DOCTOR = {
    "instance type": "the-bandwidth-of-the-instance-type",
    "vCPU quota": "quotas-of-the-account",
    "prices": "prices",
    "image": "the-image-of-the-tools",
}
#: What AWS still lists an hour after its end, and the log group that stays by design.
_STAYS = re.compile(r":(instance|natgateway)/|:log-group:/aws/eks/")
SHORT_PLAN: Mapping[str, Any] = {
    "tests": [
        {"name": "tcp-1", "seconds": 1},
        {"name": "tcp-8", "seconds": 1},
        {"name": "rtt", "count": 5, "interval_seconds": 0.2},
    ],
    "blocks": 1,
    "warm_up": False,
}


@dataclass(frozen=True)
class Part:
    """`minutes` are an estimate for AWS; `is_short` says whether a short acceptance has it."""

    do: Callable[[Script], None]
    minutes: int
    is_short: bool = True


def refusal(script: Script) -> None:
    """A deployment whose parameters cannot be met: the reason is what `sam deploy` prints."""
    zone = f"{script.session.region_name}z"
    done = script.deploy(**script.parameters, AvailabilityZone=zone)
    printed = " ".join((done.stdout + done.stderr).split())
    script.check(
        "sam deploy names the parameter that cannot be met",
        done.returncode != 0 and "AvailabilityZone" in printed,
        printed[-300:],
        settles="the-reason-of-a-failure",
    )
    script.rackrate("down", "--yes", minutes=20)
    script.check("the stack that failed can be deleted", script.described() is None)


def deploy(script: Script) -> None:
    """`sam deploy`, as the page on AWS says."""
    script.must_deploy(**script.parameters)
    status = (script.described() or {}).get("StackStatus", "")
    script.check(
        "the stack is complete",
        status in ("CREATE_COMPLETE", "UPDATE_COMPLETE"),
        status,
        settles=("the-account-of-a-role", "access-entries-of-new-roles", "lake-formation"),
    )
    warnings = script.outputs().get("PreflightWarnings", "none")
    script.check("Preflight warns of nothing", warnings == "none", warnings, settles="a-new-role")


def run(script: Script) -> None:
    """A run as the console starts one; then what the command reports of it."""
    states, run_id = script.client("stepfunctions"), "acceptance-run"
    arn = states.start_execution(
        stateMachineArn=script.outputs()["StateMachineArn"],
        name=run_id,
        input=json.dumps(SHORT_PLAN),
    )["executionArn"]
    ended = script.wait(lambda: _ended(script, arn), "the run's end", minutes=30)
    script.check("the execution succeeded", ended["status"] == "SUCCEEDED", ended.get("cause", ""))
    check_run(script, script.rackrate("show", run_id))
    report = script.rackrate("report", run_id, "--out", str(script.directory / "results"))
    script.check("the report is there", str(report["path"]).endswith(".html"), report["path"])
    _check_places(script)


def check_run(script: Script, shown: Mapping[str, Any]) -> None:
    """What every run must have: all trials, a word for each test, and rows in every arm."""
    record, results = shown["run"], shown["results"]
    script.check("the run succeeded", record["status"] == "succeeded", record["cause"] or "")
    trials = results["trials"]
    script.check(
        "every trial is measured",
        trials["failed"] == 0 < trials["measured"] == trials["planned"],
        json.dumps(trials),
    )
    planned = {test["name"] for test in results["plan"]["tests"]}
    judged = {verdict["test"] for verdict in results["verdicts"] if verdict["verdict"]}
    script.check("every test has a verdict", planned == judged, f"{planned} {judged}")


def _check_places(script: Script) -> None:
    instances = script.instances().values()
    groups = [bool(one["Placement"].get("GroupName")) for one in instances]
    zones = {one["Placement"]["AvailabilityZone"] for one in instances}
    script.check(
        "half of the nodes are in the placement group, and all in one zone",
        groups.count(True) == groups.count(False) > 0 and len(zones) == 1,
        f"{groups.count(True)} of {len(groups)}, {sorted(zones)}",
        settles="the-nodes-places",
    )


def doctor(script: Script) -> None:
    """All checks of the doctor, which settle what is assumed of the account and the Region."""
    for check in script.rackrate("doctor")["checks"]:
        name = check["check"]
        script.check(
            f"doctor: {name}",
            check["state"] != "failed",
            f"{check['state']}: {check['found']}",
            settles=DOCTOR.get(name, ()) if check["state"] == "ok" else (),
        )


def stop(script: Script) -> None:
    """A run that is stopped while it measures, and goes on after a redrive."""
    states, run_id = script.client("stepfunctions"), "acceptance-stopped"
    arn = states.start_execution(
        stateMachineArn=script.outputs()["StateMachineArn"],
        name=run_id,
        input=json.dumps({**SHORT_PLAN, "blocks": 4}),
    )["executionArn"]
    record = script.wait(lambda: _record(script, run_id, _measures), "the first block", minutes=15)
    states.stop_execution(executionArn=arn)
    record = script.wait(
        lambda: _record(script, run_id, lambda r: r["status"] not in ("running", "aborting")),
        "the record of the stopped run",
        minutes=70,
    )
    script.check(
        "the event of its end reached the stack",
        record["status"] == "aborted",
        record["status"],
        settles="the-event-of-a-runs-end",
    )
    check_run(script, script.rackrate("run", "--continue", run_id, *_of_plan(script)[2:]))


def _measures(record: Mapping[str, Any]) -> bool:
    if record["status"] not in ("planned", "running"):
        raise Refusal(f"the run was {record['status']} before it was stopped")
    return bool(record["block"])


def _record(
    script: Script, run_id: str, accepts: Callable[[Mapping[str, Any]], bool]
) -> Mapping[str, Any] | None:
    listed = script.rackrate("list")["runs"]
    return next((r for r in listed if r["id"] == run_id and accepts(r)), None)


def draws(script: Script) -> None:
    """A campaign of two draws, on new nodes each."""
    before = set(script.instances())
    shown = _campaign(script, "acceptance-draws", "--draws", "2", "--budget", "20")
    steps = shown["results"]["steps"]
    nodes = [frozenset(n for arm in step["nodes"].values() for n in arm) for step in steps]
    script.check(
        "each draw had nodes of its own",
        len(nodes) == 2 and not nodes[0] & nodes[1] and not before & set(script.instances()),
        [sorted(each) for each in nodes],
        settles="the-time-of-a-drain",
    )


def _campaign(script: Script, name: str, *options: str) -> dict[str, Any]:
    shown = script.rackrate(
        *("campaign", "run", "--name", name, *_of_plan(script), *options), minutes=180
    )
    campaign = shown["campaign"]
    script.check(
        f"{name} succeeded and put back what it changed",
        campaign["status"] == "succeeded" and not campaign["must_put_back"],
        campaign["cause"] or campaign["conclusion"],
    )
    return shown


def sweep_nodes(script: Script) -> None:
    """A sweep over numbers of nodes."""
    _sweep(script, "nodes", ("2", "3"))


def sweep_kube_proxy(script: Script) -> None:
    """A sweep over modes of kube-proxy."""
    _sweep(script, "kube_proxy", ("iptables", "nftables"))


def sweep_vpc_cni(script: Script) -> None:
    """A sweep over the two newest versions of the VPC CNI."""
    response = script.client("eks").describe_addon_versions(
        addonName="vpc-cni", kubernetesVersion=_kubernetes(script)
    )
    versions = [each["addonVersion"] for each in response["addons"][0]["addonVersions"]]
    _sweep(script, "vpc_cni", versions[1::-1])


def sweep_ami_release(script: Script) -> None:
    """A sweep over the two newest releases of the nodes' image."""
    images = Images("AL2023_x86_64_STANDARD", _kubernetes(script))
    _sweep(script, "ami_release", releases(script.client("ec2"), images)[1::-1], "an-earlier-image")


def sweep_instance_type(script: Script) -> None:
    """A sweep over two sizes; then an update that must find the stack as it was."""
    size = script.parameters.get("InstanceType", "c5.large")
    family = size.partition(".")[0]
    other = f"{family}.2xlarge" if size.endswith(".xlarge") else f"{family}.xlarge"
    _sweep(script, "instance_type", (size, other), "another-instance-type")
    before = set(script.instances())
    script.must_deploy()
    script.check("the next sam deploy changes no node", before == set(script.instances()))


def _sweep(
    script: Script, kind: str, values: Iterable[str], settles: str | tuple[str, ...] = ()
) -> None:
    values = list(values)
    if len(values) < 2:
        raise Refusal(f"there is only one value of {kind}: {values}")
    name = f"acceptance-{kind.replace('_', '-')}"
    sweep = ("--sweep", f"{kind}={','.join(values)}", "--runs-per-step", "1", "--budget", "20")
    steps = _campaign(script, name, *sweep)["results"]["steps"]
    measured = [str(step["value"]) for step in steps if step["status"] == "succeeded"]
    script.check(
        f"each value of {kind} was measured", measured == values, measured, settles=settles
    )


def updates(script: Script) -> None:
    """One update of each class of docs/updates.yaml."""
    documented = yaml.safe_load((REPOSITORY / "docs" / "updates.yaml").read_text("utf-8"))
    for outcome, parameter in UPDATES.items():
        entry = next(e for e in documented[parameter] if e["outcome"] == outcome)
        before, resources = set(script.instances()), _resources(script)
        done = script.deploy(**{parameter: str(entry["to"])})
        status = (script.described() or {}).get("StackStatus", "gone")
        if outcome == "refused":
            script.check(
                f"{parameter} is refused, and the stack stays as it was",
                done.returncode != 0 and status == "UPDATE_ROLLBACK_COMPLETE",
                status,
                settles="a-refused-update",
            )
        else:
            script.check(
                f"the update of {parameter} is complete", status == "UPDATE_COMPLETE", status
            )
        replaced = {
            k for k, v in _resources(script).items() if k in resources and resources[k] != v
        }
        script.check(
            f"{parameter}: the documented resources are replaced, and no others",
            replaced == {path for path in entry.get("replaces") or () if "/" not in path},
            sorted(replaced),
        )
        stayed, arms = before & set(script.instances()), entry.get("nodes") or ()
        script.check(
            f"{parameter}: the nodes of {listed(arms) or 'no arm'} are replaced",
            len(stayed) == len(before) * (2 - len(arms)) // 2,
            f"{len(stayed)} of {len(before)} stayed",
        )


def _resources(script: Script) -> dict[str, str]:
    """The physical ids of the root's own resources; those of nested stacks are the rest."""
    pages = script.client("cloudformation").get_paginator("list_stack_resources")
    listed = pages.paginate(StackName=script.stack).build_full_result()["StackResourceSummaries"]
    return {each["LogicalResourceId"]: each.get("PhysicalResourceId", "") for each in listed}


def launch(script: Script) -> None:
    """Nodes that cannot be launched: their placement group is missing when a run asks for them."""
    group, tags = _group(script), [{"Key": "rackrate:stack", "Value": script.stack}]
    script.client("ec2").create_placement_group(
        GroupName=group,
        Strategy="cluster",
        TagSpecifications=[{"ResourceType": "placement-group", "Tags": tags}],
    )
    script.must_deploy(
        TreatmentStrategy="cluster", ExistingPlacementGroup=group, IdleScaleToZero="true"
    )
    script.rackrate("run", "--name", "acceptance-rest", *_of_plan(script))
    script.wait(lambda: _group_is_deleted(script), "the group's last node", minutes=20)
    shown = script.rackrate("run", "--name", "acceptance-launch", *_of_plan(script), code=1)
    cause = f"{shown['run']['cause']} {shown['error']}"
    script.check("the run reports why its nodes did not come", group in cause, cause)


def _group(script: Script) -> str:
    return f"{script.stack}-launch"


def _group_is_deleted(script: Script) -> bool | None:
    """Delete the placement group that `launch` made, if any. None while an instance is in it."""
    ec2, name = script.client("ec2"), _group(script)
    by = {"group-name": name, "tag:rackrate:stack": script.stack}
    filters = [{"Name": key, "Values": [value]} for key, value in by.items()]
    if not ec2.describe_placement_groups(Filters=filters)["PlacementGroups"]:
        return True
    try:
        ec2.delete_placement_group(GroupName=name)
    except ClientError as error:
        if error.response["Error"]["Code"] != "InvalidPlacementGroup.InUse":
            raise
        return None
    return True


def delete(script: Script) -> None:
    """`rackrate down`, and what is left afterwards."""
    began = time.time()
    outputs = {}
    if script.described() is not None:
        outputs = script.outputs()
        # `sam delete` reads the addresses of nested templates, and no endpoint's but AWS's own.
        script.rackrate("down", "--yes", minutes=90)
    script.check("the stack is gone", script.described() is None, f"{time.time() - began:.0f} s")
    script.wait(lambda: _group_is_deleted(script), "the group's last node", minutes=20)
    left = [arn for arn in script.left_over() if not _STAYS.search(arn)]
    script.check("nothing with the stack's tag is left", not left, left)
    prefix = f"/aws/eks/{outputs.get('ClusterName', script.stack)}"
    listed = script.client("logs").describe_log_groups(logGroupNamePrefix=prefix)["logGroups"]
    groups = {group["logGroupName"]: group.get("retentionInDays") for group in listed}
    script.check(
        "the control plane's log group has its retention",
        None not in groups.values(),
        groups,
        settles="the-log-group-of-the-control-plane",
    )


def _ended(script: Script, arn: str) -> dict[str, Any] | None:
    response = script.client("stepfunctions").describe_execution(executionArn=arn)
    return None if response["status"] in ("RUNNING", "PENDING_REDRIVE") else dict(response)


def _kubernetes(script: Script) -> str:
    name = script.outputs()["ClusterName"]
    return str(script.client("eks").describe_cluster(name=name)["cluster"]["version"])


def _of_plan(script: Script) -> tuple[str, ...]:
    """The options of a run or a campaign: the short plan, and where its results go."""
    plan = script.directory / "plan.json"
    plan.write_text(json.dumps(SHORT_PLAN), encoding="utf-8")
    return "--plan", str(plan), "--out", str(script.directory / "results")


#: Minutes are those of docs/start-aws.md, docs/campaigns/ and EKS's user guide, rounded up.
PARTS: dict[str, Part] = {
    "refusal": Part(refusal, 5),
    "deploy": Part(deploy, 25),
    "run": Part(run, 6),
    "doctor": Part(doctor, 2),
    "stop": Part(stop, 10),
    "draws": Part(draws, 35),
    "sweep_nodes": Part(sweep_nodes, 30),
    "sweep_kube_proxy": Part(sweep_kube_proxy, 20, is_short=False),
    "sweep_vpc_cni": Part(sweep_vpc_cni, 20, is_short=False),
    "sweep_ami_release": Part(sweep_ami_release, 50, is_short=False),
    "sweep_instance_type": Part(sweep_instance_type, 55, is_short=False),
    "updates": Part(updates, 45),
    "launch": Part(launch, 60),
    "delete": Part(delete, 25),
}
