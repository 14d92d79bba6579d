"""Check a gate on real traffic: a run against four earlier runs, before and after a change.

Four runs of the lab's default stack make the baseline. The gate then runs twice: with nothing
changed, where no verdict may be worse, and with the caps of one arm lowered by a tenth, where that
arm's throughput must be worse. Run as `python -m benchmarks.lab_gate` (root), or as a part of
`make bench-verdict`. Exit codes: 0 both hold, 1 one does not, 2 the machine or the input is wrong.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.lab_verdicts import DECISIVE, PLAN, caps_of_baseline, equal_arms, run
from benchmarks.points import Point, judge

BASELINE = ("gate-1", "gate-2", "gate-3", "gate-4")
#: The factor for the caps of the arm that is slowed.
LOWERED = 0.9
SLOWED = "baseline"


def line(verdict: Mapping[str, Any]) -> str:
    """A regression in one line."""
    low, high = verdict["ci_simultaneous"] or (float("nan"), float("nan"))
    what = f"{verdict['arm']} {verdict['test']} {verdict['metric']}"
    return f"  {what:<28}{verdict['ratio']:.3f} ({low:.3f} to {high:.3f})  {verdict['verdict']}"


def holds(regressions: list[dict[str, Any]], *, slowed: bool) -> bool:
    """Whether the gate said what is true."""
    worse = {(v["arm"], v["test"], v["metric"]) for v in regressions if v["verdict"] == "worse"}
    if not slowed:
        return bool(regressions) and not worse
    return (SLOWED, *DECISIVE) in worse


def main() -> Iterator[Point]:
    """Run the benchmark."""
    with equal_arms() as status, tempfile.TemporaryDirectory() as directory:
        out = Path(directory)
        for seed, run_id in enumerate(BASELINE, start=1):
            run(status, PLAN | {"seed": seed}, run_id, out)
        gate = PLAN | {"compare_with": list(BASELINE)}
        for run_id, slowed in (("gate-unchanged", False), ("gate-lowered", True)):
            with caps_of_baseline(LOWERED) if slowed else contextlib.nullcontext():
                results = run(status, gate, run_id, out)
            regressions = results["regressions"] if results else []
            print(*map(line, regressions), sep="\n")
            yield Point(holds(regressions, slowed=slowed), run_id)


if __name__ == "__main__":
    sys.exit(judge(main))
