"""The queries of docs/athena.md run as they are in DuckDB, on files of runs."""

from __future__ import annotations

import datetime
import re
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import pytest

from rackrate.results.build import RunFailure, RunTimes
from rackrate.results.rows import parquet_key, trials_parquet, verdicts_parquet
from rackrate_contract.arms import Node
from tests import ROOT
from tests.templates.cloudformation import load
from tests.unit import builders
from tests.unit.report import samples

TEXT = (ROOT / "docs" / "athena.md").read_text()
#: The queries by their headings.
QUERIES = dict(re.findall(r"(?m)^### (.+)$(?:(?!^#).*\n)*?```sql\n((?:.*\n)*?)```", TEXT))
#: The files that the page's commands write, by their names.
FILES = dict(re.findall(r"cat > (\S+) <<'SQL'\n((?:.*\n)*?)SQL\n", TEXT))
NODES = {"kernel": "6.12.0", "cni": "amazon-k8s-cni:v1.20.4", "image": "ami-1"}
LATER = {"kernel": "6.18.2", "cni": "amazon-k8s-cni:v1.21.0", "image": "ami-2"}
RESET = "Connection reset by peer"


def trials(day, *, lost=(), factor=1.0):
    """The sample run's trials, with one more pair in the treatment that is a fifth slower."""
    all_trials = []
    tests = {test.name: test for test in samples.TESTS}
    for sample in samples.trials():

        def trial_between(client, server, value, of=sample):
            key = replace(of.key, client=client, server=server)
            return builders.trial_of(
                key,
                tests[of.test],
                value,
                reason=(of.reason or RESET) if value is None else None,
                started_at=f"{day}T08:00:10Z",
                finished_at=f"{day}T08:00:10Z",
                tool_version=of.tool_version,
                details=of.details,
            )

        is_lost = sample.value is None or (sample.block, sample.arm, sample.test) in lost
        value = None if is_lost else sample.value * factor
        all_trials.append(trial_between(sample.client, sample.server, value))
        if sample.arm == "treatment" and sample.test == "tcp-1":
            # The pair stays the same, and its direction alternates.
            ends = ["treatment-4", "treatment-3"][:: 1 if sample.block % 2 else -1]
            all_trials.append(trial_between(*ends, None if value is None else value * 0.8))
    return all_trials


def put(directory, run_id, day, *, analysis=None, failure=None, facts=NODES, **choices):
    """Write a run's tables to the same paths as the report."""
    trials_of_day = trials(day, **choices)
    arms = tuple(
        arm.model_copy(update={"nodes": tuple(n.model_copy(update=facts) for n in arm.nodes)})
        for arm in samples.arms()
    )
    planned = samples.planned_run(run_id=run_id, arms=arms)
    more = {name: Node(name=name, **facts) for name in ("treatment-3", "treatment-4")}
    results = samples.results(
        trials=trials_of_day,
        planned=planned,
        times=RunTimes(started_at=f"{day}T08:00:00Z", written_at=f"{day}T08:05:00Z"),
        failure=failure,
        **(analysis or {}),
    )
    for table, body in (
        ("trials", trials_parquet(trials_of_day, results, planned.nodes | more)),
        ("verdicts", verdicts_parquet(results)),
    ):
        path = directory / parquet_key(table, results)
        path.parent.mkdir(parents=True)
        path.write_bytes(body)


@pytest.fixture(scope="module")
def ask(tmp_path_factory, duckdb):
    """Return a function that runs the query of a heading. It returns a list of rows by column."""
    directory = tmp_path_factory.mktemp("bucket")
    worse = {"verdicts": (samples.verdict(verdict="worse", ratio=0.9),)}
    lost = {(1, "treatment", "tcp-1"), (2, "baseline", "tcp-1")}
    put(directory, "before", "2026-10-31", lost=lost)
    put(directory, "first", "2026-11-02")
    put(directory, "second", "2026-11-09", lost=lost)
    put(directory, "third", "2026-11-16", factor=0.9, facts=LATER, analysis=worse)
    broken = RunFailure("TrialsLost", "too many")
    put(directory, "broken", "2026-11-17", failure=broken, lost=lost, facts=LATER, factor=0.9)
    drop_column(duckdb, directory / "trials" / "day=2026-10-31" / "before.parquet")
    engine = duckdb.connect()
    with chdir(directory):
        engine.sql(FILES["tables.sql"])

    def rows(heading, query=None):
        with chdir(directory):
            answer = engine.sql(query or QUERIES[heading])
            return [dict(zip(answer.columns, row, strict=True)) for row in answer.fetchall()]

    return rows


def drop_column(duckdb, path):
    """Make a file what an older version wrote, without a column that a query names."""
    older = path.with_suffix(".older")
    columns = f"SELECT * EXCLUDE (client_machine_image, day) FROM '{path}'"
    duckdb.sql(f"COPY ({columns}) TO '{older}' (FORMAT parquet)")
    older.replace(path)


def test_there_are_five_queries_and_the_test_knows_each():
    assert len(QUERIES) == TEXT.count("```sql") == 5
    source = Path(__file__).read_text()
    assert all(source.count(f'ask("{heading}")') == 1 for heading in QUERIES)


@pytest.mark.parametrize("heading", QUERIES)
def test_every_query_reads_the_days_it_names_only(heading, ask):
    query = QUERIES[heading]
    assert query.count("WHERE day >= '2026-11-01'") == 1
    assert ask(heading, query) != ask(heading, query.replace("2026-11-01", "2026-10-31"))


