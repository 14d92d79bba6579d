"""`rackrate run --continue`: what it refuses before it redrives an execution.

The lab redrives for real (tests/lab/test_lost_and_stopped_runs.py).
"""

from __future__ import annotations

import pytest

from .conftest import DeployedStack, Rackrate

RUN = "run-20261121-070512-ab12"


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"status": "running"}, "is still going"),
        ({"status": "succeeded"}, "has nothing to continue"),
        ({"status": "dry_run"}, "has nothing to continue"),
        ({"status": "invalid"}, "has an invalid plan"),
        ({"status": "failed", "campaign": "c"}, "rackrate campaign run --continue c"),
    ],
)
def test_a_run_that_cannot_go_on_is_refused_with_what_to_do(
    stack: DeployedStack, rackrate: Rackrate, record: dict[str, str], message: str
) -> None:
    stack.record(RUN, **record)
    assert message in rackrate.refused("run", "--continue", RUN, "--detach")


def test_a_run_that_is_not_there_is_refused(stack: DeployedStack, rackrate: Rackrate) -> None:
    assert 'There is no run "none"' in rackrate.refused("run", "--continue", "none", "--detach")


@pytest.mark.parametrize("option", [["--seed", "1"], ["--dry-run"], ["--name", "n"]])
def test_options_of_a_new_run_do_not_go_with_a_continued_one(
    rackrate: Rackrate, option: list[str]
) -> None:
    assert f"leave out {option[0]}" in rackrate.refused("run", "--continue", RUN, *option)
