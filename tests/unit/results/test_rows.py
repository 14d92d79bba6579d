"""Trials and verdicts as tables: CSV, Parquet and Glue agree, and lost values are empty, not 0."""

from __future__ import annotations

import csv
import datetime
import io
import json
import re

import pytest

from rackrate.results import rows as module
from rackrate.results.build import RunTimes
from rackrate.results.rows import (
    DETAILS,
    METRICS,
    PUBLISHED,
    TRIALS,
    parquet_key,
    trials_csv,
    trials_parquet,
    verdicts_parquet,
)
from rackrate.results.tables import glue_columns, to_parquet
from rackrate_contract.arms import Node
from rackrate_contract.results import MetricOfTest, Replacement
from rackrate_contract.tables import RUN, VERDICTS, Column, to_csv, verdict_rows
from rackrate_contract.verdicts import Baseline, Claim, KindOfPairs, PartitionPairs
from tests import ROOT
from tests.templates.cloudformation import load
from tests.unit.report import samples

GLUE = load(ROOT / "templates" / "results.yaml")["Resources"]
NODES = samples.planned_run().nodes
TABLES = {"trials": TRIALS, "verdicts": VERDICTS}


def csv_of(trials, results):
    return list(csv.DictReader(io.StringIO(trials_csv(trials, results, NODES))))


def lines(trials=samples.TRIALS):
    return csv_of(trials, samples.results(trials=trials))


@pytest.fixture
def read(tmp_path, duckdb):
    """Return a function that reads a Parquet file's rows with a SQL engine."""

    def rows(body):
        path = tmp_path / "table.parquet"
        path.write_bytes(body)
        relation = duckdb.sql(f"FROM '{path}'")
        return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]

    return rows


# -- the columns


def test_every_column_gets_a_value_from_somewhere():
    """A published column that nothing fills cannot be taken back."""
    results = samples.results(trials=samples.TRIALS)
    filled = set().union(*module._trial_rows(samples.TRIALS, results, NODES))
    assert {column.name for column in (*RUN, *module._TRIAL, *module.NODES)} <= filled
    sides = KindOfPairs(pairs=1, median=1.0)
    full = samples.verdict().model_copy(
        update={
            "partitions": PartitionPairs(within=sides, across=sides),
            "stack": Claim(ci95=(1, 2), ci_simultaneous=(1, 2), verdict="better", reason=None),
        }
    )
    filled = set().union(*verdict_rows(samples.results(verdicts=(full,))))
    assert {column.name for column in VERDICTS} <= filled


@pytest.mark.parametrize("name", TABLES)
def test_glue_describes_the_columns_that_are_written(name):
    properties = GLUE[f"{name.title()}Table"]["Properties"]["TableInput"]
    expected = glue_columns(TABLES[name])
    assert properties["StorageDescriptor"]["Columns"] == expected, "run `make docs`"
    assert properties["PartitionKeys"] == [{"Name": "day", "Type": "string"}]


@pytest.mark.parametrize("name", TABLES)
def test_names_are_good_for_athena_and_none_is_there_twice(name):
    names = [column.name for column in TABLES[name]]
    assert len(set(names)) == len(names)
    for each in names:
        assert re.fullmatch("[a-z][a-z0-9_]*", each)
    assert "day" not in names, "the partition is told by the object's key alone"


def test_published_columns_keep_their_places_and_new_ones_come_behind():
    published = PUBLISHED.read_text().split()
    assert [column.name for column in TRIALS] == published, "run `make docs`"


# -- the rows


def test_there_is_one_row_for_each_trial_with_its_quantities_in_units():
    rows = lines()
    assert len(rows) == len(samples.trials())
    throughput = next(row for row in rows if row["test"] == "tcp-1")
    assert float(throughput["throughput_bits_per_second"]) == samples.trials()[0].value
    assert (throughput["rtt_seconds"], throughput["loss_ratio"]) == ("", "")
    assert (throughput["retransmits"], throughput["seconds"]) == ("3", "10.0")
    rtt = next(row for row in rows if row["test"] == "rtt")
    assert float(rtt["rtt_seconds"]) == samples.trials()[1].value
    assert (rtt["throughput_bits_per_second"], rtt["loss_ratio"]) == ("", "0.0")


