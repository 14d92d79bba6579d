"""The tables of verdicts, of a run and of a campaign: their columns and rows, and CSV. Pure."""

from __future__ import annotations

import csv
import datetime
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rackrate_contract.campaign import Answer, CampaignFacts, CampaignResults, SweepCell
from rackrate_contract.document import Document
from rackrate_contract.results import Results, RunFacts
from rackrate_contract.verdicts import Ceiling, Claim, Ends, PartitionPairs, Steadiness, Verdict
from rackrate_text.words import inert

#: The types by their names in Glue and Athena. A timestamp is in UTC, to the millisecond.
Type = Literal["string", "boolean", "bigint", "double", "timestamp"]
Row = Mapping[str, str | float | int | bool | None]


@dataclass(frozen=True)
class Column:
    """A column; the name of a quantity includes its unit.

    Attributes:
        name: its name in lower case, because Athena supports no other.
        type: its type; values of any type may be missing.
        text: its description.
    """

    name: str
    type: Type
    text: str


def to_csv(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """The rows as CSV with a header; missing values are empty, timestamps are ISO 8601."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([column.name for column in columns])
    for row in rows:
        writer.writerow([_cell(value_of(column, row)) for column in columns])
    return buffer.getvalue()


def value_of(column: Column, row: Row) -> Any:
    """The value in its column's type, or None."""
    value = row.get(column.name)
    return None if value is None else _PYTHON[column.type](value)


def _cell(value: Any) -> Any:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case datetime.datetime():
            return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case str():
            return inert(value)
    return value


def _whole(value: Any) -> int:
    """A whole number, such as 3 or 3.0, as an int.

    Raises:
        ValueError: the number is not whole.
    """
    if int(value) != value:
        raise ValueError(f"{value} is not a whole number")
    return int(value)


def _moment(value: str) -> datetime.datetime:
    moment = datetime.datetime.fromisoformat(value)
    return moment.astimezone(datetime.UTC)


_PYTHON: Mapping[Type, Callable[[Any], Any]] = {
    "string": str,
    "boolean": bool,
    "bigint": _whole,
    "double": float,
    "timestamp": _moment,
}

RUN = (
    Column("run_id", "string", "the run"),
    Column("run_started_at", "timestamp", "when the run started, UTC"),
    Column("run_status", "string", "how the run ended"),
    Column("lab_scale", "double", "factor by which the network was scaled; empty on AWS"),
)
VERDICTS = (
    *RUN,
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


#: An answer and a cell of a sweep have the columns of a verdict of which they have the field.
ANSWERS = (
    Column("campaign_id", "string", "the campaign"),
    Column("campaign_started_at", "timestamp", "when the campaign started, UTC"),
    Column("campaign_status", "string", "how the campaign ended"),
    Column("lab_scale", "double", "factor by which the network was scaled; empty on AWS"),
    *(each for each in VERDICTS if re.sub("_(low|high)$", "", each.name) in Answer.model_fields),
    Column("draws", "bigint", "number of draws with a ratio"),
    Column("prediction95_low", "double", "lower end of the interval of the next deployment"),
    Column("prediction95_high", "double", "upper end of that interval"),
    Column("variability", "double", "standard deviation of the logarithm between draws"),
    Column("trend", "double", "the last draw's ratio divided by the first's, if significant"),
    Column("more_draws", "bigint", "about how many more draws would settle it"),
    Column("changed", "boolean", "whether the newest draw of a series differs from the others"),
    Column("value", "string", "the value of a sweep, which is compared with the first"),
    Column("runs", "bigint", "number of runs with this value"),
    Column("mean", "double", "geometric mean of their medians, in `unit`"),
    Column("total", "double", "the sum over the pairs measured together, in a sweep over nodes"),
)


def of_run(results: Results) -> Row:
    """The columns `RUN`."""
    return _of("run", results.run)


def _of(noun: str, facts: RunFacts | CampaignFacts) -> Row:
    named = {f"{noun}_{name}": getattr(facts, name) for name in ("id", "started_at", "status")}
    return {**named, "lab_scale": facts.lab_scale}


def same(columns: Iterable[Column], document: Document) -> Row:
    """The columns that are named as fields of the document and hold them."""
    fields = type(document).model_fields
    return {each.name: getattr(document, each.name) for each in columns if each.name in fields}


def options_of(results: Results) -> dict[str, str]:
    """The options of each test in a canonical form, so that equal options give equal text."""
    return {
        test["name"]: json.dumps({k: v for k, v in test.items() if k != "name"}, sort_keys=True)
        for test in results.plan.get("tests", ())
    }


def verdict_rows(results: Results) -> list[Row]:
    """The rows of a run's verdicts and regressions, with the columns `VERDICTS`."""
    options = options_of(results)
    shared = {
        **of_run(results),
        "kubernetes_version": results.versions.kubernetes,
        "tool_image": results.versions.image,
    }
    return [
        {**shared, "test_options": options.get(verdict.test), **_verdict_row(verdict)}
        for verdict in (*results.verdicts, *results.regressions)
    ]


def _verdict_row(verdict: Verdict) -> Row:
    return {
        **same(VERDICTS, verdict),
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


def answer_rows(results: CampaignResults) -> list[Row]:
    """The rows of a campaign's answers or of its sweep, with the columns `ANSWERS`."""
    answers: tuple[Answer | SweepCell, ...] = (*results.answers, *results.sweep)
    return [
        {
            **_of("campaign", results.campaign),
            **same(ANSWERS, each),
            **_ends("ci95", each.ci95),
            **_ends("ci_simultaneous", each.ci_simultaneous),
            **_ends("prediction95", each.prediction95 if isinstance(each, Answer) else None),
            "draws": len(each.draws) if isinstance(each, Answer) else None,
        }
        for each in answers
    ]


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
