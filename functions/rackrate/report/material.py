"""What the sections of a page draw from: results, trials and raw values, put in order. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import quote

from rackrate.report.results import KEY
from rackrate.schedule import TrialKey

Json = Mapping[str, Any]
Key = tuple[Any, ...]

#: An address within the place the page is in, or one of the Web; anything else might be a script.
_ADDRESS = re.compile(r"(https://[^\s\"'<>]+|(?!/)[\w.%~-]+(/[\w.%~-]+)*)")


@dataclass(frozen=True)
class Detail:
    """How much of a large run a page holds.

    Attributes:
        rows: of the table of a figure's data.
        vectors: dots of all figures of trials together that are drawn one by one, with a tip.
        drawn_tests: of how many tests there are figures.
    """

    rows: int
    vectors: int
    drawn_tests: int


@dataclass(frozen=True)
class Material:
    """A run or a comparison, as the sections see it.

    Attributes:
        results: results.json or comparison.json.
        trials: the stored trials, warm-ups among them.
        raw: samples and series by trial id.
        detail: how much is shown.
    """

    results: Json
    trials: Sequence[Json]
    raw: Mapping[str, Json]
    detail: Detail

    @cached_property
    def arms(self) -> list[str]:
        """The arms' names; their places in the list are their colours."""
        return list(dict.fromkeys(str(arm["name"]) for arm in self.results["arms"]))

    def anchor(self, test: str) -> str | None:
        """What links to a test's section name, or None when it has none."""
        names = [each["name"] for each in self.results["plan"]["tests"]]
        return f"test-{names.index(test) + 1}" if test in names else None

    def arm_number(self, name: str) -> int:
        """An arm's place; what is no arm of this run comes after them."""
        return self.arms.index(name) if name in self.arms else len(self.arms)

    @cached_property
    def scale(self) -> float | None:
        """By what the nodes' network is scaled on purpose, or None."""
        found: float | None = self.results["run"].get("lab_scale")
        return found

    @cached_property
    def metrics(self) -> list[tuple[str, str, str]]:
        """Test, metric and unit of all that is measured."""
        return [(m["test"], m["metric"], m["unit"]) for m in self.results["metrics"]]

    @cached_property
    def _by_test(self) -> dict[str, list[Json]]:
        found: dict[str, list[Json]] = defaultdict(list)
        for trial in self.trials:
            if not trial.get("warm_up") and trial["arm"] in self.arms:
                found[trial["test"]].append(trial)
        return found

    def measured(self, test: str) -> list[Json]:
        """The trials of a test that have values, without the warm-up."""
        return [t for t in self._by_test.get(test, []) if t["status"] == "measured"]

    def failed(self, test: str) -> list[Json]:
        """Those that failed."""
        return [t for t in self._by_test.get(test, []) if t["status"] == "failed"]

    def values(self, test: str, metric: str) -> list[tuple[Json, float]]:
        """The trials of a test that have a value of the metric, with it."""
        found = []
        for trial in self.measured(test):
            values = trial.get("values") or {trial.get("metric"): trial.get("value")}
            if (value := values.get(metric)) is not None:
                found.append((trial, float(value)))
        return found

    @cached_property
    def _marks(self) -> dict[Key, list[Json]]:
        found: dict[Key, list[Json]] = defaultdict(list)
        for mark in self.results["marks"]:
            found[key_of(mark)].append(mark)
        return found

    def marks_of(self, trial: Json) -> list[Json]:
        """The marks of a trial."""
        return self._marks.get(key_of(trial), [])

    def marks_of_test(self, test: str) -> list[Json]:
        """The marks of all trials of a test."""
        return [mark for mark in self.results["marks"] if mark["test"] == test]

    @cached_property
    def _by_key(self) -> dict[Key, Json]:
        return {key_of(trial): trial for trial in self.trials}

    def trial(self, named: Json) -> Json:
        """The stored trial that a mark or a failure names; empty when there is none."""
        return self._by_key.get(key_of(named), {})

    def samples(self, test: str) -> dict[str, dict[str, list[float]]]:
        """The raw values of a test by kind and arm, all trials together, ascending."""
        found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for trial in self.measured(test):
            for kind, values in (self._raw_of(trial).get("samples") or {}).items():
                found[kind][trial["arm"]] += values
        return {
            kind: {arm: sorted(by_arm[arm]) for arm in self.arms if by_arm.get(arm)}
            for kind, by_arm in found.items()
            if any(by_arm.values())
        }

    def series(self, test: str) -> list[tuple[Json, Sequence[Json]]]:
        """The trials of a test that have a course of two intervals or more, with it."""
        found = ((trial, self._raw_of(trial).get("series") or ()) for trial in self.measured(test))
        return [(trial, intervals) for trial, intervals in found if len(intervals) > 1]

    def _raw_of(self, trial: Json) -> Json:
        return self.raw.get(TrialKey(*(trial[name] for name in KEY)).id, {})

    def raw_link(self, trial: Json) -> str | None:
        """Where the tool's output of a trial is, seen from the page; None when it is not kept."""
        found = trial.get("raw_href")
        if not found and (key := trial.get("raw_key")):
            found = f"raw/{quote(str(key).rsplit('/', 1)[-1])}"
        return str(found) if found and _ADDRESS.fullmatch(str(found)) else None


def key_of(named: Json) -> Key:
    """What names a trial, from the trial itself, a mark or a failure."""
    return tuple(named.get(name) for name in KEY)


def pairs(trials: Iterable[Json]) -> set[frozenset[str]]:
    """The pairs of nodes that trials were measured between, whichever way."""
    return {frozenset((trial["client"], trial["server"])) for trial in trials}
