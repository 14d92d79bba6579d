"""The section of a test: its figures, its explained verdicts, and notes on its trials."""

from __future__ import annotations

from html import escape

from rackrate.report import figures
from rackrate.report.markup import (
    number,
    paragraph,
    row_head,
    section,
    table,
    text,
)
from rackrate.report.material import TestMaterial
from rackrate.report.sections.trials import notes_on_trials
from rackrate.report.sections.verdicts import explained
from rackrate.tools.base import TestBase
from rackrate.verdict.model import Percentiles, Summary
from rackrate.workloads.base import WorkloadTest
from rackrate_text.units import UNKNOWN, percent, quantity

_NO_PERCENTILES = Percentiles(p50=None, p90=None, p99=None, p99_9=None, samples=0)


def test_section(test: TestMaterial) -> str:
    """The section of a test."""
    parts = [paragraph(_settings(test.test), "quiet")]
    if test.number <= test.page.detail.drawn_tests:
        parts.append(f'<div class="figures">{"".join(_figures(test))}</div>')
    else:
        parts.append(
            "<p>The figures of this test are left out: with them the page would be too large. Its"
            " trials are in trials.csv.</p>"
        )
    parts += [
        *(
            explained(test.page, verdict, name=f"v-{test.number}-{place}")
            for place, verdict in enumerate(test.verdicts, 1)
        ),
        notes_on_trials(test),
        _summaries(test),
    ]
    return section(test.anchor, test.name, "".join(parts))


def _figures(test: TestMaterial) -> list[str]:
    # A load pod measures all members, and not the way to one of them.
    of_pairs = () if isinstance(test.test, WorkloadTest) else test.metrics
    return [
        *map(figures.trials_figure, test.metrics),
        *figures.latency_figures(test),
        figures.course_figure(test),
        *(matrix for metric in of_pairs for matrix in figures.matrix_figures(metric)),
    ]


def _settings(test: TestBase) -> str:
    """The test's settings in the plan."""
    said = [
        f"{escape(name.replace('_', ' '))} {escape(_setting(value))}"
        for name, value in test
        if name != "name" and value is not None and value is not False and value != ()
    ]
    return " · ".join(said)


def _setting(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _summaries(test: TestMaterial) -> str:
    """A table of each arm's percentiles, loss, and variability (CV)."""
    if not test.summaries:
        return ""
    note = ""
    if any(summary.percentiles for summary in test.summaries):
        note = (
            '<p class="quiet">The median is that of the trials; percentiles are of all raw values'
            " of the arm, pooled, with 95 % intervals from the blocks. Do not compare percentiles"
            " without an interval: a block has too few values for one.</p>"
        )
    columns = [_summary_columns(summary) for summary in test.summaries]
    # Leave out columns without any value.
    heads = [head for head in columns[0] if any(row[head] != UNKNOWN for row in columns)]
    rows = (
        [row_head(row[heads[0]]), *(number(row[head]) for head in heads[1:])] for row in columns
    )
    return table(heads, rows, caption=f"{test.name}: each arm by itself") + note


def _percentile(pooled: Percentiles, name: str, unit: str) -> str:
    """A percentile with its 95 % interval, where its blocks give one."""
    found = text(quantity(getattr(pooled, name), unit))
    if (ends := pooled.intervals.get(name)) is None:
        return found
    low, high = (quantity(end, unit) for end in ends)
    return f'{found}<br><span class="quiet">{text(low)} to {text(high)}</span>'


def _summary_columns(summary: Summary) -> dict[str, str]:
    """The arm's figures by column; a dash for unknown values."""
    pooled = summary.percentiles or _NO_PERCENTILES
    unit = summary.unit
    return {
        "metric": text(summary.metric),
        "arm": text(summary.arm),
        "median": text(quantity(summary.median, unit)),
        "trials": text(summary.trials),
        "blocks": text(summary.blocks),
        "pairs": text(summary.pairs),
        **{
            name.replace("_", "."): _percentile(pooled, name, unit)
            for name in ("p50", "p90", "p99", "p99_9")
        },
        "raw values": text(pooled.samples or None),
        "loss": text(percent(summary.loss_ratio)),
        "retransmits": text(summary.retransmits),
        "spread between blocks": text(percent(summary.spread_between_blocks)),
        "between pairs": text(percent(summary.spread_between_pairs)),
    }
