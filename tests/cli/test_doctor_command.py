"""`rackrate doctor` prints findings and remedies. A check without permission is `unknown`."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from rackrate_cli.diagnosis.access import access_check
from rackrate_cli.diagnosis.check import Check, look
from rackrate_cli.diagnosis.cluster import node_group_check
from rackrate_cli.diagnosis.quotas import Vcpus, vcpu_check
from rackrate_cli.diagnosis.runs import leftovers_check, runs_check
from rackrate_cli.errors import Refusal
from rackrate_cli.reading.kinds import RUN
from rackrate_cli.reading.runs import Run
from rackrate_cli.reading.stack import Execution, Outcome

from rackrate_text.quotas import STANDARD, quota_code

from .conftest import DeployedStack, Rackrate, Start, client, going_on, machine

NOW = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)


def checks(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {check["check"]: check for check in document["checks"]}


def test_what_is_there_is_ok_and_what_is_not_known_is_unknown_not_a_crash(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    document = rackrate.json("doctor", "--quick")
    findings = checks(document)
    for name in ("Region", "credentials", "stack", "state machine", "table", "bucket"):
        assert findings[name]["state"] == "ok", findings[name]
    assert findings["image"]["state"] == "unknown", "this stack has no output of its image"
    assert stack.executions() == []
    assert document["healthy"] is True


def test_parts_that_are_missing_fail_with_a_remedy_and_exit_code_1(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    client("stepfunctions").delete_state_machine(stateMachineArn=stack.state_machine)
    client("dynamodb").delete_table(TableName=stack.table)
    client("s3").delete_bucket(Bucket=stack.bucket)
    document = rackrate.json("doctor", "--quick", code=1)
    assert document["healthy"] is False
    findings = checks(document)
    for name in ("state machine", "table", "bucket"):
        assert findings[name]["state"] == "failed"
        assert "deploy" in findings[name]["remedy"]


def test_the_table_of_findings_fits_80_columns(stack: DeployedStack, rackrate: Rackrate) -> None:
    shown = rackrate("doctor", "--quick").stdout
    assert "To do: " in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_without_a_stack_the_rest_is_not_looked_at(aws: str, rackrate: Rackrate) -> None:
    findings = checks(rackrate.json("doctor", "--stack", "elsewhere", code=2))
    assert set(findings) == {"Region", "credentials", "stack"}
    assert findings["stack"]["state"] == "failed"
    assert "sam deploy" in findings["stack"]["remedy"]


def test_without_credentials_the_stack_is_not_looked_for(
    no_credentials: None, rackrate: Rackrate
) -> None:
    finding = checks(rackrate.json("doctor", code=2))["credentials"]
    assert finding["state"] == "failed"
    assert "aws configure" in finding["remedy"]


def test_without_a_region_nothing_else_is_looked_at(no_region: None, rackrate: Rackrate) -> None:
    assert set(checks(rackrate.json("doctor", code=2))) == {"Region"}


def test_the_dry_run_shows_which_nodes_the_functions_see(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    arms = [
        {"name": arm, "node_groups": ["g"], "nodes": [1, 2]} for arm in ("treatment", "baseline")
    ]
    plan = {
        "Type": "Task",
        "Resource": "arn:aws:states:::aws-sdk:s3:putObject",
        "Parameters": {
            "Bucket": stack.bucket,
            "Key.$": "States.Format('runs/{}/plan.json', $$.Execution.Name)",
            "Body": json.dumps({"arms": arms, "placeholder_nodes": False}),
        },
        "ResultPath": None,
    }
    stack.define(machine(("Plan", plan), ("Done", stack.recording("dry_run", "planned"))))
    finding = checks(rackrate.json("doctor"))["cluster access"]
    assert finding["state"] == "ok", finding
    assert "2 Ready nodes of the treatment and 2 Ready nodes of the baseline" in finding["found"]
    [execution] = stack.executions()
    assert execution["name"].startswith("doctor-")
    assert stack.input_of(execution) == {"dry_run": True}


def test_ctrl_c_stops_the_dry_run_and_the_findings_are_printed(
    stack: DeployedStack, start: Start
) -> None:
    planned = stack.recording("dry_run", "planned", blocks=6, expected_seconds=200)
    stack.define(machine(("Plan", planned), ("Wait", going_on())))
    process = start("doctor")
    asking = process.until("asking the functions")
    assert "left" not in asking, "nothing will be measured"
    process.send()
    output, _ = process.end(130)
    assert "state machine" in output
    assert stack.executions()[0]["status"] == "ABORTED"


def test_a_dry_run_that_ends_badly_says_why() -> None:
    cause = json.dumps({"errorMessage": "no route to the API server", "errorType": "X"})
    ended = Outcome("doctor-1", Execution("FAILED", "ClusterUnreachable", cause), None, RUN)
    finding = access_check("doctor-1", ended, None, expected="2")
    assert finding.state == "failed"
    assert "ClusterUnreachable: no route to the API server" in finding.finding
    assert "access entries" in finding.remedy


def test_fewer_ready_nodes_than_deployed_are_a_warning() -> None:
    ended = Outcome("doctor-1", Execution("SUCCEEDED", "", ""), None, RUN)
    arms = [{"name": "a", "node_groups": ["g"], "nodes": [1, 2, 3]}]
    assert access_check("d", ended, {"arms": arms}, expected="4").state == "warning"
    assert access_check("d", ended, {"arms": arms}, expected="3").state == "ok"


def test_nodes_at_rest_prove_nothing_about_access() -> None:
    ended = Outcome("doctor-1", Execution("SUCCEEDED", "", ""), None, RUN)
    plan = {"arms": [], "placeholder_nodes": True}
    assert access_check("d", ended, plan, expected="2").state == "unknown"


def test_a_call_that_is_not_allowed_is_unknown_with_the_actions_name() -> None:
    message = "User: arn:aws:iam::1:user/u is not authorized to perform: eks:DescribeCluster on x"
    for code, text, action in (
        ("AccessDeniedException", message, "eks:DescribeCluster"),
        ("UnauthorizedOperation", "You are not authorized.", "DescribeInstances"),
    ):
        error = ClientError({"Error": {"Code": code, "Message": text}}, "DescribeInstances")

        def refused(error: ClientError = error) -> Check:
            raise error

        [finding] = look("cluster", refused)
        assert finding.state == "unknown"
        assert f"may not call {action}" in finding.finding
        assert finding.remedy == "allow it, or use a role that may"


def test_what_only_aws_can_explain_is_unknown_and_short() -> None:
    error = ClientError({"Error": {"Code": "500", "Message": "<html> " * 500}}, "DescribeTable")

    def broken() -> Check:
        raise error

    [finding] = look("table", broken)
    assert finding.state == "unknown"
    assert len(finding.finding) <= 160
    assert "DescribeTable" in finding.finding


def test_a_refusal_is_split_into_what_and_what_to_do() -> None:
    def refused() -> Check:
        raise Refusal("There is no stack; deploy it.")

    assert look("stack", refused) == [Check("stack", "failed", "There is no stack", "deploy it")]


@pytest.mark.parametrize(
    ("instance_type", "code"),
    [
        ("c5.large", STANDARD),
        ("im4gn.large", STANDARD),
        ("m7i-flex.large", STANDARD),
        ("inf2.xlarge", "L-1945791B"),
        ("g5.xlarge", "L-DB2E81BA"),
        ("gr6.4xlarge", "L-DB2E81BA"),
        ("vt1.3xlarge", "L-DB2E81BA"),
        ("p4d.24xlarge", "L-417A185B"),
        ("hpc6a.48xlarge", "L-F7808C92"),
        ("trn1.2xlarge", "L-2C3B7624"),
        ("t3.micro", STANDARD),
        ("dl1.24xlarge", "L-6E869C2A"),
        ("d3.xlarge", STANDARD),
        ("f1.2xlarge", "L-74FC7D96"),
        ("x2iedn.xlarge", "L-7295265B"),
        ("u-6tb1.metal", "L-43DA4232"),
    ],
)
def test_the_quota_is_the_one_that_counts_the_family(instance_type: str, code: str) -> None:
    assert quota_code(instance_type) == code


def test_nodes_that_run_already_are_not_counted_twice() -> None:
    up = Vcpus(quota=8, in_use=8, of_nodes=8, needed=8)
    asleep = Vcpus(quota=8, in_use=0, of_nodes=0, needed=8)
    crowded = Vcpus(quota=8, in_use=4, of_nodes=0, needed=8)
    assert vcpu_check(up).state == "ok"
    assert vcpu_check(asleep).state == "ok"
    finding = vcpu_check(crowded)
    assert finding.state == "failed"
    assert STANDARD in finding.remedy


def node_group(**fields: Any) -> dict[str, Any]:
    return {
        "nodegroupName": "g",
        "status": "ACTIVE",
        "scalingConfig": {"desiredSize": 2},
        "health": {"issues": []},
        **fields,
    }


@pytest.mark.parametrize(
    ("fields", "rests", "state"),
    [
        ({}, False, "ok"),
        ({"scalingConfig": {"desiredSize": 0}}, True, "ok"),
        ({"scalingConfig": {"desiredSize": 0}}, False, "failed"),
        ({"status": "UPDATING"}, False, "warning"),
        ({"status": "DEGRADED"}, False, "failed"),
        ({"health": {"issues": [{"code": "AsgLaunch", "message": "none left"}]}}, False, "failed"),
    ],
)
def test_a_node_group_is_judged_by_status_issues_and_size(
    fields: dict[str, Any], rests: bool, state: str
) -> None:
    finding = node_group_check("treatment nodes", node_group(**fields), size=2, rests=rests)
    assert finding.state == state
    assert (finding.remedy == "") == (state == "ok")
    if "health" in fields:
        assert "AsgLaunch: none left" in finding.finding


def run(run_id: str, status: str, ago_seconds: float = 100, **fields: Any) -> Run:
    started = (NOW - timedelta(seconds=ago_seconds)).isoformat().replace("+00:00", "Z")
    return Run.from_item({"pk": f"run#{run_id}", "status": status, "started_at": started, **fields})


def test_the_last_run_decides_and_dry_runs_are_passed_over() -> None:
    failed = run("bad", "failed", error="TrialsLost")
    assert runs_check([], NOW).state == "ok"
    assert runs_check([run("d", "dry_run"), run("r", "succeeded"), failed], NOW).state == "ok"
    finding = runs_check([run("d", "dry_run"), failed, run("r", "succeeded")], NOW)
    assert finding.state == "warning"
    assert "bad, failed (TrialsLost)" in finding.finding
    assert "`rackrate show bad`" in finding.remedy


def test_a_run_that_should_have_ended_is_named() -> None:
    late = run("late", "running", ago_seconds=2 * 600 + 1800 + 1, expected_seconds=600)
    busy = run("busy", "running", ago_seconds=2 * 600 + 1800 - 1, expected_seconds=600)
    assert "1 going on" in runs_check([busy], NOW).finding
    finding = runs_check([busy, late], NOW)
    assert finding.state == "warning"
    assert finding.finding.endswith(": late")


def test_leftovers_are_named_with_what_to_do() -> None:
    assert leftovers_check([], []).state == "ok"
    finding = leftovers_check(["old-table"], ["i-1"])
    assert finding.state == "warning"
    assert "old-table" in finding.finding
    assert "i-1" in finding.finding
