"""The section of a test: its figures, its explained verdicts, and notes on its trials."""

from __future__ import annotations

from collections.abc import Mapping

from rackrate.report import figures
from rackrate.report.frame import Figure
from rackrate.report.material import Material, TestMaterial
from rackrate.report.rendering import Part
from rackrate.report.sections.trials import causes_table, failed_trials, marked_trials
from rackrate.report.sections.verdicts import explained
from rackrate.report.tables import Table, head, number, without_unknown
from rackrate.tools.base import TestBase
from rackrate.verdict import wording
from rackrate.workloads.base import WorkloadTest
from rackrate_contract.verdicts import Percentiles, Summary
from rackrate_text.units import percent, quantity

_NO_PERCENTILES = Percentiles(p50=None, p90=None, p99=None, p99_9=None, samples=0)
#: A list of at most this many trials is not folded.
_FEW = 5


def test_section(test: TestMaterial) -> Part:
    """The section of a test."""
    page = test.page
    return Part(
        test.anchor,
        test.name,
        heading=f"{test.name}: {test.test.title}",
        template="test",
        name=test.name,
        settings=_settings(test.test),
        figures=_figures(test) if test.number <= page.detail.drawn_tests else None,
        verdicts=[
            explained(page, verdict, name=f"v-{test.number}-{place}")
            for place, verdict in enumerate(test.verdicts, 1)
        ],
        failed=failed_trials(page, test.failed, f"Failed trials of {test.name}"),
        causes=causes_table(
            wording.losses(((t.key, t) for t in test.failed), page.results.arms),
            f"Why trials of {test.name} failed",
        ),
        marked=marked_trials(page, test.marks, f"Marked trials of {test.name}"),
        mark_notes=wording.mark_notes(test.marks, len(test.measured)),
        few=_FEW,
        summaries=Table(
            f"{test.name}: each arm by itself",
            without_unknown(_summary(page, summary) for summary in test.summaries),
        ),
        pooled=any(summary.percentiles for summary in test.summaries),
    )


def _figures(test: TestMaterial) -> list[Figure | str]:
    # A load pod measures all members, and not the way to one of them.
    of_pairs = () if isinstance(test.test, WorkloadTest) else test.metrics
    return [
        *map(figures.trials_figure, test.metrics),
        *figures.latency_figures(test),
        *figures.course_figures(test),
        *(matrix for metric in of_pairs for matrix in figures.matrix_figures(metric)),
    ]


def _settings(test: TestBase) -> str:
    """The test's settings in the plan."""
    return " · ".join(
        f"{name.replace('_', ' ')} {_setting(value)}"
        for name, value in test
        if name != "name" and value is not None and value is not False and value != ()
    )


def _setting(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _summary(page: Material, summary: Summary) -> Mapping[str, object]:
    """An arm's figures by column; None or a dash for unknown values."""
    pooled, unit = summary.percentiles or _NO_PERCENTILES, summary.unit
    return {
        "metric": head(summary.metric),
        "arm": number(page.arm_title(summary.arm)),
        "median": number(quantity(summary.median, unit)),
        "trials": number(summary.trials),
        "blocks": number(summary.blocks),
        "pairs": number(summary.pairs),
        **{
            name.replace("_", "."): number(
                quantity(getattr(pooled, name), unit), _interval(pooled, name, unit)
            )
            for name in ("p50", "p90", "p99", "p99_9")
        },
        "raw values": number(pooled.samples or None),
        "loss": number(percent(summary.loss_ratio)),
        "retransmits": number(summary.retransmits),
        "spread between blocks": number(percent(summary.spread_between_blocks)),
        "between pairs": number(percent(summary.spread_between_pairs)),
    }


def _interval(pooled: Percentiles, name: str, unit: str) -> str:
    """The 95 % interval of a percentile; empty if its blocks give none."""
    if (ends := pooled.intervals.get(name)) is None:
        return ""
    return f"{quantity(ends[0], unit)} to {quantity(ends[1], unit)}"
