"""Pages of the sample run, and how to read them."""

from __future__ import annotations

import html
import html.parser
import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from functools import cache
from typing import Any

from rackrate.report.charts import canvas
from rackrate.report.page import render_page
from rackrate.report.results import build_results
from rackrate.schedule import TrialKey
from tests.unit import report_samples as samples

NASTY = "<script>alert('x')</script>&\""
FAILURE = {"Error": "TrialsLost", "Cause": NASTY}


def results(*, failure=None, counters=None, trials=None, plan=None, run=None, **analysis):
    """results.json of the sample run."""
    return build_results(
        run=samples.run(**(run or {})),
        failure=failure,
        stored_plan=plan or samples.stored_plan(),
        trials=samples.trials() if trials is None else trials,
        analysis=samples.analysis(**analysis),
        counters=counters,
        written_at="2026-11-21T08:01:30Z",
    )


def raw_of(trials: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What the store would keep of trials: 30 round-trip times, or three intervals."""
    found = {}
    for trial in trials:
        names = ("block", "arm", "test", "client", "server")
        if trial["status"] != "measured":
            continue
        value = trial["value"]
        times = [value * (0.9 + 0.01 * n) for n in range(30)]
        found[TrialKey(*(trial[name] for name in names)).id] = (
            {"samples": {"rtt": times}, "series": []}
            if value < 1
            else {
                "samples": {},
                "series": [
                    {
                        "start_seconds": n,
                        "end_seconds": n + 1,
                        "bits_per_second": value * (1 - 0.05 * n),
                        "retransmits": n,
                    }
                    for n in range(3)
                ],
            }
        )
    return found


def page(*, raw=None, **choices):
    """The page of the sample run."""
    return _usual(canvas.rendered) if raw is None and not choices else _page(raw, **choices)


@cache
def _usual(drawing) -> str:
    """What most tests look at, drawn once by each way of drawing."""
    return _page(None)


def _page(raw, **choices):
    trials = samples.trials() if choices.get("trials") is None else choices["trials"]
    return render_page(results(**choices), trials, raw_of(trials) if raw is None else raw)


def undrawn(draw, *, name, size, title="", description=""):
    """In the place of `canvas.rendered`: what a chart says, without the time that drawing takes."""
    said = f"<title>{html.escape(title)}</title><desc>{html.escape(description)}</desc>"
    return f'<svg viewBox="0 0 1 1">{said}</svg>'


class Elements(html.parser.HTMLParser):
    """Collects elements and checks that they are closed in order."""

    void = frozenset({"meta", "br"})
    unread = frozenset({"style", "title", "desc"})

    def __init__(self, text):
        super().__init__()
        self.found, self.open, self.text = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)
        elif tag == "br":
            self.text.append(" ")

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.unread & set(self.open):
            self.text.append(data)


def words(**choices) -> str:
    """What a reader of the page reads."""
    return said(page(**choices))


def said(text: str) -> str:
    """What a reader of a page reads."""
    return " ".join("".join(Elements(text).text).split())


def figures(text: str) -> dict[str, ET.Element]:
    """The charts of a page's figures, by the figures' ids."""
    found = re.findall(r'<figure id="([^"]+)"(.*?)</figure>', text, re.DOTALL)
    return {name: ET.fromstring(chart_in(content)) for name, content in found}


def chart_in(content: str) -> str:
    """The chart within a figure's markup, as XML."""
    chart = re.search(r'<svg [^>]*class="chart".*?</svg>', content, re.DOTALL)
    assert chart is not None, content[:200]
    return chart.group()


@dataclass(frozen=True)
class Mark:
    """What stands for one thing in a chart: its tip, how it looks, and where it is."""

    tip: str
    style: str
    x: float
    y: float


def marks(chart: ET.Element) -> list[Mark]:
    """The marks of a chart that have a tip; one's look may be that of its group."""
    found = []
    for group in chart.iter():
        for each in group:
            if each.tag in ("use", "path") and (title := each.find("title")) is not None:
                style = each.get("style") or group.get("style") or ""
                place = (float(each.get(axis, "nan")) for axis in ("x", "y"))
                found.append(Mark(title.text or "", style, *place))
    return found


def tips(chart: ET.Element) -> list[str]:
    """The tips of a chart's marks."""
    return [mark.tip for mark in marks(chart)]
