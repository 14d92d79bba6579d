"""A run's trials and verdicts as tables: for spreadsheets, and for queries over all runs. Pure.

Every run has the same columns, made of the metrics of all tools and a fixed list of details, so
that its files lie side by side under one definition in Glue (templates/results.yaml).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rackrate import tools
from rackrate.report.results import KEY
from rackrate.report.tables import Column, Row, to_csv, to_parquet

Json = dict[str, Any]
Trial = Mapping[str, Any]

_UNITS = {"bit/s": "bits_per_second", "s": "seconds"}

_RUN = (
    Column("run_id", "string", "the run"),
    Column("run_started_at", "timestamp", "when the run started, UTC"),
    Column("run_status", "string", "how the run ended"),
    Column("lab_scale", "double", "factor by which the network was scaled; empty on AWS"),
)
_TRIAL = (
    Column("block", "bigint", "the block; 0 is the warm-up"),
    Column("round", "bigint", "the round within its block"),
    Column("attempt", "bigint", "which attempt it was"),
    Column("status", "string", "`measured` or `failed`"),
    Column("reason", "string", "why it failed"),
    Column("warm_up", "boolean", "is it of the warm-up, which counts for nothing?"),
    Column("marks", "string", "its marks, with spaces between them"),
    Column("arm", "string", "the arm"),
    Column("baseline", "boolean", "is that the baseline?"),
    Column("placement", "string", "the arm's placement strategy"),
    Column("test", "string", "the test's name"),
    Column("tool", "string", "the tool"),
    Column("tool_version", "string", "the version the tool told"),
    Column("test_options", "string", "all the test's options as JSON, sorted, without its name"),
    Column("started_at", "timestamp", "when it started, by the kubelet's clock, UTC"),
    Column("finished_at", "timestamp", "when it finished, likewise"),
    Column("client", "string", "the client's node"),
    Column("server", "string", "the server's node"),
    Column("client_network", "string", "the client's network, `pod` or `host`"),
    Column("server_network", "string", "the server's network, `pod` or `host`"),
    Column("raw_key", "string", "the object with what the tool printed"),
    Column("samples_key", "string", "the object with its raw values and series"),
)
#: What tools tell beyond their metrics. A detail of this name, or of the name in brackets behind
#: it in `DETAIL_NAMES`, is in the column; details of other names are not in the tables.
DETAILS = (
    Column("seconds", "double", "how long the tool measured"),
    Column("sent_bits_per_second", "double", "what the sender counted"),
    Column("forward_bits_per_second", "double", "from client to server, of both directions"),
    Column("reverse_bits_per_second", "double", "from server to client, of both directions"),
    Column("sent_bytes", "bigint", "bytes sent"),
    Column("received_bytes", "bigint", "bytes received"),
    Column("retransmits", "bigint", "segments sent again"),
    Column("congestion_window_mean_bytes", "double", "mean of the intervals' congestion windows"),
    Column("congestion_window_max_bytes", "bigint", "the largest of them"),
    Column("mss_bytes", "bigint", "TCP's maximum segment size"),
    Column("tcp_congestion_control", "string", "TCP's congestion control, such as `cubic`"),
    Column("rtt_mean_seconds", "double", "mean of the round-trip times that TCP estimated"),
    Column("packets", "bigint", "datagrams sent"),
    Column("lost_packets", "bigint", "datagrams lost"),
    Column("out_of_order_packets", "bigint", "datagrams out of order"),
    Column("jitter_seconds", "double", "jitter of datagrams, mean of the streams"),
    Column("loss_ratio", "double", "share of packets or messages lost"),
    Column("client_cpu_percent", "double", "the client's CPU time; 100 % is one CPU"),
    Column("server_cpu_percent", "double", "the server's, likewise"),
    Column("transmitted_packets", "bigint", "echo requests sent"),
    Column("received_packets", "bigint", "echo replies received"),
    Column("duplicate_packets", "bigint", "echo replies received again"),
    Column("sent_messages", "bigint", "messages sent"),
    Column("responses", "bigint", "messages answered"),
    Column("dropped_messages", "bigint", "messages without an answer"),
    Column("duplicated_messages", "bigint", "messages answered again"),
    Column("out_of_order_messages", "bigint", "messages answered out of order"),
    Column("min_seconds", "double", "the shortest round trip or latency"),
    Column("mean_seconds", "double", "their mean"),
    Column("max_seconds", "double", "the longest of them"),
    Column("started_at_epoch_seconds", "bigint", "when it started, by the client's clock"),
    Column("first_reply_at_epoch_seconds", "double", "when the first reply came, likewise"),
)
#: Columns that say what they count where the detail's own name does not.
DETAIL_NAMES = {
    "transmitted_packets": "transmitted",
    "received_packets": "received",
    "duplicate_packets": "duplicates",
}
#: Facts of a trial's two nodes: column, and the fact's name in a node.
_NODE_FACTS = {
    "instance_type": "instance_type",
    "instance_id": "instance_id",
    "zone": "zone",
    "node_group": "node_group",
    "machine_image": "image",
    "kernel": "kernel",
    "kubelet": "kubernetes",
    "container_runtime": "container_runtime",
    "cni": "cni",
}

VERDICTS = (
    *_RUN,
    Column("compared_with_run", "string", "the earlier run it is compared with; else empty"),
    Column("test", "string", "the test's name"),
    Column("test_options", "string", "all the test's options as JSON, sorted, without its name"),
    Column("metric", "string", "the metric"),
    Column("unit", "string", "the unit of the medians"),
    Column("better", "string", "`higher` or `lower`"),
    Column("arm", "string", "the arm"),
    Column("baseline", "string", "what it is compared with"),
    Column("verdict", "string", "the verdict"),
    Column("reason", "string", "why it is inconclusive"),
    Column("ratio", "double", "of the geometric means, arm to baseline"),
    Column("ci95_low", "double", "lower end of the 95 % interval of this ratio by itself"),
    Column("ci95_high", "double", "its upper end"),
    Column("ci_simultaneous_low", "double", "lower end of the interval that decides"),
    Column("ci_simultaneous_high", "double", "its upper end"),
    Column("confidence_simultaneous", "double", "the confidence of that interval"),
    Column("threshold", "double", "the share below which a difference does not matter"),
    Column("arm_median", "double", "median of the arm's trials, in `unit`"),
    Column("baseline_median", "double", "median of the baseline's, in `unit`"),
    Column("blocks", "bigint", "blocks both were measured in"),
    Column("arm_pairs", "bigint", "pairs of nodes of the arm"),
    Column("baseline_pairs", "bigint", "pairs of nodes of the baseline"),
    Column("scope", "string", "what may be claimed"),
    Column("more_blocks", "bigint", "blocks that would settle it"),
    Column("more_pairs", "bigint", "pairs that would settle it"),
    Column("ceiling_name", "string", "the documented limit of a throughput"),
    Column("ceiling_explains", "boolean", "do the limits explain how the arms compare?"),
    Column("arm_ceiling_bits_per_second", "double", "the arm's limit, scaled"),
    Column("baseline_ceiling_bits_per_second", "double", "the baseline's limit, scaled"),
    Column("marks", "string", "`name=trials` of each mark, with spaces between them"),
    Column("arm_spread", "double", "how much the arm scatters"),
    Column("baseline_spread", "double", "how much the baseline scatters"),
    Column("steadiness_ratio", "double", "of the spreads, arm to baseline"),
    Column("steadiness_low", "double", "lower end of its 95 % interval"),
    Column("steadiness_high", "double", "its upper end"),
    Column("steadiness_verdict", "string", "`better` is steadier"),
    Column("kubernetes_version", "string", "the cluster's version"),
    Column("tool_image", "string", "the image the pods ran"),
)


def _metric_columns() -> tuple[Column, ...]:
    """A column for each metric of each tool, each once."""
    found = {
        column: Column(column, "double", f"the trial's {metric.name}")
        for tool in tools.names()
        for metric in tools.load_test({"name": "any", "tool": tool}).metrics
        for column in [metric_column(metric.name, metric.unit)]
    }
    return tuple(found.values())


def metric_column(metric: str, unit: str) -> str:
    """The column of a metric, such as `throughput_bits_per_second`."""
    return f"{metric}_{_UNITS[unit]}"


METRICS = _metric_columns()
NODES = tuple(
    Column(f"{side}_{name}", "string", f"the {side}'s node: {name.replace('_', ' ')}")
    for side in ("client", "server")
    for name in _NODE_FACTS
)
#: The columns of a trial; quantities are empty in one that failed.
TRIALS = (*_RUN, *_TRIAL, *METRICS, *DETAILS, *NODES)


def trials_csv(trials: Sequence[Trial], results: Mapping[str, Any]) -> str:
    """One line for each trial, of the columns `TRIALS`.

    Args:
        trials: the stored trials, warm-ups among them.
        results: results.json.
    """
    return to_csv(TRIALS, _trial_rows(trials, results))


def trials_parquet(trials: Sequence[Trial], results: Mapping[str, Any]) -> bytes:
    """The same as a Parquet file."""
    return to_parquet(TRIALS, _trial_rows(trials, results))


def verdicts_parquet(results: Mapping[str, Any]) -> bytes:
    """The verdicts and regressions of results.json, of the columns `VERDICTS`, as Parquet."""
    return to_parquet(VERDICTS, _verdict_rows(results))


def parquet_key(table: str, results: Mapping[str, Any]) -> str:
    """Where a table's part of a run is kept: in the partition of the day it started, UTC."""
    run = results["run"]
    # ISO 8601, and stored in UTC.
    return f"{table}/day={run['started_at'][:10]}/{run['id']}.parquet"


