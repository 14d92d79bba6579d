"""Check verdicts on real traffic: many runs in one lab whose true difference is known.

There are two series of runs, each run with its own seed. The stack's two arms are identical: no
placement group, each node in its own rack.

- A/A: nothing differs. A run with any verdict of difference is a false positive.
- A/B: the baseline's caps are lowered, so that the treatment's are 10 % higher. A run whose verdict
  on a single flow's throughput is not "better" has missed the difference.

Run as `python -m benchmarks.lab_verdicts [--runs N] [--only aa|ab]` (root), or as a part of
`make bench-verdict`. The runs' files stay in `out/lab-verdicts`. Exit codes: 0 both series pass,
1 one fails, 2 the machine or the input is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.in_lab import SHORT_TESTS, Json, document, lab, rackrate
from benchmarks.points import Point, judge
from lab import stack
from lab.errors import LabError
from lab.fabric import caps

RUNS = 20
#: Ratio of the treatment's caps to the baseline's in the A/B series.
CAP_RATIO = 1.10
#: The share of a series' runs that may be wrong.
TOLERATED_SHARE = 1 / 20
DIFFERENCES = ("better", "worse")
#: The test and metric that must detect the caps: a single flow, because its own cap limits it.
DECISIVE = ("tcp-1", "throughput")
#: Host networking is off, because the run would read network counters that the lab lacks.
PARAMETERS = {"TreatmentStrategy": "none", "NodeCount": "2", "HostNetwork": "false"}
#: The label of the baseline's nodes (templates/nodegroup.yaml).
BASELINE_NODES = "rackrate.dev/arm=baseline"
OUT = stack.REPOSITORY / "out" / "lab-verdicts"

PLAN: Json = {
    "tests": SHORT_TESTS,
    "blocks": 6,
    # All runs use one lab, so only the first would have links to warm up.
    "warm_up": False,
}


@dataclass(frozen=True)
class Series:
    """Runs of one kind with consecutive seeds.

    Attributes:
        name: the value of `--only`.
        title: the true difference, for people.
        first_seed: the first run's seed.
        baseline_factor: the factor for the caps of the baseline's nodes.
    """

    name: str
    title: str
    first_seed: int
    baseline_factor: float


AA = Series("aa", "A/A, two identical arms", 1001, 1.0)
AB = Series("ab", f"A/B, the treatment's caps {CAP_RATIO - 1:.0%} higher", 2001, 1 / CAP_RATIO)
ALL = {series.name: series for series in (AA, AB)}


# -- judging: results in, words out


def words(verdict: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The verdict on a metric's level and, if there is one, on its variability."""
    yield f"{verdict['test']} {verdict['metric']}", verdict["verdict"]
    if steadiness := verdict.get("steadiness"):
        yield f"{verdict['test']} {verdict['metric']} steadiness", steadiness["verdict"]


def is_wrong(series: Series, results: Mapping[str, Any] | None) -> bool:
    """Whether a run has a false positive or a false negative, or has no verdicts."""
    verdicts = results["verdicts"] if results else []
    if not verdicts:
        return True
    if series is AA:
        return any(word in DIFFERENCES for verdict in verdicts for _, word in words(verdict))
    decisive = [v["verdict"] for v in verdicts if (v["test"], v["metric"]) == DECISIVE]
    return decisive != ["better"]


def criterion(series: Series, wrong: Sequence[bool]) -> Point:
    """Whether a series passes."""
    runs, count = len(wrong), sum(wrong)
    tolerated = int(runs * TOLERATED_SHARE)
    if series is AA:
        text = f"{count} of {runs} runs found a difference, at most {tolerated} may"
    else:
        text = f"{runs - count} of {runs} runs found it, at least {runs - tolerated} must"
    return Point(runs > 0 and count <= tolerated, f"{series.title}: {text}")


def rows(seed: int, results: Mapping[str, Any] | None, *, wrong: bool) -> list[str]:
    """A run's lines of the table, one for each verdict."""
    mark = "  <- wrong" if wrong else ""
    verdicts = results["verdicts"] if results else []
    if not verdicts:
        return [f"{seed:>6}  no verdicts{mark}"]
    lines = []
    for verdict in verdicts:
        (what, word), *steadiness = words(verdict)
        ratio = "-" if verdict["ratio"] is None else f"{verdict['ratio']:.3f}"
        interval = verdict["ci_simultaneous"]
        bounds = "-" if interval is None else "{:.3f} to {:.3f}".format(*interval)
        more = "".join(f"; steadiness: {of_steadiness}" for _, of_steadiness in steadiness)
        lines.append(f"{seed:>6}  {what:<18}{ratio:>6}  {bounds:>16}  {word}{more}")
    return [*lines[:-1], lines[-1] + mark]


def tally(runs: Sequence[Mapping[str, Any] | None]) -> list[str]:
    """Count how often each verdict of a series was better, worse and so on."""
    counted: dict[str, Counter[str]] = {}
    for results in runs:
        for verdict in results["verdicts"] if results else []:
            for what, word in words(verdict):
                counted.setdefault(what, Counter())[word] += 1
    return [
        f"  {what}: " + ", ".join(f"{count} {word}" for word, count in counter.most_common())
        for what, counter in counted.items()
    ]


# -- the lab


def equal_arms() -> contextlib.AbstractContextManager[Json]:
    """A lab with a stack whose arms are identical; its status.

    The true ratio is that of the caps alone only where every node has the same place.
    """
    return lab(even=True, parameters=PARAMETERS)


def run(status: Mapping[str, Any], plan: Mapping[str, Any], run_id: str, out: Path) -> Json | None:
    """Run a plan. Returns its results, or None if it has none; its files are in `out`/`run_id`."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(plan, file)
        file.flush()
        try:
            arguments = ("--plan", file.name, "--name", run_id, "--out", str(out))
            rackrate(status, "run", *arguments, quiet=True)
        except LabError as error:
            print(f"{run_id}: {error}", flush=True)
    path = out / run_id / "results.json"
    return document(path) if path.exists() else None


@contextlib.contextmanager
def caps_of_baseline(factor: float) -> Iterator[None]:
    """Multiply the caps of the baseline's nodes by a factor within the `with` block."""
    for link in caps.change(BASELINE_NODES, factor):
        print(f"{link.node}: {link.limits.flow / 1e6:.1f} Mb/s per flow", flush=True)
    try:
        yield
    finally:
        caps.change(BASELINE_NODES, 1)


def measure(status: Mapping[str, Any], series: Series, runs: int) -> Point:
    """Make the runs of a series and print every one."""
    seeds = range(series.first_seed, series.first_seed + runs)
    print(f"\n{series.title}, seeds {seeds[0]} to {seeds[-1]}", flush=True)
    rows_ = []
    with caps_of_baseline(series.baseline_factor):
        for seed in seeds:
            results = run(status, PLAN | {"seed": seed}, f"{series.name}-{seed}", OUT)
            print(*rows(seed, results, wrong=is_wrong(series, results)), sep="\n", flush=True)
            rows_.append(results)
    print(*tally(rows_), sep="\n")
    return criterion(series, [is_wrong(series, results) for results in rows_])


def main() -> Iterator[Point]:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="Verdicts on real traffic in the lab.")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each series")
    parser.add_argument("--only", choices=sorted(ALL), help="one series alone")
    options = parser.parse_args()
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    shutil.rmtree(OUT, ignore_errors=True)
    with equal_arms() as status:
        for series in [ALL[options.only]] if options.only else ALL.values():
            yield measure(status, series, options.runs)


if __name__ == "__main__":
    sys.exit(judge(main))
