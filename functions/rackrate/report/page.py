"""report.html: one self-contained page. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rackrate.measure.trials import RawValues, Trial
from rackrate.report import layout
from rackrate.report.material import Detail, Material
from rackrate.report.sections import meaning, method, opening, tests, timeline, verdicts
from rackrate.report.sections.trials import trials_section
from rackrate.results.schema import Findings

#: The largest size of a page in bytes, so that it opens quickly and can be sent by mail.
MOST_BYTES = 2_000_000
#: The levels of detail. The first one that fits into the size is used.
_DETAILS = (
    Detail(rows=200, vectors=4000, drawn_tests=100, values=800),
    Detail(rows=40, vectors=1000, drawn_tests=100, values=200),
    Detail(rows=20, vectors=0, drawn_tests=8, values=0),
    Detail(rows=5, vectors=0, drawn_tests=2, values=0),
)


def render_page(results: Findings, trials: Sequence[Trial], raw: Mapping[str, RawValues]) -> str:
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
    lost, meant = timeline.timeline_section(page), meaning.meaning_section(page)
    return layout.page(
        page,
        title=opening.title(page),
        keys=len(page.arms) + 1,
        header=opening.header(page),
        parts=_parts(page, has_losses=bool(lost), has_meaning=bool(meant)),
        body=(
            opening.opening(page),
            lost,
            meant,
            opening.differences(page),
            verdicts.verdicts_section(page),
            *map(tests.test_section, page.tests.values()),
            verdicts.regressions_section(page),
            trials_section(page),
            method.method_section(page),
        ),
        files="the same for programs is in <code>comparison.json</code>, every trial in"
        " <code>trials.csv</code> of its run."
        if page.comparison
        else "the same for programs is in <code>results.json</code>, every trial in"
        " <code>trials.csv</code>.",
    )


def _parts(page: Material, *, has_losses: bool, has_meaning: bool) -> list[layout.Part]:
    """The page's sections, for its links."""
    return [
        layout.Part("conclusion", "Conclusion"),
        *([layout.Part("lost", "What was lost")] if has_losses else []),
        *([layout.Part("meaning", "What this means")] if has_meaning else []),
        *([layout.Part("differences", "What differed")] if page.comparison else []),
        layout.Part("verdicts", "Verdicts"),
        *(layout.Part(test.anchor, test.name) for test in page.tests.values()),
        *([layout.Part("earlier", "Earlier run")] if page.results.regressions else []),
        layout.Part("trials", "Trials to know about"),
        layout.Part("method", "How it was measured"),
    ]