def test_all_metrics_of_a_trial_are_in_its_row():
    values = {"latency": 0.0002, "latency_p99": 0.0004}
    trial = samples.trials()[5].model_copy(update={"values": values})
    results = samples.results(trials=[trial])
    more = tuple(
        MetricOfTest(test="rtt", metric=name, unit="s", better="lower", statistic="")
        for name in values
    )
    results = results.model_copy(update={"metrics": results.metrics + more})
    (row,) = csv_of([trial], results)
    assert (row["latency_seconds"], row["latency_p99_seconds"]) == ("0.0002", "0.0004")


def test_a_failed_trial_has_no_quantity_whatever_it_left(read):
    first, *rest = samples.trials()
    interrupted = {"status": "failed", "reason": "was interrupted"}  # its value stays
    trials = [first.model_copy(update=interrupted), *rest]
    quantities = {column.name for column in (*METRICS, *DETAILS.values())}
    for table, missing in (
        (lines(trials), ""),
        (read(trials_parquet(trials, samples.results(trials=trials), NODES)), None),
    ):
        failed = [row for row in table if row["status"] == "failed"]
        assert [row["reason"] for row in failed] == ["was interrupted", "the server is busy"]
        for row in failed:
            assert {row[name] for name in quantities} == {missing}


def test_warm_ups_baselines_marks_and_nodes_have_columns():
    rows = lines()
    assert {row["block"] for row in rows if row["warm_up"] == "true"} == {"0"}
    assert {row["arm"] for row in rows if row["baseline"] == "true"} == {"baseline"}
    marked = [(row["block"], row["marks"]) for row in rows if row["marks"]]
    assert marked == [("2", "client_cpu"), ("5", "client_cpu")]
    first = rows[0]
    assert (first["client_instance_type"], first["server_kernel"]) == ("c5n.9xlarge", "6.12.0")
    assert (first["run_id"], first["lab_scale"]) == ("run-1", "")
    assert first["started_at"] == "2026-11-21T08:00:00.000Z"


def test_a_row_has_the_facts_of_the_node_that_was_in_the_place_then():
    def replacement(block, name, instance):
        return Replacement(
            place="treatment-1",
            arm="treatment",
            lost="treatment-1",
            why="is gone",
            node=Node(name=name, instance_id=instance),
            block=block,
            at="2026-11-21T08:01:00Z",
        )

    replacements = (
        replacement(2, "other", "i-2"),
        replacement(3, "treatment-1", "i-3"),  # its address, and so its name, is given again
    )
    results = samples.results().model_copy(update={"replacements": replacements})
    first = next(trial for trial in samples.trials() if trial.client == "treatment-1")
    there = [(1, None), (2, "other"), (3, "treatment-1"), (4, "unknown")]
    trials = [first.model_copy(update={"block": b, "client_node": name}) for b, name in there]
    rows = csv_of(trials, results)
    assert [row["client"] for row in rows] == ["treatment-1", "other", "treatment-1", "unknown"]
    assert [row["client_instance_id"] for row in rows] == ["i-01", "i-2", "i-3", ""]
    assert {row["server_instance_id"] for row in rows} == {"i-02"}


def test_options_are_sorted_so_that_the_same_ones_are_written_the_same_way():
    options = json.loads(lines()[0]["test_options"])
    assert list(options) == sorted(options)
    assert options["streams"] == 1
    assert "name" not in options


def test_parquet_holds_what_the_csv_holds(read):
    trials = samples.trials()
    rows = read(trials_parquet(trials, samples.results(trials=trials), NODES))
    assert [
        {name: "" if value is None else value for name, value in row.items()} for row in rows
    ] == [typed(row) for row in lines(trials)]


def typed(row):
    """A line of the CSV with its texts converted to values."""
    read_as = {
        "string": str,
        "boolean": "true".__eq__,
        "bigint": int,
        "double": float,
        # Times in the file are UTC without a time zone.
        "timestamp": lambda text: datetime.datetime.fromisoformat(text).replace(tzinfo=None),
    }
    return {c.name: row[c.name] and read_as[c.type](row[c.name]) for c in TRIALS}


def test_several_earlier_runs_are_one_row_that_names_all(read):
    few = samples.regression(
        baseline=Baseline("main", ("run-1", "run-2")), verdict="inconclusive", more_runs=2
    )
    (row,) = read(verdicts_parquet(samples.results(verdicts=(), regressions=(few,))))
    assert (row["compared_with_run"], row["more_runs"]) == ("run-1 run-2", 2)