def _trial_rows(trials: Sequence[Trial], results: Mapping[str, Any]) -> list[Row]:
    options = _options(results)
    metrics = {
        (each["test"], each["metric"]): metric_column(each["metric"], each["unit"])
        for each in results["metrics"]
    }
    baselines = {arm["name"] for arm in results["arms"] if arm["baseline"]}
    marks: dict[tuple[Any, ...], list[str]] = {}
    for mark in results["marks"]:
        marks.setdefault(tuple(mark[name] for name in KEY), []).append(str(mark["mark"]))
    return [
        {
            **_of_run(results),
            **{column.name: trial.get(column.name) for column in _TRIAL},
            "warm_up": bool(trial.get("warm_up")),
            "marks": " ".join(marks.get(tuple(trial.get(name) for name in KEY), [])) or None,
            "baseline": trial["arm"] in baselines,
            "test_options": options[trial["test"]],
            **_quantities(trial, metrics),
            **_facts(trial),
        }
        for trial in trials
    ]


def _of_run(results: Mapping[str, Any]) -> Json:
    run = results["run"]
    return {
        "run_id": run["id"],
        "run_started_at": run["started_at"],
        "run_status": run["status"],
        "lab_scale": run["lab_scale"],
    }


def _options(results: Mapping[str, Any]) -> dict[str, str]:
    """The options of each test, written the same way whenever they are the same."""
    return {
        test["name"]: json.dumps({k: v for k, v in test.items() if k != "name"}, sort_keys=True)
        for test in results["plan"]["tests"]
    }


