"""A section for each test: its figures, its verdicts explained, and what to know of its trials."""

from __future__ import annotations

from html import escape

from rackrate.report import figures
from rackrate.report.markup import (
    NOTHING,
    number,
    paragraph,
    percent,
    quantity,
    row_head,
    section,
    table,
    text,
)
from rackrate.report.material import Json, Material
from rackrate.report.sections.trials import notes_on_trials
from rackrate.report.sections.verdicts import explained


def test_section(material: Material, index: int, test: Json) -> str:
    """Everything about a test."""
    results, name = material.results, str(test["name"])
    parts = [paragraph(_settings(test), "quiet")]
    if index < material.detail.drawn_tests:
        drawn = _figures(material, index, name)
        parts.append(f'<div class="figures">{"".join(drawn)}</div>')
    else:
        parts.append(
            "<p>The figures of this test are left out: with them the page would be too large. Its"
            " trials are in trials.csv.</p>"
        )
    about = [v for v in results["verdicts"] if v["test"] == name]
    drawn_verdicts = [
        explained(material, verdict, name=f"v-{index + 1}-{number_}")
        for number_, verdict in enumerate(about, 1)
    ]
    parts += [
        *drawn_verdicts,
        notes_on_trials(material, name),
        _summaries([s for s in results["summaries"] if s["test"] == name], name),
    ]
    return section(f"test-{index + 1}", name, "".join(parts))


def _figures(material: Material, index: int, test: str) -> list[str]:
    found = []
    matrices = []
    for place, (of, metric, unit) in enumerate(material.metrics):
        if of == test:
            name = f"{index + 1}-{place + 1}"
            found.append(figures.trials_figure(material, test, metric, unit, name=f"trials-{name}"))
            matrices += figures.matrix_figures(material, test, metric, unit, name=f"matrix-{name}")
    found += figures.latency_figures(material, test, name=f"ecdf-{index + 1}")
    found.append(figures.course_figure(material, test, name=f"series-{index + 1}"))
    return [*found, *matrices]


def _settings(test: Json) -> str:
    """How the test was run, as the plan has it."""
    said = [
        f"{escape(name.replace('_', ' '))} {escape(str(value))}"
        for name, value in test.items()
        if name != "name" and value is not None and value is not False
    ]
    return " · ".join(said)


def _summaries(summaries: list[Json], test: str) -> str:
    """Each arm by itself: percentiles, loss, and how much it scatters."""
    if not summaries:
        return ""
    note = ""
    if any(summary["percentiles"] for summary in summaries):
        note = (
            '<p class="quiet">The median is that of the trials; percentiles are of all raw values'
            " of the arm, pooled. A percentile says little where fewer than about ten raw values"
            " lie beyond it.</p>"
        )
    columns = [_summary_columns(summary) for summary in summaries]
    # A column of dashes alone tells nothing.
    heads = [head for head in columns[0] if any(row[head] != NOTHING for row in columns)]
    rows = (
        [row_head(row[heads[0]]), *(number(row[head]) for head in heads[1:])] for row in columns
    )
    return table(heads, rows, caption=f"{test}: each arm by itself") + note


def _summary_columns(summary: Json) -> dict[str, str]:
    """The arm's figures by column; a dash for what is not known."""
    percentiles = summary["percentiles"] or {}
    unit = summary["unit"]
    return {
        "metric": text(summary["metric"]),
        "arm": text(summary["arm"]),
        "median": quantity(summary["median"], unit),
        "trials": text(summary["trials"]),
        "blocks": text(summary["blocks"]),
        "pairs": text(summary["pairs"]),
        "p50": quantity(percentiles.get("p50"), unit),
        "p90": quantity(percentiles.get("p90"), unit),
        "p99": quantity(percentiles.get("p99"), unit),
        "p99.9": quantity(percentiles.get("p99_9"), unit),
        "raw values": text(percentiles.get("samples")),
        "loss": percent(summary["loss_ratio"]),
        "retransmits": text(summary["retransmits"]),
        "spread between blocks": percent(summary["spread_between_blocks"]),
        "between pairs": percent(summary["spread_between_pairs"]),
    }