def test_verdicts_and_regressions_are_rows(read):
    better, open_, earlier = read(verdicts_parquet(samples.results()))
    assert (better["verdict"], better["ratio"]) == ("better", 1.923)
    assert (better["ci_simultaneous_low"], better["ci_simultaneous_high"]) == (1.902, 1.945)
    assert (better["ceiling_name"], better["arm_ceiling_bits_per_second"]) == ("single-flow", 10e9)
    assert (better["marks"], better["compared_with_run"]) == ("client_cpu=2", None)
    assert (better["arm_pairs"], better["steadiness_verdict"]) == (1, "better")
    assert (open_["more_blocks"], open_["ceiling_name"], open_["marks"]) == (7, None, None)
    assert earlier["compared_with_run"] == "run-20261120-090000-ab12"
    assert earlier["steadiness_ratio"] is None
    assert (better["compared_with_run"], better["more_runs"]) == (None, None)
    assert {row["run_started_at"] for row in (better, open_, earlier)} == {
        datetime.datetime(2026, 11, 21, 8)
    }


def test_what_is_not_known_is_null(read):
    unknown = samples.verdict(
        ratio=None, ci95=None, ci_simultaneous=None, arm_median=None, verdict="inconclusive"
    )
    (row,) = read(verdicts_parquet(samples.results(verdicts=(unknown,), regressions=())))
    for name in ("ratio", "ci95_low", "ci95_high", "ci_simultaneous_low", "arm_median"):
        assert row[name] is None


def test_a_run_of_nothing_makes_tables_without_rows(read):
    nothing = samples.results(trials=[], verdicts=(), regressions=())
    assert read(trials_parquet([], nothing, {})) == read(verdicts_parquet(nothing)) == []
    assert trials_csv([], nothing, {}).count("\n") == 1


def test_a_table_lies_in_the_partition_of_the_day_the_run_started():
    late = samples.results(
        times=RunTimes(started_at="2026-11-21T23:59:59.999Z", written_at="2026-11-22T00:01:00Z")
    )
    assert parquet_key("trials", late) == "trials/day=2026-11-21/run-1.parquet"


# -- any table


EVERY = tuple(
    Column(name, name, "") for name in ("string", "boolean", "bigint", "double", "timestamp")
)


def test_values_keep_their_types_and_times_are_utc(read, duckdb, tmp_path):
    row = {
        "string": "a,\nb",
        "boolean": False,
        "bigint": 2**62,
        "double": 3,
        "timestamp": "2026-11-21T01:00:00.25+02:00",
    }
    body = to_parquet(EVERY, [row, {}])
    moment = datetime.datetime(2026, 11, 20, 23, 0, 0, 250_000)
    assert read(body) == [row | {"double": 3.0, "timestamp": moment}, dict.fromkeys(row)]
    described = duckdb.sql(f"DESCRIBE FROM '{tmp_path / 'table.parquet'}'").fetchall()
    assert [each[1] for each in described] == [
        *("VARCHAR", "BOOLEAN", "BIGINT", "DOUBLE", "TIMESTAMP"),
    ]
    compression = f"SELECT DISTINCT compression FROM parquet_metadata('{tmp_path}/table.parquet')"
    assert duckdb.sql(compression).fetchall() == [("SNAPPY",)]
    second = list(csv.reader(io.StringIO(to_csv(EVERY, [row]))))[1]
    assert second == ["a,\nb", "false", str(2**62), "3.0", "2026-11-20T23:00:00.250Z"]


def test_a_count_that_is_not_whole_is_refused_and_not_cut():
    with pytest.raises(ValueError, match="not a whole number"):
        to_csv(EVERY, [{"bigint": 1.5}])


@pytest.mark.parametrize("start", "=+-@\t\r\uff1d\uff0b\uff0d\uff20")
def test_no_cell_is_a_formula_in_a_spreadsheet_and_numbers_stay_numbers(start):
    columns = [Column("reason", "string", ""), Column("value", "double", "")]
    row = {"reason": f'{start}HYPERLINK("http://x")', "value": -1.5}
    _, (reason, value) = csv.reader(io.StringIO(to_csv(columns, [row]), newline=""))
    assert reason == f"'{row['reason']}"
    assert value == "-1.5"