def _quantities(trial: Trial, metrics: Mapping[tuple[str, str], str]) -> Json:
    """What was measured; nothing of a trial that failed, whatever it left."""
    if trial["status"] != "measured":
        return {}
    details = trial.get("details") or {}
    values = trial.get("values") or {}
    return {
        **{c.name: details.get(DETAIL_NAMES.get(c.name, c.name)) for c in DETAILS},
        **{metrics[trial["test"], metric]: value for metric, value in values.items()},
    }


def _facts(trial: Trial) -> Json:
    nodes = {side: trial.get(f"{side}_node") or {} for side in ("client", "server")}
    return {
        f"{side}_{name}": node.get(fact)
        for side, node in nodes.items()
        for name, fact in _NODE_FACTS.items()
    }


def _verdict_rows(results: Mapping[str, Any]) -> list[Row]:
    options = _options(results)
    shared = {
        **_of_run(results),
        "kubernetes_version": results["versions"]["kubernetes"],
        "tool_image": results["versions"]["image"],
    }
    return [
        {**shared, "test_options": options[verdict["test"]], **_verdict(verdict)}
        for verdict in [*results["verdicts"], *results["regressions"]]
    ]


def _verdict(verdict: Mapping[str, Any]) -> Json:
    earlier = str(verdict["baseline"]).startswith("run ")
    ceiling = verdict["ceiling"] or {}
    steadiness = verdict["steadiness"] or {}
    pairs = verdict["pairs"] or {}
    return {
        **{column.name: verdict.get(column.name) for column in VERDICTS if column.name in verdict},
        "compared_with_run": verdict["baseline"].removeprefix("run ") if earlier else None,
        **_ends("ci95", verdict["ci95"]),
        **_ends("ci_simultaneous", verdict["ci_simultaneous"]),
        "arm_pairs": pairs.get("arm"),
        "baseline_pairs": pairs.get("baseline"),
        "ceiling_name": ceiling.get("name"),
        "ceiling_explains": ceiling.get("explains"),
        "arm_ceiling_bits_per_second": ceiling.get("arm"),
        "baseline_ceiling_bits_per_second": ceiling.get("baseline"),
        "marks": " ".join(f"{k}={n}" for k, n in sorted((verdict["marks"] or {}).items())) or None,
        "arm_spread": steadiness.get("arm"),
        "baseline_spread": steadiness.get("baseline"),
        "steadiness_ratio": steadiness.get("ratio"),
        **_ends("steadiness", steadiness.get("ci95")),
        "steadiness_verdict": steadiness.get("verdict"),
    }


def _ends(name: str, interval: Sequence[float] | None) -> Json:
    low, high = interval or (None, None)
    return {f"{name}_low": low, f"{name}_high": high}
