"""`rackrate export` writes all of a run's data, or nothing."""

from __future__ import annotations

import csv
from pathlib import Path
from xml.etree import ElementTree

import pytest

from . import campaigns
from .conftest import DeployedStack, Rackrate, client, results

CSV = b"run_id,trial,throughput_bits_per_second\nr1,1,987400000\nr1,2,\n"
PARQUET = b"PAR1 columns PAR1"
VERDICTS = b"PAR1 verdicts PAR1"


@pytest.fixture
def exported(stack: DeployedStack) -> DeployedStack:
    """A stack with two measured runs of different days."""
    for run_id, started_at in (("r1", "2026-11-21T23:59:59Z"), ("r2", "2026-11-22T00:00:01Z")):
        stack.record(run_id, status="succeeded", trials_measured=2, started_at=started_at)
        stack.put(run_id, "trials.csv", CSV.replace(b"r1", run_id.encode()))
        stack.put(run_id, "results.json", results(run_id))
        for table, content in (("trials", PARQUET), ("verdicts", VERDICTS)):
            key = f"{table}/day={started_at[:10]}/{run_id}.parquet"
            client("s3").put_object(Bucket=stack.bucket, Key=key, Body=content + run_id.encode())
    return stack


def test_trials_are_the_stacks_own_bytes(exported: DeployedStack, rackrate: Rackrate) -> None:
    for format, content in (("csv", CSV), ("parquet", PARQUET + b"r1")):
        done = rackrate("export", "r1", "--format", format, "--out", f"trials.{format}")
        assert done.stdout == f"trials.{format}\n"
        assert Path(f"trials.{format}").read_bytes() == content


def rows_of(path: str) -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def test_verdicts_are_rows_of_csv_and_the_stack_s_own_parquet(
    exported: DeployedStack, rackrate: Rackrate
) -> None:
    rackrate("export", "r1", "--format", "csv", "--table", "verdicts")
    first, second = rows_of("r1.csv")
    assert (first["run_id"], first["test"], first["verdict"]) == ("r1", "tcp-1", "better")
    assert (first["ratio"], first["ci_simultaneous_low"]) == ("2.002", "1.994")
    assert first["arm_ceiling_bits_per_second"] == "1000000000.0"
    # What has no ceiling has no figure, and no zero.
    assert (second["test"], second["arm_ceiling_bits_per_second"]) == ("rtt", "")
    rackrate("export", "r1", "--format", "parquet", "--table", "verdicts")
    assert Path("r1.parquet").read_bytes() == VERDICTS + b"r1"


def test_a_campaign_s_answers_are_rows_and_json(stack: DeployedStack, rackrate: Rackrate) -> None:
    stack.record_campaign(campaigns.CAMPAIGN, status="succeeded")
    stack.put_campaign(campaigns.CAMPAIGN, "campaign.json", campaigns.campaign())
    rackrate("export", campaigns.CAMPAIGN, "--format", "json")
    assert Path(f"{campaigns.CAMPAIGN}.json").read_bytes() == campaigns.campaign()
    for arguments in (("csv", "--table", "trials"), ("parquet",), ("junit",), ("markdown",)):
        message = rackrate.refused("export", campaigns.CAMPAIGN, "--format", *arguments)
        assert "as csv with its verdicts, or as json" in message
    rackrate("export", campaigns.CAMPAIGN, "--format", "csv")
    first = rows_of(f"{campaigns.CAMPAIGN}.csv")[0]
    assert (first["campaign_id"], first["test"]) == (campaigns.CAMPAIGN, "tcp-1")
    assert (first["ratio"], first["draws"], first["prediction95_high"]) == ("1.88", "4", "2.32")
    assert (first["changed"], first["more_draws"]) == ("", "")


