"""report.html: one self-contained page. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from rackrate.measure.trials import RawValues, Trial
from rackrate.report import frame
from rackrate.report.material import Detail, Material
from rackrate.report.sections import method, opening, tests, verdicts
from rackrate.report.sections.trials import trials_section
from rackrate.report.style import STYLE
from rackrate.results.schema import Findings

#: The largest size of a page in bytes, so that it opens quickly and can be sent by mail.
MOST_BYTES = 2_000_000
#: The levels of detail. The first one that fits into the size is used.
_DETAILS = (
    Detail(rows=200, vectors=4000, drawn_tests=100),
    Detail(rows=40, vectors=1000, drawn_tests=100),
    Detail(rows=20, vectors=0, drawn_tests=8),
    Detail(rows=5, vectors=0, drawn_tests=2),
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
    body = [
        opening.opening(page),
        opening.differences(page),
        verdicts.verdicts_section(page),
        *map(tests.test_section, page.tests.values()),
        verdicts.regressions_section(page),
        trials_section(page),
        method.method_section(page),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(opening.title(page))}</title>"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<style>{STYLE}</style></head><body>"
        '<a class="skip" href="#main">Skip to the conclusion</a>'
        f"{frame.keys(len(page.arms) + 1)}"
        f"<header>{opening.header(page)}</header>{_contents(page)}"
        f'<main id="main">{"".join(body)}</main>{_footer(page)}</body></html>\n'
    )


def _contents(page: Material) -> str:
    """Links to the page's sections."""
    parts = [
        ("conclusion", "Conclusion"),
        *([("differences", "What differed")] if page.comparison else []),
        ("verdicts", "Verdicts"),
        *((test.anchor, test.name) for test in page.tests.values()),
        *([("earlier", "Earlier run")] if page.results.regressions else []),
        ("trials", "Trials to know about"),
        ("method", "How it was measured"),
    ]
    links = "".join(f'<li><a href="#{to}">{escape(name)}</a></li>' for to, name in parts)
    return f'<nav aria-label="Parts of this page"><ul>{links}</ul></nav>'


def _footer(page: Material) -> str:
    scaled = f" {frame.scale_note(page)}" if page.scale is not None else ""
    files = (
        "the same for programs is in <code>comparison.json</code>, every trial in"
        " <code>trials.csv</code> of its run."
        if page.comparison
        else "the same for programs is in <code>results.json</code>, every trial in"
        " <code>trials.csv</code>."
    )
    return (
        "<footer><p>rackrate: what a placement group buys. This page needs no network;"
        f" {files}</p>"
        f"{scaled}</footer>"
    )
