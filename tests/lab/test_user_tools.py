"""What the README promises of a lab that is kept: kubectl, aws and the Lambda API just work."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from lab import control_groups, daemon
from lab.errors import LabError
from lab.up import bring_up
from tests.lab.machine import descendants, environment, lab_processes, process_1
from tests.lab.running import SHORT, Lab
from tests.lab.waiting import eventually


def function(lab: Lab, name: str) -> Any:
    """One of the stack's functions."""
    functions = lab.aws("lambda").list_functions()["Functions"]
    return next(f for f in functions if f"-{name}-" in f["FunctionName"])


def test_kubectl_lists_the_nodes_of_the_placement_group(lab: Lab) -> None:
    done = lab.command("kubectl", "get", "nodes", "-l", "placementGroup=true", "--no-headers")
    rows = [line.split() for line in done.stdout.splitlines()]
    assert len(rows) == 2
    assert all(row[1] == "Ready" for row in rows)
    assert sorted(row[0] for row in rows) == lab.nodes(placement_group=True)
    assert len(lab.nodes(placement_group=False)) == 2


def test_a_run_can_be_started_and_read_with_the_aws_command_alone(lab: Lab) -> None:
    started = lab.command(
        *("aws", "stepfunctions", "start-execution", "--name", "by-hand"),
        *("--state-machine-arn", lab.outputs["StateMachineArn"]),
        *("--input", json.dumps({"tests": SHORT["tests"], "blocks": 1})),
    )
    assert json.loads(started.stdout)["executionArn"].endswith(":by-hand")
    execution = lab.ended("by-hand")
    assert execution["status"] == "SUCCEEDED", execution
    record = lab.record("by-hand")
    assert (record["blocks"], record["trials_planned"]) == (1, 4)
    scanned = lab.command("aws", "dynamodb", "scan", "--table-name", lab.outputs["TableName"])
    keys = {(i["pk"]["S"], i["sk"]["S"]) for i in json.loads(scanned.stdout)["Items"]}
    assert ("run#by-hand", "run") in keys
    trials = [sk for pk, sk in keys if pk == "run#by-hand" and sk.startswith("trial#")]
    assert sorted(sk.split("#")[1] for sk in trials) == ["0000"] * 2 + ["0001"] * 4
    listed = lab.command("aws", "s3", "ls", f"s3://{lab.outputs['BucketName']}/runs/by-hand/")
    assert "report.html" in listed.stdout


def test_a_function_that_is_invoked_with_rubbish_answers_in_lambdas_form_and_logs(
    lab: Lab,
) -> None:
    plan = function(lab, "PlanFunction")
    payload, response = lab.directory / "payload.json", lab.directory / "answer.json"
    payload.write_text('{"rubbish": true}', encoding="utf-8")
    began = int(time.time() * 1000)
    done = lab.command(
        *("aws", "lambda", "invoke", "--function-name", plan["FunctionName"]),
        *("--payload", f"fileb://{payload}"),
        str(response),
    )
    assert json.loads(done.stdout)["FunctionError"] == "Unhandled"
    error = json.loads(response.read_text("utf-8"))
    assert set(error) >= {"errorType", "errorMessage", "stackTrace", "requestId"}
    assert error["errorType"] == "KeyError"
    group = plan["LoggingConfig"]["LogGroup"]

    def logged() -> list[str]:
        pages = (
            lab.aws("logs")
            .get_paginator("filter_log_events")
            .paginate(logGroupName=group, startTime=began)
        )
        return [event["message"] for page in pages for event in page["events"]]

    request = error["requestId"]
    for begins in ("START RequestId", "END RequestId", "REPORT RequestId"):
        eventually(
            lambda begins=begins: [  # type: ignore[misc]
                line for line in logged() if line.startswith(f"{begins}: {request}")
            ],
            seconds=10,
        )
    assert any("KeyError" in line for line in logged())


def test_a_second_lab_is_refused_in_one_sentence_while_one_is_up(lab: Lab) -> None:
    with pytest.raises(LabError) as refusal:
        bring_up(lambda step: None, tied=True)
    message = str(refusal.value)
    assert message.startswith("A lab is already up")
    assert "make lab-down" in message
    assert "\n" not in message
    assert lab.aws("sts").get_caller_identity()["Account"] == "123456789012", "the first runs on"


def test_lab_env_prints_what_reaches_the_lab(lab: Lab) -> None:
    python = lab.environment["PATH"].split(":")[1] + "/python"
    exported = lab.command(python, "-m", "lab", "env").stdout.splitlines()
    assert f"export KUBECONFIG={lab.status['kubeconfig']}" in exported
    assert f"export AWS_ENDPOINT_URL={lab.status['endpoint_url']}" in exported


def test_programs_of_the_lab_put_their_temporary_files_where_they_go_with_it(lab: Lab) -> None:
    """What is killed cleans up nothing; containers have a file system of their own."""
    inside = process_1()
    services = {pid for pid, _ in lab_processes() if pid != inside and in_part(pid, "services")}
    environments = {pid: variables for pid in services if (variables := environment(pid))}
    assert len(environments) > 10
    elsewhere = {
        pid: variables
        for pid, variables in environments.items()
        if not variables.get("TMPDIR", "").startswith(str(daemon.state_directory()))
    }
    assert elsewhere == {}


def test_every_process_is_in_the_labs_control_groups_which_go_with_it(lab: Lab) -> None:
    """They tell the lab's memory too."""
    of_pods = {pid for pid, _ in lab_processes() if in_part(pid, "pods")}
    assert len(of_pods) > 10, "each node has pods of add-ons"

    def elsewhere() -> set[int]:
        return descendants(process_1()) - {pid for pid, _ in lab_processes()}

    # One that ended meanwhile is in no group.
    eventually(lambda: not elsewhere(), seconds=10)


def in_part(pid: int, part: str) -> bool:
    """Is a process in this part of the lab's control groups? One that has ended is in none."""
    try:
        return f"/{control_groups.name()}/{part}" in Path("/proc", str(pid), "cgroup").read_text()
    except OSError:
        return False
