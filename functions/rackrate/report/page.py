"""report.html: one self-contained page. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rackrate.measure.trials import RawValues, Trial
from rackrate.report import rendering
from rackrate.report.material import Detail, Material
from rackrate.report.sections import meaning, method, nodes, opening, tests, timeline, verdicts
from rackrate.report.sections.trials import trials_section
from rackrate_contract.comparison import Comparison
from rackrate_contract.results import Results

#: The largest size of a page in bytes, so that it opens quickly and can be sent by mail.
MOST_BYTES = 2_000_000
#: The levels of detail. The first one that fits into the size is used.
_DETAILS = (
    Detail(rows=200, vectors=4000, drawn_tests=100, values=800),
    Detail(rows=40, vectors=1000, drawn_tests=100, values=200),
    Detail(rows=20, vectors=0, drawn_tests=8, values=0),
    Detail(rows=5, vectors=0, drawn_tests=2, values=0),
)


def render_page(
    results: Results | Comparison, trials: Sequence[Trial], raw: Mapping[str, RawValues]
) -> str:
    """Render the page, with less than `MOST_BYTES`.

    Args:
        results: the results of a run or of a comparison.
        trials: the stored trials, for the figures.
        raw: their stored raw values, by trial id.
    """
    html = ""
    for detail in _DETAILS:
        html = _page(Material(results, trials, raw, detail))
        if len(html.encode()) < MOST_BYTES:
            break
    return html


def _page(page: Material) -> str:
    return rendering.page(
        arms=len(page.arms) + 1,
        facts=opening.facts(page),
        parts=(
            opening.opening(page),
            timeline.timeline_section(page),
            meaning.meaning_section(page),
            opening.differences(page),
            verdicts.verdicts_section(page),
            nodes.nodes_section(page),
            *map(tests.test_section, page.tests.values()),
            verdicts.regressions_section(page),
            trials_section(page),
            method.method_section(page),
        ),
        title=opening.title(page),
        scale=page.scale,
        document="comparison.json" if page.comparison else "results.json",
        trials_in=" of its run" if page.comparison else "",
    )
