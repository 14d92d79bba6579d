"""`rackrate up` and `rackrate down` go on when AWS is busy, has a fault, or an answer is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.tests.aws.region import Lab, eventually
from tests.waiting import HUNG_SECONDS

pytestmark = pytest.mark.rest

#: How many calls an outage of some seconds strikes: more than botocore tries by itself.
OUTAGE = 5

type Answered = Callable[..., tuple[int, Any]]


@pytest.fixture
def in_outage(lab: Lab) -> Answered:
    """Runs the command while so many calls fail. Returns its exit code and what it printed."""

    def run(fault: str, on: str, strikes: int, *arguments: str | Path) -> tuple[int, Any]:
        command = [sys.executable, "-m", "rackrate_cli", *map(str, arguments), "--json"]
        options = {"error": "ServiceUnavailable"} if fault == "api-failing" else {}
        with lab.fault(fault, on=on, callers="user", **options) as active:
            process = subprocess.Popen(
                command,
                env=lab.environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            eventually(
                lambda: process.poll() is not None or active.hits >= strikes, lambda over: over
            )
        stdout, stderr = process.communicate(timeout=HUNG_SECONDS)
        assert "Traceback" not in stderr
        return process.returncode, json.loads(stdout)

    return run


@pytest.mark.parametrize(
    ("fault", "on"),
    [
        ("api-failing", "cloudformation:*"),
        ("api-throttled", "cloudformation:*"),
        ("api-failing", "s3:*"),
        ("api-failing", "sts:*"),
    ],
)
def test_seconds_of_503_or_throttling_end_neither_up_nor_down(
    lab: Lab, release: Path, name: str, in_outage: Answered, fault: str, on: str
) -> None:
    code, output = in_outage(fault, on, OUTAGE, "up", "--stack", name, "--release", release)
    assert (code, output.get("status")) == (0, "CREATE_COMPLETE"), output
    code, output = in_outage(fault, on, OUTAGE, "down", "--stack", name, "--yes")
    assert code == 0, output


@pytest.mark.parametrize("operation", ["CreateStack", "ListStackResources"])
def test_a_lost_answer_of_cloudformation_ends_nothing_and_nothing_is_done_twice(
    lab: Lab, release: Path, name: str, in_outage: Answered, operation: str
) -> None:
    on = f"cloudformation:{operation}"
    code, output = in_outage(
        "api-answer-lost", on, OUTAGE, "up", "--stack", name, "--release", release
    )
    assert (code, output.get("status")) == (0, "CREATE_COMPLETE"), output
    events = lab.client("cloudformation").describe_stack_events(StackName=name)["StackEvents"]
    begun = [each for each in events if each["ResourceStatus"] == "CREATE_IN_PROGRESS"]
    assert len(begun) == len({each["LogicalResourceId"] for each in begun})
    on = "cloudformation:DeleteStack"
    code, _ = in_outage("api-answer-lost", on, OUTAGE, "down", "--stack", name, "--yes")
    assert code == 0
