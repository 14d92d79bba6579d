"""A run's trials and verdicts as tables: for spreadsheets, and for queries over all runs. Pure.

Every run has the same columns, which come from the metrics and details of all tools. So one table
definition in Glue (templates/results.yaml) covers the files of all runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from rackrate import registry
from rackrate.measure.trials import Trial
from rackrate.plan.replacements import node_in
from rackrate.results.tables import to_parquet
from rackrate_contract import tables
from rackrate_contract.arms import Node
from rackrate_contract.results import Results
from rackrate_contract.tables import Column, Row, Type
from rackrate_contract.trials import TrialKey
from rackrate_text.units import metric_column

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
    Column("server", "string", "the server's node, or the endpoint"),
    Column("client_network", "string", "the client's network, `pod` or `host`"),
    Column("server_network", "string", "the server's network, `pod` or `host`, if it is a pod"),
    Column("via", "string", "what the client connected to, `pod`, `service` or `endpoint`"),
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
TRIALS = _in_published_order((*tables.RUN, *_TRIAL, *METRICS, *DETAILS.values(), *NODES))


def trials_csv(trials: Sequence[Trial], results: Results, nodes: Mapping[str, Node]) -> str:
    """The trials as CSV: one line for each trial, with the columns `TRIALS`.

    Args:
        trials: the stored trials, including the warm-up.
        results: the run's results.
        nodes: the nodes that the plan found, by name.
    """
    return tables.to_csv(TRIALS, _trial_rows(trials, results, nodes))


def trials_parquet(trials: Sequence[Trial], results: Results, nodes: Mapping[str, Node]) -> bytes:
    """The trials as a Parquet file, with the columns `TRIALS`."""
    return to_parquet(TRIALS, _trial_rows(trials, results, nodes))


def verdicts_parquet(results: Results) -> bytes:
    """The verdicts and regressions as a Parquet file, with the columns `VERDICTS`."""
    return to_parquet(tables.VERDICTS, tables.verdict_rows(results))


def parquet_key(table: Literal["trials", "verdicts"], results: Results) -> str:
    """The key of a run's file of a table, in the partition of the day of the run's start, UTC."""
    # The start is in ISO 8601 and UTC, so its first ten characters are the day.
    return f"{table}/day={results.run.started_at[:10]}/{results.run.id}.parquet"


def _trial_rows(trials: Sequence[Trial], results: Results, nodes: Mapping[str, Node]) -> list[Row]:
    options = tables.options_of(results)
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
            **tables.of_run(results),
            **tables.same(_TRIAL, trial),
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
