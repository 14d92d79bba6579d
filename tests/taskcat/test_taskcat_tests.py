"""`make taskcat` reports missing prerequisites before it costs money, and runs possible tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from scripts import taskcat_tests
from tests.taskcat.deploying import ROOT


def refused(home: Path, **variables: str) -> str:
    """The command's message on a machine without any AWS configuration."""
    done = subprocess.run(
        [sys.executable, "-m", "scripts.taskcat_tests", "test"],
        cwd=ROOT,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "AWS_EC2_METADATA_DISABLED": "true",
            **variables,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr


def test_without_a_bucket_it_says_which_variable_to_set(tmp_path: Path) -> None:
    assert "S3_BUCKET is not set" in refused(tmp_path)


def test_without_credentials_it_says_how_to_get_some(tmp_path: Path) -> None:
    message = refused(tmp_path, S3_BUCKET="anything")
    assert "AWS accepts no credentials from here" in message
    assert "docs/ci.md" in message


@mock_aws
def test_a_bucket_of_another_region_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="artifacts")
    monkeypatch.setenv("S3_BUCKET", "artifacts")
    elsewhere = boto3.session.Session(region_name="eu-west-1")
    with pytest.raises(taskcat_tests.Refusal, match="is in us-east-1, the tests are in eu-west-1"):
        taskcat_tests.check_bucket(elsewhere)
    here = boto3.session.Session(region_name="us-east-1")
    assert taskcat_tests.check_bucket(here) == "artifacts"


@mock_aws
def test_a_bucket_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("S3_BUCKET", "nowhere")
    with pytest.raises(taskcat_tests.Refusal, match="nowhere of S3_BUCKET cannot be used"):
        taskcat_tests.check_bucket(boto3.session.Session(region_name="us-east-1"))


TESTS: dict[str, Any] = {
    "plain": {"parameters": {"A": "1"}},
    "own": {"parameters": {"A": "$[taskcat_ssm_/rackrate/taskcat/cluster]", "B": "2"}},
}


@mock_aws
def test_a_test_is_left_out_by_name_when_the_account_lacks_what_it_needs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    session = boto3.session.Session(region_name="us-east-1")
    assert taskcat_tests.runnable(session, TESTS) == ["plain"]
    assert "own is left out: Parameter Store has no /rackrate/taskcat/cluster" in (
        capsys.readouterr().out
    )
    session.client("ssm").put_parameter(
        Name="/rackrate/taskcat/cluster", Value="platform", Type="String"
    )
    assert taskcat_tests.runnable(session, TESTS) == ["plain", "own"]


def test_a_name_that_is_no_test_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(taskcat_tests.Refusal, match=r"names lost, .* It has: plain, own"):
        taskcat_tests.chosen(TESTS, "plain,lost")


@pytest.mark.parametrize("text", ["0", "-1", "many"])
def test_a_number_of_stacks_below_one_is_refused(text: str) -> None:
    with pytest.raises(taskcat_tests.Refusal, match="PARALLEL must be a number from 1"):
        taskcat_tests.count(text)


def test_no_group_is_larger_than_requested_and_no_test_is_lost() -> None:
    assert taskcat_tests.groups(["a", "b", "c", "d", "e"], 2) == [["a", "b"], ["c", "d"], ["e"]]


def test_a_group_keeps_its_tests_and_the_project_and_takes_the_region() -> None:
    configured = {"project": {"name": "x", "regions": ["us-east-1"]}, "tests": TESTS}
    assert taskcat_tests.configuration(configured, ["plain"], "eu-west-1") == {
        "project": {"name": "x", "regions": ["eu-west-1"]},
        "tests": {"plain": TESTS["plain"]},
    }