def test_the_query_among_the_commands_counts_the_trials_of_each_run(ask):
    rows = ask("", FILES["query.sql"])
    assert {row["run_id"] for row in rows} == {"first", "second", "third", "broken"}
    assert {row["status"] for row in rows} == {"measured", "failed"}
    assert {row["day"] for row in rows if row["run_id"] == "third"} == {"2026-11-16"}


def test_the_tables_have_the_partition_that_queries_name():
    for name in ("trials", "verdicts"):
        resource = load(ROOT / "templates" / "results.yaml")["Resources"][f"{name.title()}Table"]
        table = resource["Properties"]["TableInput"]
        parameters = table["Parameters"]
        place, _ = parameters["storage.location.template"]["Fn::Sub"]
        # Athena writes the day as ${day}, which a template has to write as ${!day}.
        assert place == "s3://${BucketName}/" + name + "/day=${!day}/"
        key = parquet_key(name, samples.results())
        assert key == f"{name}/day=2026-11-21/run-1.parquet"
        assert parameters["projection.enabled"] == "true"
        assert parameters["projection.day.type"] == "date"
        assert parameters["projection.day.format"] == "yyyy-MM-dd"
        assert parameters["projection.day.range"] == "2026-01-01,NOW"
        assert table["PartitionKeys"] == [{"Name": "day", "Type": "string"}]


def test_arms_over_time(ask):
    rows = ask("How did the arms develop?")
    order = [(row["test"], row["arm"], row["day"]) for row in rows]
    days = ("2026-11-02", "2026-11-09", "2026-11-16", "2026-11-17")
    assert order == [
        (test, arm, day)
        for test in ("rtt", "tcp-1")
        for arm in ("baseline", "treatment")
        for day in days
    ]
    baseline = {row["day"]: row for row in rows if order_of(row) == ("tcp-1", "baseline")}
    assert [baseline[day]["trials"] for day in days] == [6, 5, 6, 5], "neither lost nor warm-up"
    assert baseline[days[0]]["median_bits_per_second"] == pytest.approx(4.95e9, rel=0.003)
    assert baseline[days[2]]["median_bits_per_second"] == pytest.approx(
        0.9 * baseline[days[0]]["median_bits_per_second"]
    )
    assert baseline[days[0]]["median_rtt_seconds"] is None
    rtt = next(row for row in rows if order_of(row) == ("rtt", "treatment"))
    assert rtt["median_rtt_seconds"] == pytest.approx(155e-6, rel=0.02)
    assert rtt["p99_rtt_seconds"] == pytest.approx(155e-6 * 1.03, rel=0.002)
    assert rtt["median_bits_per_second"] is None


def order_of(row):
    return row["test"], row["arm"]


def test_verdicts_over_time(ask):
    rows = ask("Which verdicts changed?")
    verdicts = [(row["run_id"], row["test"], row["verdict"], row["verdict_before"]) for row in rows]
    assert verdicts == [
        ("first", "rtt", "inconclusive", None),
        ("second", "rtt", "inconclusive", "inconclusive"),
        ("first", "tcp-1", "better", None),
        ("second", "tcp-1", "better", "better"),
        ("third", "tcp-1", "worse", "better"),
    ]
    last = rows[-1]
    assert (last["ratio"], last["ci_simultaneous_low"]) == (0.9, 1.902)
    assert last["run_started_at"] == datetime.datetime(2026, 11, 16, 8)


def test_slow_pairs(ask):
    rows = ask("Which pairs of nodes are slow?")
    slow = [(row["arm"], row["node"], row["other_node"], row["trials"]) for row in rows]
    assert slow == [
        ("treatment", "treatment-3", "treatment-4", 22),
        ("baseline", "baseline-1", "baseline-2", 22),
        ("treatment", "treatment-1", "treatment-2", 22),
    ]
    assert [row["share_of_best"] for row in rows] == pytest.approx([0.8, 1, 1])


def test_lost_trials(ask):
    rows = ask("Why were trials lost?")
    causes = [tuple(row.values()) for row in rows]
    # Each run has the sample's one lost trial. Two runs lost three more each.
    assert causes == [
        (RESET, "iperf3", 6, 2, "2026-11-09", "2026-11-17"),
        ("the server is busy", "ping", 4, 4, "2026-11-02", "2026-11-17"),
    ]


def test_changes_of_the_baseline(ask):
    rows = ask("Did a kernel, a CNI or a machine image move the baseline?")
    changes = [
        (row["test"], row["client_kernel"], row["client_cni"], row["first_day"], row["runs"])
        for row in rows
    ]
    assert changes == [
        ("rtt", "6.12.0", "amazon-k8s-cni:v1.20.4", "2026-11-02", 2),
        ("rtt", "6.18.2", "amazon-k8s-cni:v1.21.0", "2026-11-16", 2),
        ("tcp-1", "6.12.0", "amazon-k8s-cni:v1.20.4", "2026-11-02", 2),
        ("tcp-1", "6.18.2", "amazon-k8s-cni:v1.21.0", "2026-11-16", 2),
    ]
    assert [row["throughput_change"] for row in rows[:3]] == [None] * 3
    assert rows[3]["throughput_change"] == pytest.approx(-0.1, abs=0.005)
    assert rows[1]["rtt_change"] == pytest.approx(-0.1, abs=0.005)
    assert {row["client_machine_image"] for row in rows} == {"ami-1", "ami-2"}
