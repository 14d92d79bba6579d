"""Measure the page of a large run: the time to write it, its bytes, and the time to open it.

Plans a run of 1000 nodes and stores its trials as `benchmarks.deciding` does. The real `analyze`
and `report` write its objects in a process of their own. Then headless Chromium opens report.html
several times, each time in a new browser. The benchmark waits for more than the first paint: the
whole layout, the end of the load event, and a frame drawn after it.

Run as `python -m benchmarks.opening [--nodes N] [--blocks N] [--opens N] [--keep FILE]`, or as
`make bench-page`. Exit codes: 0 within 3 s and 2 MB, 1 not.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks import deciding
from rackrate.resources import Resources
from rackrate.store import Store
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


def write() -> None:
    """Analyze and report the served run, and print the cost as JSON. Runs in its own process."""
    from rackrate.report.page import render_page
    from rackrate.stages import analyze, report

    resources = Resources()
    resources.store = Store(deciding.TABLE, deciding.BUCKET)
    analyze.analyze(deciding.RUN, resources, after_failure=False)
    spent: list[float] = []

    def timed(draw: Callable[..., str]) -> Callable[..., str]:
        def drawn(*inputs: Any, **named: Any) -> str:
            started = time.monotonic()
            page = draw(*inputs, **named)
            spent.append(time.monotonic() - started)
            return page

        return drawn

    started = time.monotonic()
    with mock.patch.object(report, "render_page", timed(render_page)):
        report.report(deciding.RUN, resources, failure=None)
    found = {
        "reporting": time.monotonic() - started,
        "drawing": sum(spent),
        "peak_bytes": deciding.peak_bytes(),
    }
    print(json.dumps(found))


def written(nodes: int, blocks: int) -> tuple[dict[str, Any], bytes]:
    """Write the page in a child process. Returns the cost of writing, and report.html.

    Raises:
        subprocess.CalledProcessError: the child failed, after it printed the error.
    """
    records = deciding.Records()
    deciding.plan(records, nodes=nodes, blocks=blocks)
    trials = deciding.measure(records)
    server = deciding.serve(records)
    variables = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_DEFAULT_REGION": "us-east-1",
        # The parent reads the objects back, so write them without the chunks of a checksum.
        "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
    }
    try:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.opening", "--write"],
            env=os.environ | variables,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    finally:
        server.shutdown()
    return {"trials": trials, **json.loads(done.stdout)}, records.objects[PAGE]


# -- opening


def opened(page: Path, opens: int) -> list[dict[str, float]]:
    """Open the page `opens` times. Returns the seconds until each moment, for each opening."""
    program = chromium.find()
    found = []
    for _ in range(opens):
        with chromium.launched(program) as browser:
            context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
            tab = context.new_page()
            tab.goto(page.as_uri(), wait_until="commit")
            times: Mapping[str, float] = tab.evaluate(TIMES)
            found.append({moment: ms / 1000 for moment, ms in times.items()})
    return found


def judge(size: int, times: Sequence[Mapping[str, float]]) -> tuple[bool, str]:
    """Whether the page stayed within the limits of size and time, and a line that says so."""
    shown = statistics.median(each[SHOWN] for each in times)
    # A page cannot be empty or take no time: then something else was measured.
    holds = 0 < size < MOST_BYTES and 0 < shown < MOST_SECONDS
    return holds, (
        f"{'PASS' if holds else 'FAIL'}  the page has {size} bytes ({size / 1e6:.2f} MB) and was"
        f" shown after {shown:.2f} s (median of {len(times)}); allowed are {MOST_BYTES / 1e6:.0f}"
        f" MB and {MOST_SECONDS:.0f} s"
    )


def table(times: Sequence[Mapping[str, float]]) -> str:
    """A table with a line for each moment: median, minimum and maximum, in seconds."""
    lines = [f"{'seconds until':<22}{'median':>9}{'least':>9}{'most':>9}"]
    for moment in times[0]:
        values = [each[moment] for each in times]
        middle = statistics.median(values)
        lines.append(f"{moment:<22}{middle:>9.3f}{min(values):>9.3f}{max(values):>9.3f}")
    return "\n".join(lines)


def main() -> int:
    """Run the benchmark. Returns the exit code."""
    parser = argparse.ArgumentParser(description="What the page of a large run costs.")
    parser.add_argument("--nodes", type=int, default=deciding.NODES, help="of both arms together")
    parser.add_argument("--blocks", type=int, default=deciding.BLOCKS)
    parser.add_argument("--opens", type=int, default=OPENS)
    parser.add_argument("--keep", type=Path, help="write the page to this file")
    parser.add_argument("--write", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.write:
        write()
        return 0
    try:
        cost, page = written(asked.nodes, asked.blocks)
    except subprocess.CalledProcessError:
        print("FAIL  writing the page ended with an error: see above")
        return 1
    print(
        f"{asked.nodes} nodes, {asked.blocks} blocks, 3 tests, {cost['trials']} trials, seed"
        f" {deciding.SEED}: the report took {cost['reporting']:.1f} s, {cost['drawing']:.1f} s of"
        f" them the page, and {cost['peak_bytes'] / 1e9:.2f} GB at most"
    )
    with tempfile.TemporaryDirectory() as directory:
        file = asked.keep or Path(directory) / "report.html"
        file.write_bytes(page)
        times = opened(file.resolve(), asked.opens)
    print(table(times))
    holds, line = judge(len(page), times)
    print(line)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
