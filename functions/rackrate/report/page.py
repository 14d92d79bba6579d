"""report.html: one page that needs nothing but itself. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from types import MappingProxyType
from typing import Any

from rackrate.report import figure
from rackrate.report.material import Detail, Material
from rackrate.report.sections import method, opening, tests, verdicts
from rackrate.report.sections.trials import trials_section
from rackrate.report.style import STYLE

Json = Mapping[str, Any]

#: What a page is drawn from when no raw values are kept.
NO_RAW: Mapping[str, Json] = MappingProxyType({})

#: A page is never larger, in bytes: it has to open quickly, and be sent by mail.
MOST_BYTES = 2_000_000
#: How much is shown: as much as fits.
_DETAILS = (
    Detail(rows=200, vectors=4000, drawn_tests=100),
    Detail(rows=40, vectors=1000, drawn_tests=100),
    Detail(rows=20, vectors=0, drawn_tests=8),
    Detail(rows=5, vectors=0, drawn_tests=2),
)


def render_page(results: Json, trials: Sequence[Json], raw: Mapping[str, Json] = NO_RAW) -> str:
    """The page, of less than `MOST_BYTES`.

    Args:
        results: results.json, or a comparison.json.
        trials: the stored trials, for the figures.
        raw: for a trial's id what the store keeps of it: `samples`, by kind a list of values in SI
            units, and `series`, a list of intervals with `start_seconds`, `end_seconds` and
            `bits_per_second`. Empty when nothing is kept.
    """
    page = ""
    for detail in _DETAILS:
        page = _page(Material(results, trials, raw, detail))
        if len(page.encode()) < MOST_BYTES:
            break
    return page


def _page(material: Material) -> str:
    results = material.results
    title = escape(opening.title(results))
    body = [
        opening.opening(material),
        opening.differences(results),
        verdicts.verdicts_section(material),
        *(
            tests.test_section(material, index, test)
            for index, test in enumerate(results["plan"]["tests"])
        ),
        verdicts.regressions_section(material),
        trials_section(material),
        method.method_section(material),
    ]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<style>{STYLE}</style></head><body>"
        '<a class="skip" href="#main">Skip to the conclusion</a>'
        f"{figure.keys(len(material.arms) + 1)}"
        f"<header>{opening.header(results)}</header>{_contents(material)}"
        f'<main id="main">{"".join(body)}</main>{_footer(material)}</body></html>\n'
    )


def _contents(material: Material) -> str:
    """Links to the page's parts."""
    results = material.results
    parts = [
        ("conclusion", "Conclusion"),
        *([("differences", "What differed")] if results.get("comparison") else []),
        ("verdicts", "Verdicts"),
        *(
            (f"test-{index + 1}", str(test["name"]))
            for index, test in enumerate(results["plan"]["tests"])
        ),
        *([("earlier", "Earlier run")] if results.get("regressions") else []),
        ("trials", "Trials to know about"),
        ("method", "How it was measured"),
    ]
    links = "".join(f'<li><a href="#{to}">{escape(name)}</a></li>' for to, name in parts)
    return f'<nav aria-label="Parts of this page"><ul>{links}</ul></nav>'


def _footer(material: Material) -> str:
    scaled = f" {figure.scale_note(material)}" if material.scale is not None else ""
    files = (
        "the same for programs is in <code>comparison.json</code>, every trial in"
        " <code>trials.csv</code> of its run."
        if material.results.get("comparison")
        else "the same for programs is in <code>results.json</code>, every trial in"
        " <code>trials.csv</code>."
    )
    return (
        "<footer><p>rackrate: what a placement group buys. This page needs no network;"
        f" {files}</p>"
        f"{scaled}</footer>"
    )
