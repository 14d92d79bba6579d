"""The commands around runs in the lab: doctor, report, export, baseline, compare."""

from __future__ import annotations

import csv
import io
import json
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.lab.running import SHORT, TOOLS, Lab

BASELINE = "commands-baseline"
#: What action.yml runs.
ACTION = Path(__file__).resolve().parents[2] / "scripts" / "action"


def rackrate(lab: Lab, *arguments: str, code: int = 0) -> Any:
    """A command of rackrate with `--json`: what it answers."""
    done = lab.command(str(TOOLS / "rackrate"), *arguments, "--json", check=False, seconds=120)
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def runs(lab: Lab) -> tuple[str, str]:
    """Two runs of the same tests, the older one first; those that other tests made will do."""
    listed = rackrate(lab, "list", "--limit", "1000")["runs"]
    ended = [run["id"] for run in listed if run["status"] == "succeeded"]
    there = [run_id for run_id in ended if is_short(lab, run_id)]
    for number in range(len(there), 2):
        done = lab.rackrate(SHORT, f"commands-{number}")
        assert done.returncode == 0, done.stderr
        there.insert(0, f"commands-{number}")
    return there[1], there[0]


def is_short(lab: Lab, run_id: str) -> bool:
    """Did a run have the tests of the short plan, with their default arms?"""
    plan = lab.document(run_id, "plan.json")["plan"]
    ours = [(test["name"], test.get("seconds"), test.get("count")) for test in plan["tests"]]
    tests = [(test["name"], test.get("seconds"), test.get("count")) for test in SHORT["tests"]]
    return ours == tests and len(plan["arms"]) == 2


@pytest.fixture
def named(lab: Lab, runs: tuple[str, str]) -> Iterator[str]:
    """The older run as a named baseline."""
    rackrate(lab, "baseline", "set", BASELINE, runs[0])
    yield BASELINE
    rackrate(lab, "baseline", "remove", BASELINE)


def test_the_doctor_finds_nothing_that_failed(lab: Lab, runs: tuple[str, str]) -> None:
    output = rackrate(lab, "doctor")
    checks = {check["check"]: check for check in output["checks"]}
    assert output["healthy"]
    for name in (
        *("cluster access", "treatment nodes", "baseline nodes", "vCPU quota", "image"),
        *("vpc-cni", "kube-proxy", "coredns", "instance type", "prices"),
    ):
        assert checks[name]["state"] == "ok", checks[name]
    assert "2 Ready nodes of the treatment" in checks["cluster access"]["found"]
    states = {check["state"] for check in output["checks"]}
    assert states <= {"ok", "warning"}, output["checks"]
    shown = lab.command(str(TOOLS / "rackrate"), "doctor", "--quick").stdout
    assert max(map(len, shown.splitlines())) <= 80


