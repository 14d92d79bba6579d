"""The documentation's blocks for the lab, run as a reader would: page by page, in one shell."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.docs.blocks import LAB, copy_of_repository, shell
from tests.lab.running import Lab

START = "docs/start-lab.md"
OTHERS = sorted({block.page for block in shell(LAB)} - {START})
SECONDS = 420


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository as a reader has it."""
    return copy_of_repository(tmp_path_factory.mktemp("clone"))


def run(page: str, clone: Path) -> str:
    """Run a page's blocks in a shell that knows of no AWS; returns what they printed."""
    text = "".join(block.text for block in shell(LAB) if block.page == page)
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "KUBE", "VIRTUAL_ENV"))
    }
    done = subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", text],
        cwd=clone,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_ten_minutes_in_the_lab_are_as_the_page_says(lab: Lab, clone: Path) -> None:
    output = run(START, clone)
    nodes = [*lab.nodes(placement_group=True), *lab.nodes(placement_group=False)]
    assert len(nodes) == 4
    assert all(node in output for node in nodes)
    results = json.loads((clone / "out" / "latest" / "results.json").read_text("utf-8"))
    assert results["run"]["id"] == "first"
    # What they came to is the demo's to test: here other labs are at work beside this one.
    assert [each["test"] for each in results["verdicts"]] == ["tcp-1", "rtt"]
    assert results["trials"]["failed"] == 0
    # Twice and a fifth are clear after a few blocks; by default a run stops then.
    stopped = results["stopped"]
    assert stopped["why"] == "settled"
    assert 6 <= stopped["after_blocks"] < stopped["most_blocks"] == 12
    assert results["trials"]["planned"] == stopped["after_blocks"] * 2 * 2, "tests, arms"
    assert stopped["text"] in output
    assert "report.html" in output


@pytest.mark.parametrize("page", OTHERS)
def test_the_blocks_of_a_page_run_in_order(lab: Lab, clone: Path, page: str) -> None:
    run(page, clone)
