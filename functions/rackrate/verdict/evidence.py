"""The evidence of a run: the plan, trials and raw values that verdicts use. Pure."""

from __future__ import annotations

import functools
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rackrate.measure.counters import Counters
from rackrate.measure.trials import RawValues, Trial
from rackrate.plan.planned_run import PlannedRun
from rackrate.tools.base import Metric, TestBase
from rackrate_contract.arms import Arm
from rackrate_contract.trials import TrialKey

if TYPE_CHECKING:
    from rackrate.verdict.layout import Value


@dataclass(frozen=True)
class Evidence:
    """The data that verdicts are computed from.

    Attributes:
        planned_run: the run's plan.
        planned: the trials of the batches of blocks that it began, without the warm-up.
        trials: the stored trials, including the warm-up.
        raw: raw values of trials, by trial id.
        counters: the nodes' counters, or None when they were not read.
    """

    planned_run: PlannedRun
    planned: tuple[TrialKey, ...]
    trials: Mapping[TrialKey, Trial]
    raw: Mapping[str, RawValues]
    counters: Counters | None = None

    @functools.cached_property
    def measured(self) -> dict[TrialKey, Trial]:
        """The planned trials that were measured."""
        return {
            key: trial
            for key in self.planned
            if (trial := self.trials.get(key)) is not None and trial.is_measured
        }

    @functools.cached_property
    def by_test_and_arm(self) -> dict[tuple[str, str], list[Trial]]:
        """The measured trials, in the order of the blocks."""
        trials: dict[tuple[str, str], list[Trial]] = defaultdict(list)
        for key in sorted(self.measured):
            trials[key.test, key.arm].append(self.measured[key])
        return trials

    @property
    def tests(self) -> tuple[TestBase, ...]:
        """The plan's tests, in its order."""
        return self.planned_run.plan.tests

    @functools.cached_property
    def arms(self) -> dict[str, Arm]:
        """The plan's arms by name."""
        return {arm.name: arm for arm in self.planned_run.arms}

    def values(self, test: TestBase, metric: Metric, arm: str) -> list[Value]:
        """The values of an arm's trials as the estimator's input."""
        from rackrate.verdict.layout import Value  # importing numpy is slow; few functions do

        return [
            Value(trial.block, trial.client, trial.server, value)
            for trial in self.by_test_and_arm.get((test.name, arm), [])
            if (value := trial.values.get(metric.name)) is not None
        ]


def shared_tests(after: Evidence, before: Sequence[Evidence]) -> list[TestBase]:
    """The tests that a run shares with all other runs, with the same name and parameters."""
    return [test for test in after.tests if all(test in run.tests for run in before)]


def shared_arms(after: Evidence, before: Sequence[Evidence]) -> list[str]:
    """The arms that a run shares by name with all other runs."""
    return [arm for arm in after.arms if all(arm in run.arms for run in before)]


def unshared(after: Evidence, before: Evidence, other: str) -> list[str]:
    """Sentences on the tests and arms of a run that the other run does not have.

    Args:
        after: the run.
        before: the other run.
        other: the other run's name in the sentences.
    """
    theirs = {test.name: test for test in before.tests}
    return [
        f"the test {test.name} is not in {other}"
        if test.name not in theirs
        else f"the test {test.name} differs in {other}: {changed_options(theirs[test.name], test)}"
        for test in after.tests
        if test not in before.tests
    ] + [f"the arm {arm} is not in {other}" for arm in after.arms if arm not in before.arms]


def changed_options(theirs: TestBase, ours: TestBase) -> str:
    """The fields in which two tests of one name differ: `connections 1 instead of 16`."""
    one, other = (test.model_dump(mode="json") for test in (theirs, ours))
    return ", ".join(
        f"{field} {json.dumps(one.get(field))} instead of {json.dumps(other.get(field))}"
        for field in dict.fromkeys((*other, *one))
        if one.get(field) != other.get(field)
    )