def test_what_a_role_may_not_look_at_is_unknown_with_the_action_that_is_missing(lab: Lab) -> None:
    may = {"Effect": "Allow", "Action": "cloudformation:DescribeStacks", "Resource": "*"}
    rights = {"Version": "2012-10-17", "Statement": [may]}
    with lab.allowed("doctor-reader", rights) as environment:
        done = lab.command(
            *(str(TOOLS / "rackrate"), "doctor", "--json"),
            check=False,
            seconds=120,
            environment=environment,
        )
    assert done.returncode == 0, done.stderr
    checks = {check["check"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["stack"]["state"] == "ok"
    for check, action in (
        ("state machine", "states:DescribeStateMachine"),
        ("bucket", "s3:ListBucket"),
        ("cluster", "eks:DescribeCluster"),
        ("instance type", "ec2:DescribeInstanceTypes"),
        ("vCPU quota", "ec2:DescribeInstances"),
        ("leftovers", "tag:GetResources"),
        # It looks whether a campaign has the id of its run before it starts one.
        ("cluster access", "dynamodb:GetItem"),
    ):
        assert checks[check]["state"] == "unknown"
        assert action in checks[check]["found"]


def test_the_link_to_a_report_needs_no_credentials(lab: Lab, runs: tuple[str, str]) -> None:
    address = rackrate(lab, "report", runs[1], "--url")["url"]
    with urllib.request.urlopen(address) as response:
        assert response.headers.get_content_type() == "text/html"
        page = response.read()
    assert page == lab.read(f"runs/{runs[1]}/report.html")


def test_a_report_brings_the_raw_output_of_the_last_attempt_of_every_trial(
    lab: Lab, runs: tuple[str, str], tmp_path: Path
) -> None:
    output = rackrate(lab, "report", runs[1], "--raw", "--out", str(tmp_path))
    last: dict[str, str] = {}
    for name in sorted(lab.objects(runs[1])):
        if name.startswith("raw/"):  # then trial, attempt and `txt`
            last[name.rsplit(".", 2)[0]] = name.removeprefix("raw/")
    copied = {path.name for path in (Path(output["path"]).parent / "raw").iterdir()}
    assert copied
    assert copied == set(last.values())


def test_every_format_has_every_trial(
    lab: Lab, runs: tuple[str, str], tmp_path: Path, duckdb: ModuleType
) -> None:
    trials = len(lab.items(runs[1], "trial#"))
    exported = {
        format: Path(
            rackrate(
                *(lab, "export", runs[1], "--format", format),
                *("--out", str(tmp_path / f"run.{format}")),
            )["files"][0]["path"]
        )
        for format in ("csv", "parquet", "json", "junit", "markdown")
    }
    rows = list(csv.DictReader(io.StringIO(exported["csv"].read_text("utf-8"))))
    assert len(rows) == trials
    stored = duckdb.sql(f"FROM read_parquet('{exported['parquet']}')")
    assert len(stored.fetchall()) == trials
    assert stored.columns == list(rows[0])
    assert {row["run_id"] for row in rows} == {runs[1]}
    assert json.loads(exported["json"].read_bytes())["run"]["id"] == runs[1]
    suites = ElementTree.parse(exported["junit"]).getroot()
    assert suites.get("errors") == "0"
    assert "Network scaled by 0.1" in exported["markdown"].read_text("utf-8")


def test_the_action_measures_and_summarizes_and_fails_with_what_is_required(
    lab: Lab, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(SHORT), "utf-8")
    inputs = {
        "INPUT_STACK": "rackrate",
        "INPUT_NAME": "commands-action",
        "INPUT_PLAN": str(plan),
        "INPUT_CAMPAIGN": "",
        "INPUT_REQUIRE": "tcp-1 better or inconclusive\ntcp-1 worse\n",
        "INPUT_OUT": str(tmp_path / "out"),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
    }
    path = f"{TOOLS}{os.pathsep}{lab.environment['PATH']}"
    done = lab.command(
        str(ACTION),
        check=False,
        seconds=120,
        environment={**lab.environment, **inputs, "PATH": path},
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert 'The requirement "tcp-1 worse" is not met' in done.stdout
    summary = (tmp_path / "summary").read_text("utf-8")
    assert "| `tcp-1 throughput` | **" in summary
    outputs = dict(
        line.split("=", 1) for line in (tmp_path / "output").read_text("utf-8").splitlines()
    )
    assert outputs["name"] == "commands-action"
    assert Path(outputs["summary"]).read_text("utf-8") == summary
    cases = ElementTree.parse(tmp_path / "out" / "commands-action.xml").getroot()
    assert int(cases.get("failures", "0")) >= 1


def test_a_run_is_compared_with_a_baseline_by_name(
    lab: Lab, runs: tuple[str, str], named: str, tmp_path: Path
) -> None:
    assert named in {b["name"] for b in rackrate(lab, "baseline", "list")["baselines"]}
    result = rackrate(lab, "compare", runs[1], named, "--out", str(tmp_path))
    compared = result["comparison"]["comparison"]
    assert (compared["run"], compared["with"], compared["baseline"]) == (runs[1], runs[0], named)
    arms = {(v["arm"], v["baseline"]) for v in result["comparison"]["verdicts"]}
    assert arms == {(arm, f"{arm} ({runs[0]})") for arm in ("treatment", "baseline")}
    page = (Path(result["directory"]) / "report.html").read_text("utf-8")
    assert f"{runs[1]}/raw/" in page
    assert (tmp_path / runs[1] / "raw").is_dir(), "the page links to raw outputs of both runs"


def test_what_cannot_be_compared_is_one_sentence(lab: Lab, runs: tuple[str, str]) -> None:
    for arguments in ((runs[1], "no-such-run"), (runs[1], runs[1])):
        result = rackrate(lab, "compare", *arguments, code=2)
        assert result["error"].count(". ") == 0
