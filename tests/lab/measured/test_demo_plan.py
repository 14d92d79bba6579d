"""The main job: `rackrate run` with the demo plan, from the command to the verdict."""

from __future__ import annotations

import csv
import datetime
import itertools
import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from lab import stack
from scripts import chromium
from tests.browser.looking import FIGURES
from tests.browser.opening import open_file
from tests.lab.measured.processors import warning_of_theft
from tests.lab.running import Lab
from tests.lab.waiting import BUSY

pytestmark = pytest.mark.core

PLAN = stack.REPOSITORY / "docs" / "plans" / "demo.json"
RUN = "demo"
TESTS, ARMS = ("tcp-1", "tcp-8", "rtt"), ("treatment", "baseline")
WARM_UPS = len(ARMS)
# The command has them, and more on a busy machine.
MOST_SECONDS = 240


@pytest.fixture(scope="module")
def demo(lab: Lab) -> Iterator[subprocess.CompletedProcess[str]]:
    """The one run of the demo plan that these tests look at."""
    with warning_of_theft("the run of the demo plan"):
        done = lab.rackrate(PLAN, RUN, seconds=MOST_SECONDS)
    yield done


@pytest.fixture(scope="module")
def results(lab: Lab, demo: subprocess.CompletedProcess[str]) -> Any:
    """What the run left in `out/latest/results.json`."""
    assert demo.returncode == 0, demo.stderr
    return json.loads((lab.directory / "latest" / "results.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def blocks(results: Any) -> int:
    """The number of blocks after which the run stopped."""
    return int(results["stopped"]["after_blocks"])


@pytest.fixture(scope="module")
def trials(blocks: int) -> int:
    """The number of trials of these blocks."""
    return blocks * len(TESTS) * len(ARMS)


@pytest.fixture(scope="module")
def verdicts(results: Any) -> dict[str, Any]:
    """The verdicts by test."""
    return {verdict["test"]: verdict for verdict in results["verdicts"]}


def test_the_command_ends_well_and_prints_verdicts_scale_and_path(
    lab: Lab, demo: subprocess.CompletedProcess[str], blocks: int, trials: int
) -> None:
    assert demo.returncode == 0, demo.stderr
    assert "Network scaled by 0.1: figures are not EC2's." in demo.stdout
    assert f"{trials} of {trials} trials measured, none failed." in demo.stdout
    assert f"Results: {lab.directory}/{RUN}/report.html" in demo.stdout
    for words in ("tcp-1", "tcp-8", "rtt", "better", "no meaningful"):
        assert words in demo.stdout
    assert f"blocks 1 to {blocks} of at most 12" in demo.stderr, "progress names the blocks"
    assert f"blocks {blocks + 1} to" not in demo.stderr


def test_differences_this_clear_are_settled_before_the_last_look(results: Any) -> None:
    assert results["plan"]["blocks"] == {"least": 6, "most": 12}
    assert (results["stopped"]["why"], results["stopped"]["settled"]) == ("settled", len(TESTS))
    assert results["stopped"]["after_blocks"] in (6, 9)


def test_results_have_the_documented_shape(results: Any, blocks: int, trials: int) -> None:
    assert results["schema"] == "rackrate.result.v1"
    run = results["run"]
    assert (run["id"], run["status"], run["lab_scale"]) == (RUN, "succeeded", 0.1)
    assert 60 < run["seconds"] < BUSY * MOST_SECONDS
    assert run["started_at"].startswith("20")
    counts = {"planned": trials, "measured": trials, "failed": 0}
    assert results["trials"] == {**counts, "causes": [], "failures": []}
    assert [arm["name"] for arm in results["arms"]] == list(ARMS)
    assert [arm["placement"] for arm in results["arms"]] == ["cluster", "none"]
    nodes = [node for arm in results["arms"] for node in arm["nodes"]]
    assert len(set(nodes)) == 4
    assert [verdict["test"] for verdict in results["verdicts"]] == list(TESTS)
    for verdict in results["verdicts"]:
        assert (verdict["arm"], verdict["baseline"]) == ARMS
        assert verdict["verdict"] in {
            *("better", "worse", "no meaningful difference", "inconclusive"),
        }
        low, high = verdict["ci95"]
        assert low <= verdict["ratio"] <= high
        quotient = verdict["arm_median"] / verdict["baseline_median"]
        # Of geometric means: round trips of a microsecond's scatter take them off the medians, but
        # not to another arm, unit or direction.
        assert verdict["ratio"] == pytest.approx(quotient, rel=0.5)
        assert verdict["blocks"] == blocks


def test_one_flow_is_twice_as_fast_in_the_group(verdicts: dict[str, Any]) -> None:
    verdict = verdicts["tcp-1"]
    assert (verdict["metric"], verdict["unit"]) == ("throughput", "bit/s")
    assert verdict["verdict"] == "better"
    assert 1.8 <= verdict["ratio"] <= 2.2
    assert verdict["ceiling"]["name"] == "single-flow"
    assert (verdict["ceiling"]["arm"], verdict["ceiling"]["baseline"]) == (1e9, 0.5e9)
    # Close below the ceiling: TCP's and IP's headers, nothing else.
    assert 0.9 < verdict["arm_median"] / 1e9 < 1
    assert 0.9 < verdict["baseline_median"] / 0.5e9 < 1


def test_many_flows_reach_the_instances_bandwidth_with_and_without_the_group(
    verdicts: dict[str, Any],
) -> None:
    verdict = verdicts["tcp-8"]
    assert verdict["verdict"] == "no meaningful difference"
    assert verdict["ceiling"]["name"] == "instance peak"
    assert verdict["arm_median"] < verdict["ceiling"]["arm"] == 1e9
    assert verdict["arm_median"] > 0.85e9
    assert verdict["baseline_median"] > 0.85e9


def test_the_way_is_shorter_in_the_group(verdicts: dict[str, Any]) -> None:
    verdict = verdicts["rtt"]
    assert (verdict["metric"], verdict["unit"], verdict["verdict"]) == ("rtt", "s", "better")
    assert verdict["ceiling"] is None
    # Two racks' delays, there and back. How much more a median is depends on how late a busy
    # machine passes packets on; test_network.py bounds the fastest of them.
    assert verdict["baseline_median"] - verdict["arm_median"] > 240e-6
    assert verdict["baseline_median"] < 2e-3


def test_everything_of_the_run_is_kept_in_the_bucket_and_copied(
    lab: Lab, results: Any, trials: int
) -> None:
    stored = lab.objects(RUN)
    copied = {"plan.json", "schedule.json", "results.json", "trials.csv", "report.html"}
    documents = copied | {"warm_up.json", "analysis.json", "counters.json"}
    documents |= {f"blocks_{batch}.json" for batch in (1, 2, 3)}
    assert documents <= stored
    raw = {name for name in stored if name.startswith("raw/")}
    assert len(raw) == trials + WARM_UPS
    samples = {name for name in stored if name.startswith("samples/")}
    assert samples
    assert stored == documents | raw | samples
    assert {path.name for path in (lab.directory / RUN).iterdir()} == copied | {"raw"}
    assert lab.document(RUN, "results.json") == results
    page = (lab.directory / RUN / "report.html").read_text("utf-8")
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "src=" not in page, "the page needs no other file"
    lines = (lab.directory / RUN / "trials.csv").read_text("utf-8").splitlines()
    assert len(lines) == 1 + WARM_UPS + trials


def test_the_page_opens_in_a_browser_with_its_figures_and_without_a_word(
    lab: Lab, results: Any
) -> None:
    with chromium.launched() as browser:
        page = open_file(browser, lab.directory / RUN / "report.html")
        figures = page.in_page(FIGURES)
    assert (page.messages, page.requests) == ([], [page.file.as_uri()])
    drawn = {(figure["kind"], figure["name"].split(" ")[0].rstrip(":,")) for figure in figures}
    assert all(figure["shapes"] > 2 for figure in figures)
    assert drawn >= {(kind, test) for kind in ("trials", "interval") for test in TESTS}
    assert drawn >= {("ecdf", "rtt"), ("series", "tcp-1"), ("series", "tcp-8")}


def test_the_results_are_what_the_published_schema_says(results: Any) -> None:
    schema = stack.REPOSITORY / "docs" / "results.schema.json"
    Draft202012Validator(json.loads(schema.read_text("utf-8"))).validate(results)
    assert not [warning for warning in results["warnings"] if "schema" in warning]


def test_athena_finds_the_run_where_glue_says_and_with_the_columns_glue_names(
    lab: Lab, results: Any, trials: int, tmp_path: Path, duckdb: ModuleType
) -> None:
    database = lab.outputs["DatabaseName"]
    assert re.fullmatch("[a-z][a-z0-9_]*", database)
    tables = lab.aws("glue").get_tables(DatabaseName=database)["TableList"]
    rows = {"trials": WARM_UPS + trials, "verdicts": len(TESTS)}
    assert {table["Name"] for table in tables} == set(rows)
    day = results["run"]["started_at"][:10]
    types = {
        "VARCHAR": "string",
        "BOOLEAN": "boolean",
        "BIGINT": "bigint",
        "DOUBLE": "double",
        "TIMESTAMP": "timestamp",
    }
    for table in tables:
        place = table["Parameters"]["storage.location.template"].replace("${day}", day)
        bucket, _, prefix = place.removeprefix("s3://").partition("/")
        assert bucket == lab.outputs["BucketName"]
        file = tmp_path / f"{table['Name']}.parquet"
        lab.aws("s3").download_file(bucket, f"{prefix}{RUN}.parquet", str(file))
        described = duckdb.sql(f"DESCRIBE FROM '{file}'").fetchall()
        columns = [{"Name": name, "Type": types[kind]} for name, kind, *_ in described]
        assert columns == table["StorageDescriptor"]["Columns"]
        counted = f"SELECT count(*), min(run_id), min(lab_scale) FROM '{file}'"
        assert duckdb.sql(counted).fetchall() == [(rows[table["Name"]], RUN, 0.1)]


def test_each_verdict_is_a_metric_with_its_interval(lab: Lab, verdicts: dict[str, Any]) -> None:
    now = datetime.datetime.now(datetime.UTC)
    for test, verdict in verdicts.items():
        dimensions = {
            "service": stack.STACK,
            "test": test,
            "metric": verdict["metric"],
            "arm": verdict["arm"],
        }
        low, high = verdict["ci_simultaneous"]
        for name, value in (
            ("VerdictRatio", verdict["ratio"]),
            ("VerdictRatioLow", low),
            ("VerdictRatioHigh", high),
        ):
            points = lab.aws("cloudwatch").get_metric_statistics(
                Namespace="rackrate",
                MetricName=name,
                Dimensions=[{"Name": k, "Value": v} for k, v in dimensions.items()],
                StartTime=now - datetime.timedelta(hours=1),
                EndTime=now + datetime.timedelta(hours=1),
                Period=7200,
                # The latest value of this test's run is among them, whatever ran before.
                Statistics=["Minimum", "Maximum"],
            )["Datapoints"]
            assert min(p["Minimum"] for p in points) <= value <= max(p["Maximum"] for p in points)


def test_every_trial_can_be_traced_to_its_raw_output_and_its_nodes(
    lab: Lab, results: Any, trials: int
) -> None:
    stored = lab.items(RUN, "trial#")
    assert len(stored) == WARM_UPS + trials
    assert sum(1 for trial in stored if trial.get("warm_up")) == WARM_UPS
    raw = lab.objects(RUN)
    for trial in stored:
        assert (trial["status"], trial["attempt"]) == ("measured", 1)
        assert trial["value"] > 0
        assert trial["raw_key"].removeprefix(f"runs/{RUN}/") in raw
    with (lab.directory / RUN / "trials.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(stored)
    for row, side in itertools.product(rows, ("client", "server")):
        assert row[f"{side}_instance_type"] == "c5.large"
        assert row[f"{side}_instance_id"].startswith("i-")
        assert row[f"{side}_zone"] == "us-east-1a"
    assert results["versions"]["tools"]


def test_the_direction_of_each_pair_alternates_from_block_to_block(
    lab: Lab, results: Any, blocks: int
) -> None:
    directions: dict[str, list[tuple[str, str]]] = defaultdict(list)
    items = [item for item in lab.document(RUN, "schedule.json") if item["kind"] == "block"]
    assert [item["block"] for item in items] == list(range(1, 12 + 1))
    for item in items:
        for pair in item["pairs"]:
            directions[pair["arm"]].append((pair["client"], pair["server"]))
    assert set(directions) == set(ARMS)
    for taken in directions.values():
        assert all(after == before[::-1] for before, after in itertools.pairwise(taken))
    measured = {
        (t["block"], t["arm"], t["client"], t["server"])
        for t in lab.items(RUN, "trial#")
        if not t.get("warm_up")
    }
    assert measured == {
        (block, arm, *pair)
        for arm, taken in directions.items()
        for block, pair in enumerate(taken[:blocks], start=1)
    }


def test_nothing_of_the_run_is_left_in_the_cluster(lab: Lab, results: Any, trials: int) -> None:
    assert lab.left_in_cluster(RUN) == []
    record = lab.record(RUN)
    assert record["status"] == "succeeded"
    assert float(record["lab_scale"]) == 0.1
    assert (record["trials_planned"], record["trials_measured"]) == (trials, trials)


def test_show_and_list_tell_of_the_run(lab: Lab, blocks: int, results: Any) -> None:
    shown = lab.command("rackrate", "show", RUN, "--verbose")
    assert "Run demo: succeeded" in shown.stdout
    why = f"Stopped after {blocks} of at most 12 blocks: every verdict between the arms is settled."
    for words in ("better", "single-flow", why):
        assert words in shown.stdout
    assert RUN in lab.command("rackrate", "list").stdout


def test_the_results_directory_is_where_the_command_says(lab: Lab, results: Any) -> None:
    assert (lab.directory / "latest").resolve() == Path(lab.directory / RUN).resolve()
