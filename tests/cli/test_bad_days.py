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
from botocore.exceptions import ClientError
from rackrate_cli.errors import explain
from rackrate_cli.watch import Interruption

from .conftest import Rackrate, client


def refused(rackrate: Rackrate, *arguments: str) -> str:
    result = rackrate(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("rackrate: ")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
    return result.stderr


def test_a_missing_stack_is_named_with_its_region(aws: str, rackrate: Rackrate) -> None:
    said = refused(rackrate, "list", "--stack", "elsewhere")
    assert '"elsewhere" in us-east-1' in said
    assert "--stack" in said


def test_another_kind_of_stack_is_not_taken_for_ours(aws: str, rackrate: Rackrate) -> None:
    client("cloudformation").create_stack(
        StackName="other",
        TemplateBody=json.dumps({"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}),
    )
    assert "not a rackrate stack" in refused(rackrate, "list", "--stack", "other")


def test_missing_credentials_are_told(
    aws: str, rackrate: Rackrate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    assert "No AWS credentials" in refused(rackrate, "list")


def test_a_missing_region_is_told(
    aws: str, rackrate: Rackrate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    assert "No AWS Region" in refused(rackrate, "list")


def test_an_empty_region_is_told_by_the_variable_s_name(
    aws: str, rackrate: Rackrate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_REGION", "")
    said = refused(rackrate, "list")
    assert "AWS_REGION is set and empty" in said and "export AWS_REGION=" in said
    assert "AWS_ENDPOINT_URL" not in said
    # The other variable names a Region, as other tools that take an empty one for none see it.
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    assert "in eu-west-1" in refused(rackrate, "list", "--stack", "elsewhere")


@pytest.mark.parametrize("variable", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_either_variable_names_the_region(
    variable: str, aws: str, rackrate: Rackrate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.setenv(variable, "eu-west-1")
    assert "in eu-west-1" in refused(rackrate, "list", "--stack", "elsewhere")


def test_an_unknown_profile_is_told(
    aws: str, rackrate: Rackrate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    assert "nobody" in refused(rackrate, "list")


def test_an_endpoint_that_does_not_answer_is_named(
    aws: str, rackrate: Rackrate, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    assert f"127.0.0.1:{port}" in refused(rackrate, "list")


def test_an_endpoint_that_is_no_address_is_named(
    aws: str, rackrate: Rackrate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "nonsense")
    assert "AWS_ENDPOINT_URL" in refused(rackrate, "list")


def test_an_unknown_option_is_a_usage_error(rackrate: Rackrate) -> None:
    result = rackrate("run", "--plam", "x")
    assert result.exit_code == 2
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
    ("hours", "said"),
    [(-2, "ahead of AWS's"), (2, "behind AWS's")],
)
def test_a_wrong_clock_is_told_with_how_far_it_is_off(
    code: str, message: str, hours: int, said: str
) -> None:
    theirs = datetime.now(UTC) + timedelta(hours=hours, seconds=30 * hours)
    answer = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPHeaders": {"date": format_datetime(theirs, usegmt=True)}},
    }
    refusal = explain(ClientError(answer, "ListExecutions"))  # type: ignore[arg-type]
    assert re.search(rf"clock is 2 h 0[01] min {said}", str(refusal))
    assert refusal.exit_code == 2


@pytest.mark.parametrize("headers", [{}, {"date": "yesterday"}])
def test_a_wrong_clock_is_told_where_the_service_tells_no_time(headers: dict[str, str]) -> None:
    answer = {
        "Error": {"Code": "RequestTimeTooSkewed", "Message": "too large"},
        "ResponseMetadata": {"HTTPHeaders": headers},
    }
    refusal = explain(ClientError(answer, "GetObject"))  # type: ignore[arg-type]
    assert "This machine's clock is wrong" in str(refusal)


def test_a_terminal_that_closes_does_not_stop_a_run_under_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interruption() as interruption:
            os.kill(os.getpid(), signal.SIGHUP)
            assert interruption.count == 0
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
