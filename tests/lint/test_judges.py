"""The judges of others find mistakes in the policies and state machines, and ours have none."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import ROOT
from tests.waiting import HUNG_SECONDS

pytestmark = pytest.mark.rest

MACHINE, RUN_MACHINE = "statemachine/campaign.asl.yaml", "statemachine/benchmark.asl.yaml"
#: What is wrong; the file, the pattern to replace there, by what; and a part of the finding.
MISTAKES = {
    "an action that does not exist": (
        "templates/observability.yaml",
        r"dynamodb:Query\]",
        "dynamodb:Search]",
        "NotifyRole: UNKNOWN_ACTION Unknown action dynamodb:Search",
    ),
    "a resource of another service": (
        "templates/schedule.yaml",
        r"Resource: !Ref CampaignStateMachineArn",
        "Resource: !Ref TableArn",
        "ScheduleRole: RESOURCE_MISMATCH states:StartExecution needs arn:*:states:*:*:stateMachine",
    ),
    "the bucket of an object": (
        "templates/run.yaml",
        r"\$\{BucketArn\}/on-create.json",
        "${BucketArn}",
        "RunOnCreateRole: RESOURCE_MISMATCH s3:GetObject needs accesspointobject or object",
    ),
    "a resource for an action without resources": (
        "templates/preflight.yaml",
        r'Resource: "\*"',
        "Resource: !Sub arn:${AWS::Partition}:ec2:${AWS::Region}:*:instance/*",
        "PreflightRole: RESOURCE_MISMATCH ec2:DescribeSubnets needs *",
    ),
    "a condition key of another action": (
        "docs/ci/roles.yaml",
        r'"iam:PassedToService"',
        '"iam:PermissionsBoundary"',
        "Unknown condition iam:PermissionsBoundary for action iam:PassRole",
    ),
    "a tag of a request that has none": (
        "templates/run.yaml",
        r"Action: dynamodb:GetItem",
        'Condition: { StringEquals: { "aws:RequestTag/a": b } }\n                \\g<0>',
        "Unknown condition aws:RequestTag/a for action dynamodb:GetItem",
    ),
    "an ARN without its account": (
        "docs/ci/roles.yaml",
        r":s3:::\$\{ArtifactBucketName\}/\*",
        ":s3::${ArtifactBucketName}/*",
        "WorkflowRole: INVALID_ARN Does not have 6 parts arn:aws:s3::ArtifactBucketName/*",
    ),
    "a state without Next": (
        MACHINE,
        r" +Next: Plan campaign\n",
        "",
        "campaign.asl.yaml: State Machine.States.Take input does not have required",
    ),
    "a state that nothing leads to": (
        MACHINE,
        r"(?m)^States:\n",
        "States:\n  Lost: { Type: Succeed }\n",
        "campaign.asl.yaml: No transition found to state State Machine.Lost",
    ),
    "a state that is none of its map's": (
        RUN_MACHINE,
        r"Default: Let the tests run",
        "Default: Plan",
        'No state found named "Plan", referenced at State Machine.States.Measure.ItemProcessor',
    ),
    "a state that ends and leads on": (
        RUN_MACHINE,
        r"\n( +)End: true\n",
        "\\g<0>\\g<1>Next: Pause\n",
        'has forbidden field "Next"',
    ),
    "a misspelt field": (
        MACHINE,
        r"TimeoutSeconds: 150",
        "TimeOutSeconds: 150",
        'campaign.asl.yaml: Field "TimeOutSeconds" not allowed in',
    ),
}
USELESS = "templates/* NO_SUCH_FINDING"


def judge(directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / ".venv-taskcat/bin/python", "-W", "ignore", "-m", "scripts.judges"],
        cwd=directory,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=HUNG_SECONDS,
        check=False,
    )


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """What the judges print of a copy of our templates with all mistakes."""
    copy = tmp_path_factory.mktemp("broken")
    shutil.copy(ROOT / "template.yaml", copy)
    for folder in ("templates", "statemachine", "docs/ci", "lint"):
        shutil.copytree(ROOT / folder, copy / folder)
    for file, pattern, replacement, _ in MISTAKES.values():
        broken, times = re.subn(pattern, replacement, (copy / file).read_text(), count=1)
        assert times, f"{file} has no {pattern} to break any more"
        (copy / file).write_text(broken)
    with (copy / "lint/judges.yaml").open("a") as excuses:
        excuses.write(f'  "{USELESS}": A reason.\n')
    judged = judge(copy)
    assert (judged.returncode, judged.stderr) == (1, "")
    return judged.stdout


def test_ours_have_no_mistake_and_no_excuse_too_many():
    judged = judge(ROOT)
    assert judged.returncode == 0, judged.stdout + judged.stderr


@pytest.mark.parametrize("finding", [mistake[-1] for mistake in MISTAKES.values()], ids=MISTAKES)
def test_a_mistake_is_reported(judged, finding):
    assert finding in judged


def test_what_is_excused_is_not_reported(judged):
    assert "lambda:SourceFunctionArn" not in judged


def test_an_excuse_that_is_not_needed_is_refused(judged):
    assert f"nothing is found that '{USELESS}' excuses; remove it" in judged
