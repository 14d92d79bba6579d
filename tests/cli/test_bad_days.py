"""Errors of the environment, such as missing credentials: one sentence and exit code 2."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from boto3.exceptions import S3UploadFailedError
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    EndpointConnectionError,
    LoginRefreshRequired,
    SSOTokenLoadError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)
from rackrate_cli.errors import explain
from rackrate_cli.following.watch import Interruption

from .conftest import DeployedStack, Rackrate, Start, client, machine, results


def test_a_missing_stack_is_named_with_its_region(aws: str, rackrate: Rackrate) -> None:
    message = rackrate.refused("list", "--stack", "elsewhere")
    assert '"elsewhere" in us-east-1' in message
    assert "--stack" in message


def test_another_kind_of_stack_is_not_taken_for_ours(aws: str, rackrate: Rackrate) -> None:
    client("cloudformation").create_stack(
        StackName="other",
        TemplateBody=json.dumps({"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}),
    )
    assert "not a rackrate stack" in rackrate.refused("list", "--stack", "other")


def test_missing_credentials_are_reported(no_credentials: None, rackrate: Rackrate) -> None:
    assert "No AWS credentials" in rackrate.refused("list")


def test_a_missing_region_is_reported(no_region: None, rackrate: Rackrate) -> None:
    assert "No AWS Region" in rackrate.refused("list")


def test_an_empty_region_is_reported_by_the_variable_s_name(
    no_region: None, rackrate: Rackrate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "")
    message = rackrate.refused("list")
    assert "AWS_REGION is set and empty" in message and "export AWS_REGION=" in message
    assert "AWS_ENDPOINT_URL" not in message
    # The other variable names a Region, as other tools that take an empty one for none see it.
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    assert "in eu-west-1" in rackrate.refused("list", "--stack", "elsewhere")


@pytest.mark.parametrize("variable", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_either_variable_names_the_region(
    variable: str, no_region: None, rackrate: Rackrate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "eu-west-1")
    assert "in eu-west-1" in rackrate.refused("list", "--stack", "elsewhere")


def test_an_unknown_profile_is_reported(
    aws: str, rackrate: Rackrate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    assert "nobody" in rackrate.refused("list")


def test_an_endpoint_that_does_not_answer_is_named(
    aws: str, rackrate: Rackrate, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    result = rackrate("list", code=3)
    assert f"127.0.0.1:{port}" in result.stderr


@pytest.mark.parametrize("arguments", [("list",), ("up",), ("down",), ("doctor",), ("run",)])
def test_an_endpoint_that_is_no_address_is_named(
    arguments: tuple[str, ...], aws: str, rackrate: Rackrate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "nonsense")
    result = rackrate(*arguments, code=2)
    assert "AWS_ENDPOINT_URL" in result.output
    assert "Traceback" not in result.output


def test_the_endpoint_of_one_service_that_is_no_address_is_named(
    stack: DeployedStack, rackrate: Rackrate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "nonsense")
    assert "AWS_ENDPOINT_URL" in rackrate.refused("list")


@pytest.mark.parametrize(
    "program",
    [
        "echo nonsense",
        "echo []",
        "echo {}",
        """echo '{"Version": 1, "AccessKeyId": "a"}'""",
        """echo '{"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "b", "Expiration": "x"}'""",
        "/no/such/program",
        "false",
        "printf '\\377'",
        "echo 'unbalanced",
    ],
)
@pytest.mark.parametrize("command", ["list", "down"])
def test_a_program_that_prints_no_credentials_is_reported(
    command: str,
    program: str,
    no_credentials: None,
    rackrate: Rackrate,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    configuration = tmp_path / "config"
    configuration.write_text(f"[profile mine]\ncredential_process = {program}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(configuration))
    monkeypatch.setenv("AWS_PROFILE", "mine")
    assert "credentials cannot be used" in rackrate.refused(command)


@pytest.mark.parametrize(
    "error",
    [
        UnauthorizedSSOTokenError(),
        SSOTokenLoadError(error_msg="Token for https://start.example does not exist"),
        TokenRetrievalError(provider="sso", error_msg="Token has expired and refresh failed"),
    ],
)
def test_an_expired_session_of_sso_is_renewed_with_its_own_command(
    error: BotoCoreError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "work")
    refusal = explain(error)
    assert "`aws sso login --profile work`" in str(refusal)
    assert refusal.exit_code == 2


def test_an_expired_session_of_aws_login_is_renewed_with_its_own_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    assert "`aws login`" in str(explain(LoginRefreshRequired()))


@pytest.mark.parametrize(
    ("region", "near"), [("eu-cental-1", "eu-central-1"), ("cn-nort-1", "cn-north-1")]
)
def test_a_region_that_does_not_exist_is_named_with_one_that_does(region: str, near: str) -> None:
    suffix = ".cn" if region.startswith("cn") else ""
    url = f"https://cloudformation.{region}.amazonaws.com{suffix}/"
    refusal = explain(EndpointConnectionError(endpoint_url=url))
    assert f"did you mean {near}?" in str(refusal)
    assert "AWS_REGION" in str(refusal) and "AWS_ENDPOINT_URL" not in str(refusal)
    assert refusal.exit_code == 2


def test_a_region_that_exists_is_not_blamed_for_the_network() -> None:
    url = "https://cloudformation.eu-central-1.amazonaws.com/"
    refusal = explain(EndpointConnectionError(endpoint_url=url))
    assert "network" in str(refusal) and "Region" not in str(refusal)
    assert "AWS_ENDPOINT_URL" not in str(refusal)
    assert refusal.exit_code == 3


def test_a_region_that_cannot_be_one_is_named(
    aws: str, rackrate: Rackrate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu central 1")
    message = rackrate.refused("list")
    assert '"eu central 1"' in message and "did you mean eu-central-1?" in message


def test_an_upload_that_fails_is_explained_by_its_call() -> None:
    response = {"Error": {"Code": "AccessDenied", "Message": "no"}}
    try:
        try:
            raise ClientError(response, "PutObject")  # type: ignore[arg-type]
        except ClientError as error:
            raise S3UploadFailedError("Failed to upload") from error
    except S3UploadFailedError as error:
        assert "may not call PutObject" in str(explain(error))


def test_a_fault_of_the_command_itself_is_no_failed_requirement_and_hides_nothing(
    stack: DeployedStack, rackrate: Rackrate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rackrate_cli.reading.stack.Stack.records", lambda *_: 1 / 0)
    result = rackrate("list", code=3)
    assert "Traceback" in result.stderr and "ZeroDivisionError" in result.stderr.splitlines()[-1]


@pytest.mark.parametrize("started_at", ["yesterday", "2026-11-21T07:05:12"])
def test_the_watching_goes_on_when_a_record_has_no_time_of_its_start(
    started_at: str, stack: DeployedStack, start: Start
) -> None:
    stack.define(
        machine(("Wait", stack.until_let()), ("Done", stack.recording("succeeded", "done")))
    )
    stack.put("r1", "results.json", results("r1"))
    client("stepfunctions").start_execution(
        stateMachineArn=stack.state_machine, name="r1", input="{}"
    )
    stack.record("r1", status="running", phase="measuring", started_at=started_at)
    process = start("watch", "r1")
    process.until("measuring")
    stack.let()
    process.end()


@pytest.mark.parametrize("figure", ["1e999", "-1e999", "NaN", "Infinity"])
def test_a_figure_that_json_lacks_is_null_for_programs(
    figure: str, stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.record("r1", status="succeeded", trials_measured=36)
    content = results("r1", more={"figure": "FIGURE"}).replace(b'"FIGURE"', figure.encode())
    stack.put("r1", "results.json", content)
    stack.put("r1", "plan.json", b'{"plan": {"figure": ' + figure.encode() + b"}}")
    shown = rackrate("show", "r1", "--json")
    assert json.loads(shown.stdout)["results"]["more"] == {"figure": None}
    planned = rackrate("plan", "r1")
    assert json.loads(planned.stdout) == {"figure": None}


def test_an_unknown_option_is_a_usage_error(rackrate: Rackrate) -> None:
    result = rackrate("run", "--plam", "x", code=2)
    assert "--plam" in result.stderr


def test_the_environment_of_the_test_names_no_account_of_its_own(aws: str) -> None:
    # A check of the tests themselves: no forgotten variable may send them to AWS.
    assert os.environ["AWS_ENDPOINT_URL"].startswith("http://127.0.0.1:")
    assert "AWS_PROFILE" not in os.environ


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("RequestTimeTooSkewed", "The difference between the request time and now is too large."),
        ("InvalidSignatureException", "Signature expired: 20261123T0700Z is now earlier than ..."),
        ("SignatureDoesNotMatch", "Signature not yet current: 20261123T0900Z is still later ..."),
    ],
)
@pytest.mark.parametrize(
    ("hours", "direction"),
    [(-2, "ahead of AWS's"), (2, "behind AWS's")],
)
def test_a_wrong_clock_is_reported_with_how_far_it_is_off(
    code: str, message: str, hours: int, direction: str
) -> None:
    theirs = datetime.now(UTC) + timedelta(hours=hours, seconds=30 * hours)
    response = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPHeaders": {"date": format_datetime(theirs, usegmt=True)}},
    }
    refusal = explain(ClientError(response, "ListExecutions"))  # type: ignore[arg-type]
    assert re.search(rf"clock is 2 h 0[01] min {direction}", str(refusal))
    assert refusal.exit_code == 2


@pytest.mark.parametrize("headers", [{}, {"date": "yesterday"}])
def test_a_wrong_clock_is_reported_where_the_service_sends_no_time(headers: dict[str, str]) -> None:
    response = {
        "Error": {"Code": "RequestTimeTooSkewed", "Message": "too large"},
        "ResponseMetadata": {"HTTPHeaders": headers},
    }
    refusal = explain(ClientError(response, "GetObject"))  # type: ignore[arg-type]
    assert "This machine's clock is wrong" in str(refusal)


def test_a_clock_that_agrees_with_the_services_is_not_called_wrong() -> None:
    answer = {
        "Error": {"Code": "RequestTimeTooSkewed", "Message": "too large"},
        "ResponseMetadata": {
            "HTTPHeaders": {"date": format_datetime(datetime.now(UTC), usegmt=True)}
        },
    }
    refusal = explain(ClientError(answer, "GetObject"))  # type: ignore[arg-type]
    assert "This machine's clock was wrong" in str(refusal)


def test_a_terminal_that_closes_does_not_stop_a_run_under_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interruption() as interruption:
            os.kill(os.getpid(), signal.SIGHUP)
            assert interruption.count == 0
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
