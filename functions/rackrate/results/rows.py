"""A run's trials and verdicts as tables: for spreadsheets, and for queries over all runs. Pure.

Every run has the same columns, which come from the metrics and details of all tools. So one table
definition in Glue (templates/results.yaml) covers the files of all runs.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from rackrate import registry
from rackrate.measure.trials import Trial
from rackrate.plan.model import Plan
from rackrate.plan.replacements import node_in
from rackrate.results.tables import Column, Row, Type, to_csv, to_parquet
from rackrate_contract.arms import Node
from rackrate_contract.document import Document
from rackrate_contract.results import Results
from rackrate_contract.trials import TrialKey
from rackrate_contract.verdicts import Ceiling, Claim, Ends, PartitionPairs, Steadiness, Verdict
from rackrate_text.units import metric_column

_RUN = (
    Column("run_id", "string", "the run"),
    Column("run_started_at", "timestamp", "when the run started, UTC"),
    Column("run_status", "string", "how the run ended"),
    Column("lab_scale", "double", "factor by which the network was scaled; empty on AWS"),
)
#: Columns named as fields of `Trial` hold them; `_trial_rows` fills the others. A new one may
#: stand anywhere: `PUBLISHED` has the order.
_TRIAL = (
    Column("block", "bigint", "the block; 0 is the warm-up"),
    Column("round", "bigint", "the round within its block"),
    Column("attempt", "bigint", "number of the attempt"),
    Column("status", "string", "`measured` or `failed`"),
    Column("reason", "string", "why it failed"),
    Column("warm_up", "boolean", "whether it is a warm-up trial, which no result uses"),
    Column("marks", "string", "its marks, separated by spaces"),
    Column("arm", "string", "the arm"),
    Column("baseline", "boolean", "whether the arm is the baseline"),
    Column("placement", "string", "the arm's placement strategy"),
    Column("test", "string", "the test's name"),
    Column("tool", "string", "the tool"),
    Column("tool_version", "string", "the tool's version, if its output has it"),
    Column("test_options", "string", "all the test's options as JSON, sorted, without its name"),
    Column("started_at", "timestamp", "when it started, by the kubelet's clock, UTC"),
    Column("finished_at", "timestamp", "when it finished, by the kubelet's clock, UTC"),
    Column("client", "string", "the client's node"),
    Column("server", "string", "the server's node"),
    Column("client_network", "string", "the client's network, `pod` or `host`"),
    Column("server_network", "string", "the server's network, `pod` or `host`"),
    Column("via", "string", "what the client connected to, `pod` or `service`"),
    Column("same_partition", "boolean", "whether both nodes are in one partition of a group"),
    Column("raw_key", "string", "the object with the tool's output"),
    Column("samples_key", "string", "the object with its raw values and series"),
)
_TYPES: dict[type, Type] = {int: "bigint", float: "double", str: "string"}
#: The columns of the tools' details.
DETAILS = {
    detail.name: Column(detail.column_name, _TYPES[detail.kind], detail.text)
    for detail in registry.details()
}
#: The facts about a trial's two nodes, by column.
_NODE_FACTS: Mapping[str, Callable[[Node], str | None]] = {
    "instance_type": lambda node: node.instance_type,
    "instance_id": lambda node: node.instance_id,
    "zone": lambda node: node.zone,
    "placement_group": lambda node: (
        None if node.ec2_placement is None else node.ec2_placement.group
    ),
    "partition": lambda node: node.partition,
    "capacity_type": lambda node: node.capacity_type,
    "node_group": lambda node: node.node_group,
    "machine_image": lambda node: node.image,
    "kernel": lambda node: node.kernel,
    "kubelet": lambda node: node.kubernetes,
    "container_runtime": lambda node: node.container_runtime,
    "cni": lambda node: node.cni,
    "network_driver": lambda node: node.drivers,
    "mtu": lambda node: node.mtus,
    "network_queues": lambda node: node.queues,
}

VERDICTS = (
    *_RUN,
    Column(
        "compared_with_run",
        "string",
        "the earlier runs that it is compared with, separated by spaces, or empty",
    ),
    Column("test", "string", "the test's name"),
    Column("test_options", "string", "all the test's options as JSON, sorted, without its name"),
    Column("metric", "string", "the metric"),
    Column("unit", "string", "the unit of the medians"),
    Column("better", "string", "`higher` or `lower`"),
    Column("arm", "string", "the arm"),
    Column("baseline", "string", "what it is compared with"),
    Column("verdict", "string", "the verdict"),
    Column("reason", "string", "why it is inconclusive"),
    Column("ratio", "double", "the arm's geometric mean divided by the baseline's"),
    Column("ci95_low", "double", "lower end of the 95 % interval of this ratio alone"),
    Column("ci95_high", "double", "upper end of that interval"),
    Column("ci_simultaneous_low", "double", "lower end of the adjusted interval, cut to the word"),
    Column("ci_simultaneous_high", "double", "upper end of that interval"),
    Column("confidence_simultaneous", "double", "the confidence of that interval"),
    Column("threshold", "double", "differences below this share do not matter"),
    Column("arm_median", "double", "median of the arm's trials, in `unit`"),
    Column("baseline_median", "double", "median of the baseline's trials, in `unit`"),
    Column("arm_mean", "double", "geometric mean of the arm, which `ratio` divides"),
    Column("baseline_mean", "double", "geometric mean of the baseline, by which it divides"),
    Column("blocks", "bigint", "blocks in which both were measured"),
    Column("arm_pairs", "bigint", "pairs of nodes of the arm"),
    Column("baseline_pairs", "bigint", "pairs of nodes of the baseline"),
    Column("scope", "string", "what the claim applies to"),
    Column("more_blocks", "bigint", "about how many more blocks would settle it"),
    Column("span_seconds", "double", "from the start of the first trial to the end of the last"),
    Column("stack_verdict", "string", "the word for this stack's placement, with enough pairs"),
    Column("stack_low", "double", "lower end of the adjusted interval of this stack's placement"),
    Column("stack_high", "double", "upper end of that interval"),
    Column("more_pairs", "bigint", "about how many more pairs per arm would settle that"),
    Column("ceiling_name", "string", "the documented limit of a throughput"),
    Column("ceiling_explains", "boolean", "whether the limits explain how the arms compare"),
    Column("arm_ceiling_bits_per_second", "double", "the arm's limit, scaled"),
    Column("baseline_ceiling_bits_per_second", "double", "the baseline's limit, scaled"),
    Column("marks", "string", "`name=trials` of each mark, separated by spaces"),
    Column("arm_spread", "double", "the arm's variability (CV)"),
    Column("baseline_spread", "double", "the baseline's variability (CV)"),
    Column("steadiness_ratio", "double", "the arm's variability divided by the baseline's"),
    Column("steadiness_low", "double", "lower end of that ratio's interval that decides"),
    Column("steadiness_high", "double", "upper end of that interval"),
    Column("steadiness_verdict", "string", "`better` if the arm is steadier"),
    Column("kubernetes_version", "string", "the cluster's version"),
    Column("tool_image", "string", "the image of the pods"),
    Column("more_runs", "bigint", "how many more earlier runs a verdict needs"),
    Column("pairs_within_partition", "bigint", "the arm's pairs within one partition"),
    Column("median_within_partition", "double", "their median in `unit`"),
    Column("pairs_across_partitions", "bigint", "the arm's pairs across partitions"),
    Column("median_across_partitions", "double", "their median in `unit`"),
)


METRICS = tuple(
    Column(metric_column(metric.name, metric.unit), "double", f"the trial's {metric.name}")
    for metric in registry.metrics()
)
NODES = tuple(
    Column(f"{side}_{name}", "string", f"the {side}'s node: {name.replace('_', ' ')}")
    for side in ("client", "server")
    for name in _NODE_FACTS
)
#: The names of the columns of trials in the order of their publication. The order must not change,
#: because one table covers the files of all runs. `make docs` appends a new tool's columns.
PUBLISHED = Path(__file__).with_name("trial_columns.txt")


def _in_published_order(columns: Iterable[Column]) -> tuple[Column, ...]:
    places = {name: place for place, name in enumerate(PUBLISHED.read_text().split())}
    return tuple(sorted(columns, key=lambda column: places.get(column.name, len(places))))


#: The columns of a trial. A failed trial has no quantities.
TRIALS = _in_published_order((*_RUN, *_TRIAL, *METRICS, *DETAILS.values(), *NODES))


def trials_csv(trials: Sequence[Trial], results: Results, nodes: Mapping[str, Node]) -> str:
    """The trials as CSV: one line for each trial, with the columns `TRIALS`.

    Args:
        trials: the stored trials, including the warm-up.
        results: the run's results.
        nodes: the nodes that the plan found, by name.
    """
    return to_csv(TRIALS, _trial_rows(trials, results, nodes))


def trials_parquet(trials: Sequence[Trial], results: Results, nodes: Mapping[str, Node]) -> bytes:
    """The trials as a Parquet file, with the columns `TRIALS`."""
    return to_parquet(TRIALS, _trial_rows(trials, results, nodes))


def verdicts_parquet(results: Results) -> bytes:
    """The verdicts and regressions as a Parquet file, with the columns `VERDICTS`."""
    return to_parquet(VERDICTS, _verdict_rows(results))


def parquet_key(table: Literal["trials", "verdicts"], results: Results) -> str:
    """The key of a run's file of a table, in the partition of the day of the run's start, UTC."""
    # The start is in ISO 8601 and UTC, so its first ten characters are the day.
    return f"{table}/day={results.run.started_at[:10]}/{results.run.id}.parquet"


def _trial_rows(trials: Sequence[Trial], results: Results, nodes: Mapping[str, Node]) -> list[Row]:
    options = _options(results)
    metrics = {
        (each.test, each.metric): metric_column(each.metric, each.unit) for each in results.metrics
    }
    baselines = {arm.name for arm in results.arms if arm.baseline}
    # A plan is stored before its nodes' interfaces are known.
    planned = dict(nodes) | {node.name: node for arm in results.arms for node in arm.nodes}

    def node(place: str, name: str, block: int) -> Node | None:
        return node_in(place, name, block, planned, results.replacements)

    marks: dict[TrialKey, list[str]] = defaultdict(list)
    for mark in results.marks:
        marks[mark.key].append(mark.mark)
    return [
        {
            **_of_run(results),
            **_same(_TRIAL, trial),
            "marks": " ".join(marks.get(trial.key, ())) or None,
            "baseline": trial.arm in baselines,
            "test_options": options[trial.test],
            "client": trial.client_name,
            "server": trial.server_name,
            "same_partition": client.shares_partition(server) if client and server else None,
            **_quantities(trial, metrics),
            **_facts("client", client),
            **_facts("server", server),
        }
        for trial in trials
        for client in [node(trial.client, trial.client_name, trial.block)]
        for server in [node(trial.server, trial.server_name, trial.block)]
    ]


def _of_run(results: Results) -> Row:
    return {
        "run_id": results.run.id,
        "run_started_at": results.run.started_at,
        "run_status": results.run.status,
        "lab_scale": results.run.lab_scale,
    }


def _same(columns: Iterable[Column], document: Document) -> Row:
    """The columns that are named as fields of the document and hold them."""
    fields = type(document).model_fields
    return {each.name: getattr(document, each.name) for each in columns if each.name in fields}


def _options(results: Results) -> dict[str, str]:
    """The options of each test in a canonical form, so that equal options give equal text."""
    return {
        test.name: json.dumps(test.model_dump(mode="json", exclude={"name"}), sort_keys=True)
        for test in Plan.from_json(results.plan).tests
    }


def _quantities(trial: Trial, metrics: Mapping[tuple[str, str], str]) -> Row:
    """The measured quantities; none for a failed trial, even if it has values."""
    if not trial.is_measured:
        return {}
    return {
        **{column.name: trial.details.get(name) for name, column in DETAILS.items()},
        **{metrics[trial.test, metric]: value for metric, value in trial.values.items()},
    }


def _facts(side: str, node: Node | None) -> Row:
    if node is None:
        return {}
    return {f"{side}_{name}": fact(node) for name, fact in _NODE_FACTS.items()}


def _verdict_rows(results: Results) -> list[Row]:
    options = _options(results)
    shared = {
        **_of_run(results),
        "kubernetes_version": results.versions.kubernetes,
        "tool_image": results.versions.image,
    }
    return [
        {**shared, "test_options": options[verdict.test], **_verdict_row(verdict)}
        for verdict in (*results.verdicts, *results.regressions)
    ]


def _verdict_row(verdict: Verdict) -> Row:
    return {
        **_same(VERDICTS, verdict),
        "compared_with_run": " ".join(verdict.baseline.runs) or None,
        "baseline": verdict.baseline.written(),
        **_ends("ci95", verdict.ci95),
        **_ends("ci_simultaneous", verdict.ci_simultaneous),
        "arm_pairs": verdict.pairs.arm,
        "baseline_pairs": verdict.pairs.baseline,
        **_of_partitions(verdict.partitions),
        **_of_stack(verdict.stack),
        **_of_ceiling(verdict.ceiling),
        "marks": " ".join(f"{k}={n}" for k, n in sorted(verdict.marks.items())) or None,
        **_of_steadiness(verdict.steadiness),
    }


def _of_partitions(partitions: PartitionPairs | None) -> Row:
    if partitions is None:
        return {}
    return {
        "pairs_within_partition": partitions.within.pairs,
        "pairs_across_partitions": partitions.across.pairs,
        "median_within_partition": partitions.within.median,
        "median_across_partitions": partitions.across.median,
    }


def _of_stack(claim: Claim | None) -> Row:
    if claim is None:
        return {}
    return {
        "stack_verdict": claim.verdict,
        **_ends("stack", claim.ci_simultaneous),
    }


def _of_ceiling(ceiling: Ceiling | None) -> Row:
    if ceiling is None:
        return {}
    return {
        "ceiling_name": ceiling.name,
        "ceiling_explains": ceiling.explains,
        "arm_ceiling_bits_per_second": ceiling.arm,
        "baseline_ceiling_bits_per_second": ceiling.baseline,
    }


def _of_steadiness(steadiness: Steadiness | None) -> Row:
    if steadiness is None:
        return {}
    return {
        "arm_spread": steadiness.arm,
        "baseline_spread": steadiness.baseline,
        "steadiness_ratio": steadiness.ratio,
        **_ends("steadiness", steadiness.ci_simultaneous),
        "steadiness_verdict": steadiness.verdict,
    }


def _ends(name: str, interval: Ends | None) -> Row:
    low, high = interval or (None, None)
    return {f"{name}_low": low, f"{name}_high": high}
