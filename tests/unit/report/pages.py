"""Pages of the sample run, and helpers to read them."""

from __future__ import annotations

import html
import html.parser
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from markupsafe import Markup

from rackrate.measure.trials import RawValues, Trial
from rackrate.report.charts import canvas
from rackrate.report.page import render_page
from rackrate.results.build import RunFailure
from rackrate.tools.base import Interval
from rackrate_contract.document import Document
from rackrate_contract.results import Findings
from rackrate_contract.verdicts import Baseline
from tests.unit.report import samples as samples

NASTY = "<script>alert('x')</script>&\""
FAILURE = RunFailure("TrialsLost", NASTY)
#: Fields of type `str` that are not free text: names that the check of plans limits, a time, and a
#: unit.
NOT_FREE = frozenset({"test", "nodes", "started_at", "unit"})


def raw_of(trials: Iterable[Trial]) -> dict[str, RawValues]:
    """Raw values of trials as in the store: 30 round-trip times, or three intervals."""
    return {trial.key.id: _raw_of(trial.value) for trial in trials if trial.value is not None}


def _raw_of(value: float) -> RawValues:
    if value < 1:
        return RawValues(samples={"rtt": tuple(value * (0.9 + 0.01 * n) for n in range(30))})
    return RawValues(
        series=tuple(Interval(n, n + 1, value * (1 - 0.05 * n), retransmits=n) for n in range(3))
    )


def page(*, raw=None, **choices):
    """The page of the sample run."""
    return _usual(canvas.Chart.svg) if raw is None and not choices else _page(raw, **choices)


@cache
def _usual(drawing) -> str:
    """The page that most tests use, drawn once with each drawing function."""
    return _page(None)


def _page(raw, *, trials=None, **choices):
    trials = samples.trials() if trials is None else trials
    results = samples.results(trials=trials, **choices)
    return render_page(results, trials, raw_of(trials) if raw is None else raw)


def undrawn(chart, name, title="", description=""):
    """A fast replacement of `canvas.Chart.svg` that writes only a chart's texts."""
    names = f"<title>{html.escape(title)}</title><desc>{html.escape(description)}</desc>"
    return Markup(f'<svg viewBox="0 0 1 1">{names}</svg>')


class Elements(html.parser.HTMLParser):
    """A parser that collects elements and checks that they are closed in order."""

    void = frozenset({"meta", "br"})
    unread = frozenset({"style", "script", "title", "desc"})

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.text = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)
        elif tag == "br":
            self.text.append(" ")

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.unread & set(self.open):
            self.text.append(data)


def words(**choices) -> str:
    """The visible text of the sample run's page."""
    return text_of(page(**choices))


def text_of(text: str) -> str:
    """The visible text of a page."""
    return " ".join("".join(Elements(text).text).split())


def figures(text: str) -> dict[str, ET.Element]:
    """The charts of a page's figures, by the figures' ids."""
    contents = re.findall(r'<figure id="([^"]+)"(.*?)</figure>', text, re.DOTALL)
    return {name: ET.fromstring(chart_in(content)) for name, content in contents}


def chart_in(content: str) -> str:
    """The chart within a figure's markup, as XML."""
    chart = re.search(r'<svg [^>]*class="chart".*?</svg>', content, re.DOTALL)
    assert chart is not None, content[:200]
    return chart.group()


@dataclass(frozen=True)
class Mark:
    """A mark in a chart: its tooltip, its style, and its place."""

    tip: str
    style: str
    x: float
    y: float


def marks(chart: ET.Element) -> list[Mark]:
    """The marks of a chart that have a tooltip. A mark may have its group's style."""
    drawn = []
    for group in chart.iter():
        for each in group:
            if each.tag in ("use", "path") and (title := each.find("title")) is not None:
                style = each.get("style") or group.get("style") or ""
                place = (float(each.get(axis, "nan")) for axis in ("x", "y"))
                drawn.append(Mark(title.text or "", style, *place))
    return drawn


def tips(chart: ET.Element) -> list[str]:
    """The tooltips of a chart's marks."""
    return [mark.tip for mark in marks(chart)]


def changed(value: Any, change: Callable[[str], str], but: Collection[str] = NOT_FREE) -> Any:
    """Change all free texts of a document, except in the fields `but`; in a run's plan only one."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Document):
        fields = dict(type(value).model_fields)
        if isinstance(value, Findings):
            del fields["plan"]
        free = [
            name
            for name, field in fields.items()
            if not isinstance(getattr(value, name), str)
            or (name not in but and field.annotation in (str, str | None) and not field.metadata)
        ]
        update = {name: changed(getattr(value, name), change, but) for name in free}
        if isinstance(value, Findings):
            update["plan"] = value.plan | {"baseline": changed(value.plan["baseline"], change)}
        return value.model_copy(update=update)
    if isinstance(value, Baseline):
        return replace(value, name=changed(value.name, change) if "name" not in but else value.name)
    if isinstance(value, Mapping):
        return {change(key): changed(entry, change, but) for key, entry in value.items()}
    if isinstance(value, tuple):
        return tuple(changed(entry, change, but) for entry in value)
    return value