def test_a_sweep_has_a_row_for_each_value_and_metric(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.record_campaign("sweep", status="succeeded")
    cells = [campaigns.cell(15, verdict=None, ratio=None, ci95=None), campaigns.cell(60)]
    content = campaigns.campaign({"id": "sweep", "kind": "sweep"}, answers=[], sweep=cells)
    stack.put_campaign("sweep", "campaign.json", content)
    rackrate("export", "sweep", "--format", "csv", "--table", "verdicts")
    first, second = rows_of("sweep.csv")
    assert (first["value"], first["verdict"], first["ratio"]) == ("15", "", "")
    assert (second["value"], second["mean"], second["runs"]) == ("60", "24100000000.0", "2")


def test_several_runs_become_one_file_that_is_called_like_one(
    exported: DeployedStack, rackrate: Rackrate
) -> None:
    files = rackrate.json("export", "r1", "r2", "--out", "both.csv")["files"]
    assert [(file["run"], file["path"]) for file in files] == [
        ("r1", "both.csv"),
        ("r2", "both.csv"),
    ]
    assert [row["run_id"] for row in rows_of("both.csv")] == ["r1", "r1", "r2", "r2"]
    assert {file["bytes"] for file in files} == {Path("both.csv").stat().st_size}
    rackrate("export", "r1", "r2", "--format", "csv", "--table", "verdicts", "--out", "v.csv")
    assert [row["run_id"] for row in rows_of("v.csv")] == ["r1", "r1", "r2", "r2"]
    message = rackrate.refused("export", "r1", "r2", "--format", "json", "--out", "both.json")
    assert "name a directory" in message
    assert not Path("both.json").exists()
    Path("in.csv").mkdir()
    rackrate("export", "r1", "r2", "--format", "csv", "--out", "in.csv")
    assert {path.name for path in Path("in.csv").iterdir()} == {"r1.csv", "r2.csv"}


def test_json_is_results_json_and_junit_names_each_verdict(
    exported: DeployedStack, rackrate: Rackrate
) -> None:
    rackrate("export", "r1", "--format", "json")
    assert Path("r1.json").read_bytes() == results("r1")
    rackrate("export", "r1", "--format", "junit")
    cases = ElementTree.parse("r1.xml").getroot().iter("testcase")
    assert {"tcp-1 throughput", "rtt"} <= {case.get("name") for case in cases}


def test_markdown_has_a_row_for_each_verdict(exported: DeployedStack, rackrate: Rackrate) -> None:
    rackrate("export", "r1", "--format", "markdown")
    rows = [line for line in Path("r1.md").read_text("utf-8").splitlines() if line[:2] == "| "]
    assert {"| `tcp-1 throughput`", "| `rtt`"} <= {row.split(" | ")[0] for row in rows}
    assert len({row.count("|") for row in rows}) == 1


def test_several_runs_become_a_file_each_in_a_directory(
    exported: DeployedStack, rackrate: Rackrate
) -> None:
    files = rackrate.json("export", "r1", "r2", "--format", "parquet", "--out", "all")["files"]
    assert [file["run"] for file in files] == ["r1", "r2"]
    assert [Path(file["path"]).read_bytes() for file in files] == [PARQUET + b"r1", PARQUET + b"r2"]
    assert [file["bytes"] for file in files] == [len(PARQUET) + 2] * 2
    assert sorted(path.name for path in Path("all").iterdir()) == ["r1.parquet", "r2.parquet"]


def test_the_default_is_a_file_named_after_the_run(
    exported: DeployedStack, rackrate: Rackrate
) -> None:
    rackrate("export", "latest", "--format", "csv")
    assert [path.name for path in Path().iterdir()] == ["r2.csv"]


def test_a_pipe_gets_the_trials_of_all_runs_under_one_header(
    exported: DeployedStack, rackrate: Rackrate
) -> None:
    done = rackrate("export", "r1", "r2", "--format", "csv", "--out", "-")
    lines = done.stdout_bytes.splitlines()
    assert lines == [
        b"run_id,trial,throughput_bits_per_second",
        *(b"r1,1,987400000", b"r1,2,"),
        *(b"r2,1,987400000", b"r2,2,"),
    ]


def test_runs_whose_columns_differ_are_not_joined(
    exported: DeployedStack, rackrate: Rackrate
) -> None:
    exported.put("r2", "trials.csv", b"another,header\n1,2\n")
    done = rackrate("export", "r1", "r2", "--format", "csv", "--out", "-", code=2)
    assert "other columns" in done.stderr
    assert done.stdout == ""


def test_what_exists_is_overwritten_only_when_that_is_requested(
    exported: DeployedStack, rackrate: Rackrate
) -> None:
    path = Path("r1.csv")
    path.write_text("mine")
    assert "--force" in rackrate.refused("export", "r1", "--format", "csv")
    assert path.read_text() == "mine"
    rackrate("export", "r1", "--format", "csv", "--force")
    assert path.read_bytes() == CSV


def test_nothing_is_written_when_one_of_several_cannot_be_had(
    exported: DeployedStack, rackrate: Rackrate
) -> None:
    exported.record("r3", status="succeeded", trials_measured=2)
    message = rackrate.refused("export", "r1", "r3", "--format", "csv", "--out", "all")
    assert "Run r3 left no trials.csv" in message
    assert list(Path().iterdir()) == []


def test_results_of_another_schema_version_are_refused(
    exported: DeployedStack, rackrate: Rackrate
) -> None:
    exported.put("r1", "results.json", results("r1").replace(b"result.v1", b"result.v9"))
    for format in ("json", "junit"):
        assert '"rackrate.result.v9"' in rackrate.refused("export", "r1", "--format", format)
    assert list(Path().iterdir()) == []


def test_what_cannot_be_exported_is_refused_in_one_sentence(
    exported: DeployedStack, rackrate: Rackrate
) -> None:
    exported.record("going", status="running", trials_measured=3)
    exported.record("empty", status="failed", trials_measured=0)
    for arguments, message in (
        (("nope",), 'no run "nope"'),
        (("going",), "still going"),
        (("empty",), "no measured trials"),
        (("r1", "r2", "--out", "-"), "name a directory"),
        (("r1", "--out", "-", "--json"), "cannot take both"),
    ):
        assert message in rackrate.refused("export", *arguments, "--format", "json")
    for out in ((), ("--out", "-"), ("--out", "r1.txt")):
        assert "No --format is given" in rackrate.refused("export", "r1", *out)
