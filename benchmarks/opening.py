"""Measure the page of a large run: the time to write it, its bytes, and the time to open it.

Plans a run of 1000 nodes and stores its trials as `benchmarks.deciding` does. The real `analyze`
and `report` write its objects in a process of their own. Then headless Chromium opens report.html
several times, each time in a new browser. The benchmark waits for more than the first paint: the
whole layout, the end of the load event, and a frame drawn after it.

Run as `python -m benchmarks.opening [--nodes N] [--blocks N] [--opens N] [--keep FILE]`, or as
`make bench-page`. Exit codes: 0 within 3 s and 2 MB, 1 not.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks import deciding
from benchmarks.points import Point, judge
from rackrate.executions.store import Store
from rackrate.resources import Resources
from scripts import chromium

OPENS = 7
MOST_SECONDS, MOST_BYTES = 3.0, 2_000_000
PAGE = f"runs/{deciding.RUN}/report.html"
#: Milliseconds since the start of the navigation. The last is taken after layout and drawing.
TIMES = """async () => {
  const [load] = performance.getEntriesByType('navigation');
  const shown = await new Promise(done => {
    const now = () => { document.body.getBoundingClientRect(); done(performance.now()) };
    const frames = () => requestAnimationFrame(() => requestAnimationFrame(now));
    document.readyState === 'complete' ? frames() : addEventListener('load', frames) });
  const largest = await new Promise(done => new PerformanceObserver(
    list => done(list.getEntries().at(-1).startTime))
    .observe({type: 'largest-contentful-paint', buffered: true}));
  const [first] = performance.getEntriesByName('first-contentful-paint');
  return {'first paint': first.startTime, 'largest paint': largest,
    'load event': load.loadEventEnd, 'all laid out, drawn': shown};
}"""
SHOWN = "all laid out, drawn"


# -- writing


def work() -> dict[str, float]:
    """Analyze and report the served run. Returns the cost of the report."""
    from rackrate.report.page import render_page
    from rackrate.stages.run import analyze, report

    resources = Resources()
    resources.store = Store(deciding.TABLE, deciding.BUCKET)
    analyze.analyze(deciding.RUN, resources, after_failure=False)
    spent: list[float] = []

    def timed(*inputs: Any, **named: Any) -> str:
        started = time.monotonic()
        page = render_page(*inputs, **named)
        spent.append(time.monotonic() - started)
        return page

    started = time.monotonic()
    with mock.patch.object(report, "render_page", timed):
        report.report(deciding.RUN, resources, failure=None)
    return {
        "reporting": time.monotonic() - started,
        "drawing": sum(spent),
        "peak_bytes": deciding.peak_bytes(),
    }


def written(nodes: int, blocks: int) -> tuple[dict[str, Any], bytes]:
    """Write the page in a process of its own. Returns the cost of writing, and report.html."""
    trials, cost, records = deciding.measured("benchmarks.opening", nodes, blocks)
    return {"trials": trials, **cost}, records.objects[PAGE]


# -- opening


def opened(page: Path, opens: int) -> list[dict[str, float]]:
    """Open the page `opens` times. Returns the seconds until each moment, for each opening."""
    program = chromium.find()
    durations = []
    for _ in range(opens):
        with chromium.launched(program) as browser:
            context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
            tab = context.new_page()
            tab.goto(page.as_uri(), wait_until="commit")
            times: Mapping[str, float] = tab.evaluate(TIMES)
            durations.append({moment: ms / 1000 for moment, ms in times.items()})
    return durations


def judged(size: int, times: Sequence[Mapping[str, float]]) -> Point:
    """Whether the page stayed within the limits of size and time."""
    shown = statistics.median(each[SHOWN] for each in times)
    # A page cannot be empty or take no time: then something else was measured.
    return Point(
        0 < size < MOST_BYTES and 0 < shown < MOST_SECONDS,
        f"the page has {size} bytes ({size / 1e6:.2f} MB) and was shown after {shown:.2f} s (median"
        f" of {len(times)}); allowed are {MOST_BYTES / 1e6:.0f} MB and {MOST_SECONDS:.0f} s",
    )


def table(times: Sequence[Mapping[str, float]]) -> str:
    """A table with a line for each moment: median, minimum and maximum, in seconds."""
    lines = [f"{'seconds until':<22}{'median':>9}{'least':>9}{'most':>9}"]
    for moment in times[0]:
        values = [each[moment] for each in times]
        middle = statistics.median(values)
        lines.append(f"{moment:<22}{middle:>9.3f}{min(values):>9.3f}{max(values):>9.3f}")
    return "\n".join(lines)


def main() -> Iterator[Point]:
    """Run the benchmark."""
    parser = deciding.sizes("What the page of a large run costs.")
    parser.add_argument("--opens", type=int, default=OPENS)
    parser.add_argument("--keep", type=Path, help="write the page to this file")
    options = parser.parse_args()
    cost, page = written(options.nodes, options.blocks)
    print(
        f"{options.nodes} nodes, {options.blocks} blocks, 3 tests, {cost['trials']} trials, seed"
        f" {deciding.SEED}: the report took {cost['reporting']:.1f} s, {cost['drawing']:.1f} s of"
        f" them the page, and {cost['peak_bytes'] / 1e9:.2f} GB at most"
    )
    with tempfile.TemporaryDirectory() as directory:
        file = options.keep or Path(directory) / "report.html"
        file.write_bytes(page)
        times = opened(file.resolve(), options.opens)
    print(table(times))
    yield judged(len(page), times)


if __name__ == "__main__":
    sys.exit(judge(main))
