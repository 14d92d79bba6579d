"""Check verdicts on real traffic: many runs in one lab whose true difference is known.

There are two series of runs, each run with its own seed. The stack's two arms are identical: no
placement group, each node in its own rack.

- A/A: nothing differs. A run with any verdict of difference is a false positive.
- A/B: the baseline's caps are lowered, so that the treatment's are 10 % higher. A run whose verdict
  on a single flow's throughput is not "better" has missed the difference.

Run as `python -m benchmarks.lab_verdicts [--runs N] [--only aa|ab] [--keep DIR]` (root), or as the
last part of `make bench-verdict`. Each run's files are stored when it ends, so a benchmark that was
stopped continues when it gets the same directory. Exit codes: 0 both series pass, 1 one fails,
2 the machine or the input is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import daemon, stack
from lab.cache import key_of
from lab.errors import LabError
from lab.fabric import caps
from lab.up import bring_up

Json = dict[str, Any]

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
ABOUT = "about.json"

#: Short tests suffice: one second has about 2000 of the lab's round trips. TCP needs a few dozen of
#: them to fill a link whose queue holds 16 ms.
PLAN: Json = {
    "tests": [
        {"name": "tcp-1", "seconds": 1},
        {"name": "tcp-8", "seconds": 1},
        {"name": "rtt", "count": 10, "interval_seconds": 0.1},
    ],
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

    def seeds(self, runs: int) -> range:
        """The seeds of the first `runs` runs."""
        return range(self.first_seed, self.first_seed + runs)


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


def criterion(series: Series, wrong: Sequence[bool]) -> tuple[bool, str]:
    """Whether a series passes, and a line that says so."""
    runs, count = len(wrong), sum(wrong)
    tolerated = int(runs * TOLERATED_SHARE)
    holds = runs > 0 and count <= tolerated
    if series is AA:
        told = f"{count} of {runs} runs found a difference, at most {tolerated} may"
    else:
        told = f"{runs - count} of {runs} runs found it, at least {runs - tolerated} must"
    return holds, f"{'PASS' if holds else 'FAIL'}  {series.title}: {told}"


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
        more = "".join(f"; steadiness: {said}" for _, said in steadiness)
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


# -- what is kept


@dataclass(frozen=True)
class Kept:
    """The directory of a benchmark's runs, with a directory for each run."""

    directory: Path

    def claim(self) -> None:
        """Raise LabError when the directory holds runs of another plan or other functions."""
        about = {"plan": PLAN, "cap_ratio": CAP_RATIO, "functions": functions_key()}
        path = self.directory / ABOUT
        if path.exists():
            if json.loads(path.read_text("utf-8")) != about:
                raise LabError(
                    f"The runs in {self.directory} are of another plan or of other functions: "
                    "give --keep a new directory."
                )
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(about, indent=1), encoding="utf-8")

    def results(self, series: Series, seed: int) -> Json | None:
        """A run's results, or None if it has none yet."""
        try:
            text = (self.directory / run_name(series, seed) / "results.json").read_text("utf-8")
        except FileNotFoundError:
            return None
        found: Json = json.loads(text)
        return found

    def has_all(self, series: Series, runs: int) -> bool:
        """Whether all runs of the series have results."""
        return all(self.results(series, seed) for seed in series.seeds(runs))


def run_name(series: Series, seed: int) -> str:
    """A run's id and the name of its directory."""
    return f"{series.name}-{seed}"


def functions_key() -> str:
    """A digest of the functions' source, to detect runs made with other functions."""
    directory = stack.REPOSITORY / "functions"
    sources = sorted(directory.rglob("*.py"))
    return key_of(*(part for path in sources for part in (path.name, path.read_bytes())))


# -- the lab


@contextlib.contextmanager
def lab_with_equal_arms() -> Iterator[Json]:
    """Start a lab with a stack whose arms are identical. Yields its status. Raises LabError."""
    started = time.monotonic()

    def say(step: str) -> None:
        print(f"{time.monotonic() - started:5.0f} s  {step}", flush=True)

    # The true ratio is that of the caps alone only where every node has the same place.
    status = bring_up(say, tied=True, deploy=False, even=True)
    try:
        say("building the stack (sam build)")
        stack.build()
        stack.deploy(status, say, parameters=PARAMETERS)
        yield status
    finally:
        daemon.stop()


def run(status: Mapping[str, Any], plan: Mapping[str, Any], run_id: str, out: Path) -> None:
    """Run a plan with the `rackrate` command, which writes its files to `out`/`run_id`."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(plan, file)
        file.flush()
        done = subprocess.run(
            [
                *(str(Path(sys.executable).parent / "rackrate"), "run", "--plan", file.name),
                *("--name", run_id, "--out", str(out)),
            ],
            env=stack.child_environment(status),
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        print(f"{run_id} ended with {done.returncode}: {done.stderr.strip()[-800:]}", flush=True)


@contextlib.contextmanager
def caps_of_baseline(factor: float) -> Iterator[None]:
    """Multiply the caps of the baseline's nodes by a factor within the `with` block."""
    for link in caps.change(BASELINE_NODES, factor):
        print(f"{link.node}: {link.limits.flow / 1e6:.1f} Mb/s per flow", flush=True)
    try:
        yield
    finally:
        caps.change(BASELINE_NODES, 1)


def measure(status: Mapping[str, Any] | None, series: Series, runs: int, kept: Kept) -> bool:
    """Make the missing runs of a series and print every run. Returns whether the series passes.

    `status` is the lab's. With None, no runs are made.
    """
    print(
        f"\n{series.title}, seeds {series.seeds(runs)[0]} to {series.seeds(runs)[-1]}", flush=True
    )
    found = []
    with contextlib.ExitStack() as leaving:
        if status is not None and not kept.has_all(series, runs):
            leaving.enter_context(caps_of_baseline(series.baseline_factor))
        for seed in series.seeds(runs):
            if status is not None and kept.results(series, seed) is None:
                run(status, PLAN | {"seed": seed}, run_name(series, seed), kept.directory)
            found.append(kept.results(series, seed))
            print(*rows(seed, found[-1], wrong=is_wrong(series, found[-1])), sep="\n", flush=True)
    holds, line = criterion(series, [is_wrong(series, results) for results in found])
    print(*tally(found), line, sep="\n", flush=True)
    return holds


def main() -> int:
    """Run the benchmark. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Verdicts on real traffic in the lab.")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each series")
    parser.add_argument("--only", choices=sorted(ALL), help="one series alone")
    parser.add_argument("--keep", type=Path, help="the runs' directory; goes on where it ended")
    asked = parser.parse_args()
    if asked.runs < 1:
        parser.error("--runs must be at least 1")
    chosen = [ALL[asked.only]] if asked.only else list(ALL.values())
    default = stack.REPOSITORY / "out" / time.strftime("lab-verdicts-%Y%m%dT%H%M%SZ", time.gmtime())
    kept = Kept((asked.keep or default).resolve())
    try:
        kept.claim()
        print(f"The runs are kept in {kept.directory}; --keep goes on there.", flush=True)
        with contextlib.ExitStack() as leaving:
            status = None
            if not all(kept.has_all(series, asked.runs) for series in chosen):
                status = leaving.enter_context(lab_with_equal_arms())
            hold = [measure(status, series, asked.runs, kept) for series in chosen]
    except LabError as error:
        print(error, file=sys.stderr)
        return 2
    return 0 if all(hold) else 1


if __name__ == "__main__":
    sys.exit(main())
