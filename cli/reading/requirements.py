"""Requirements on a run's verdicts (`--require`): `tcp-1 better`, `rtt treatment not worse`. Pure.

    <test> [<metric>] [<arm>] <verdict> [or <verdict>]... [than before]

A verdict is `better`, `worse`, `no meaningful difference` or `inconclusive`. `not` before a verdict
accepts each of the others. All verdicts that the names select have to be accepted ones, so a
requirement without an arm applies to all arms. A metric is named as in the table (`latency p99`) or
as in results.json (`latency latency_p99`). `than before` selects the comparison with the earlier
runs that the plan's `compare_with` names. Fewer than four earlier runs decide nothing, so they
neither meet a requirement nor fail it: it is refused.

    fill [<arm>] >= <share>

asks a campaign how often all nodes of each arm came, or of one. What was observed decides.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from rackrate_text.units import change_with_interval, percent
from rackrate_text.words import listed, metric_of_test

from ..errors import Refusal
from .baselines import LEAST_RUNS, what_a_gate_needs

if TYPE_CHECKING:
    from rackrate_contract.campaign import Answer, CampaignResults
    from rackrate_contract.capacity import Capacity
    from rackrate_contract.results import Findings
    from rackrate_contract.verdicts import Verdict

VERDICTS = ("better", "worse", "no meaningful difference", "inconclusive")

DEFAULT_TESTS = ("requests", "requests-loaded", "tcp-1", "tcp-8")
"""The tests of a plan that names none (docs/plan.md)."""

_FIRST_WORDS = {verdict.split()[0] for verdict in VERDICTS} | {"not"}
_BEFORE = ["than", "before"]
_OR = re.compile(r"(?<!\S)or(?!\S)")
_FILL, _AT_LEAST = "fill", ">="
_SHOWN = 6
#: A metric of two words, such as `latency p99`, and an arm.
_MOST_NAMES = 3
_PERCENTILE = re.compile(r"p\d+(\.\d+)?", re.ASCII)


@dataclass(frozen=True)
class Requirement:
    """One requirement.

    `names` are the words of a metric, an arm, or both in this order. `accepted` are the verdicts
    that meet it. `is_about_earlier` says that it applies to the comparison with earlier runs.
    `least_fill` is the share of launches that have to be filled; None for one about verdicts.
    """

    text: str
    test: str
    names: tuple[str, ...]
    accepted: frozenset[str]
    is_about_earlier: bool
    least_fill: float | None = None

    def fits(self, subject: Subject) -> bool:
        """Whether the requirement applies to a subject. An unknown part fits every name."""
        if subject.test != self.test:
            return False
        if not self.names:
            return True
        *rest, last = self.names
        names_its_arm = subject.arm in (None, last) and (not rest or subject.is_of(rest))
        return names_its_arm or subject.is_of(self.names)


@dataclass(frozen=True)
class Subject:
    """What a verdict is about. None means unknown before the run."""

    test: str
    metric: str | None
    arm: str | None

    def is_of(self, words: Sequence[str]) -> bool:
        """Whether its metric is named by these words: as in results.json, or as in the table.

        `latency_p99` and `latency p99` are the same, and `p99` of the test `latency`, too. So are
        `latency_p99_9` and `latency p99.9`.
        """
        if self.metric is None:
            # The metrics of two words are percentiles. Two others may have a misspelt arm.
            return len(words) == 1 or (len(words) == 2 and bool(_PERCENTILE.fullmatch(words[1])))
        metric = "_".join(words).replace(".", "_")
        return self.metric in (metric, f"{self.test}_{metric}")

    def __str__(self) -> str:
        named = metric_of_test(self.test, self.metric) if self.metric else self.test
        # A metric with the name of its test is named with both: `rtt rtt`.
        words = f"{self.test} {named}" if named == self.metric else named
        return " ".join(filter(None, (words, self.arm)))


#: A verdict of a run, or an answer of a campaign.
type Word = Verdict | Answer
#: What requirements apply to.
type Judged = Findings | CampaignResults


@dataclass(frozen=True)
class Checked:
    """A requirement, whether it is met, why, and the verdicts that it applies to."""

    requirement: Requirement
    is_met: bool
    why: str
    verdicts: tuple[Word, ...]

    @property
    def could_not_fail(self) -> str | None:
        """Why it is met whatever was measured, or None.

        Only a verdict of `worse` fails it, and the earlier runs do not show a regression of the
        margin.
        """
        accepted = self.requirement.accepted
        blind = [v for v in self.verdicts if not isinstance(v.baseline, str) and v.is_blind]
        if not blind or not self.is_met or "worse" in accepted or "inconclusive" not in accepted:
            return None
        names = listed(f"{verdict.sides[0]}'s {verdict.name}" for verdict in blind)
        margin = percent(blind[0].margin)
        return f"the earlier runs do not show a regression of {margin} in {names}"

    @property
    def word(self) -> str:
        """Whether it is met, in words."""
        if self.could_not_fail:
            return f"met, but it could not have failed: {self.could_not_fail}"
        return "met" if self.is_met else "not met"

    def as_document(self) -> dict[str, Any]:
        """The finding for `--json`."""
        return {
            "requirement": self.requirement.text,
            "met": self.is_met,
            "could_not_fail": self.could_not_fail,
            "why": self.why,
        }


def parse_requirements(texts: Iterable[str]) -> tuple[Requirement, ...]:
    """Parse requirements. Raises Refusal for the first invalid one."""
    return tuple(parse_requirement(text) for text in texts)


def parse_requirement(text: str) -> Requirement:
    """Parse one requirement. Raises Refusal when it is invalid."""
    words = text.split()
    if not words:
        raise Refusal('A requirement is empty; write, for example, --require "tcp-1 better".')
    shown = " ".join(words)
    if words[0].startswith(_FILL) and _AT_LEAST in text:
        return _about_fill(text, shown)
    earlier = words[-2:] == _BEFORE
    if earlier:
        words = words[:-2]
    begin = next((i for i, word in enumerate(words) if i and word in _FIRST_WORDS), None)
    if begin is None:
        raise Refusal(
            f'The requirement "{shown}" has no verdict after a test\'s name; end it with'
            f" {_verdicts()}."
        )
    names = tuple(words[1:begin])
    if len(names) > _MOST_NAMES:
        raise Refusal(
            f'The requirement "{shown}" has {len(names)} names between test and verdict; write at'
            " most a metric and an arm there."
        )
    accepted: set[str] = set()
    for alternative in _OR.split(" ".join(words[begin:])):
        accepted |= _accepted(alternative.strip(), shown)
    if len(accepted) == len(VERDICTS):
        raise Refusal(
            f'The requirement "{shown}" is met by every verdict; leave out an alternative.'
        )
    return Requirement(shown, words[0], names, frozenset(accepted), earlier)


def _about_fill(text: str, shown: str) -> Requirement:
    """Parse a requirement about the share of launches that were filled."""
    begin, _, share = text.partition(_AT_LEAST)
    test, *names = begin.split()
    try:
        least = float(share)
    except ValueError:
        least = math.nan
    if test != _FILL or not 0 < least <= 1:
        raise Refusal(
            f'The requirement "{shown}" names no share; write one above 0 and up to 1 at its end,'
            " such as fill >= 0.9."
        )
    return Requirement(shown, test, tuple(names), frozenset(), False, least)


def about_verdicts(requirements: Sequence[Requirement]) -> list[Requirement]:
    """Those of a campaign that the plan of its runs can be checked against."""
    return [requirement for requirement in requirements if requirement.least_fill is None]


def check_plan(requirements: Sequence[Requirement], plan: Mapping[str, Any]) -> None:
    """Check requirements against a plan before the start.

    This cannot check what the plan leaves to the stack. Raises Refusal for a requirement that the
    run can never meet.
    """
    tests = _names(plan.get("tests", list(DEFAULT_TESTS)))
    arms = _names(plan.get("arms"))
    baseline = plan.get("baseline")
    for requirement in requirements:
        if requirement.is_about_earlier and not plan.get("compare_with"):
            raise _nothing_earlier(requirement)
        if tests is None:
            continue
        compared: Sequence[str | None] = [None]
        if arms is not None:
            is_compared = requirement.is_about_earlier or baseline is None
            compared = [arm for arm in arms if is_compared or arm != baseline]
        _check(requirement, [Subject(test, None, arm) for test, arm in product(tests, compared)])


def check_planned(requirements: Sequence[Requirement], document: Mapping[str, Any]) -> None:
    """Check requirements against a plan.json, which knows every arm and metric.

    Raises Refusal for a requirement that the run can never meet.
    """
    plan = document["plan"]
    metrics = document["metrics"]
    arms = [arm["name"] for arm in document["arms"]]
    for requirement in requirements:
        if requirement.is_about_earlier:
            earlier = plan.get("compare_with")
            if not earlier:
                raise _nothing_earlier(requirement)
            runs = 1 if isinstance(earlier, str) else len(earlier)
            check_number_of_runs(requirement, runs, document.get("compare_with_baseline"))
        everyone = requirement.is_about_earlier
        compared = [arm for arm in arms if everyone or arm != plan.get("baseline")]
        _check(
            requirement,
            [Subject(m["test"], m["metric"], arm) for m, arm in product(metrics, compared)],
        )


def evaluate(requirements: Sequence[Requirement], results: Judged) -> list[Checked]:
    """Check requirements against results. Raises Refusal for one that applies to no verdict."""
    return [_evaluate(requirement, results) for requirement in requirements]


def _evaluate(requirement: Requirement, results: Judged) -> Checked:
    if requirement.least_fill is not None:
        return _evaluate_fill(requirement, requirement.least_fill, getattr(results, "capacity", ()))
    verdicts: Sequence[Word] = results.verdicts
    if requirement.is_about_earlier:
        verdicts = results.regressions
        if not verdicts:
            raise _nothing_earlier(requirement)
    subjects = [Subject(verdict.test, verdict.metric, verdict.arm) for verdict in verdicts]
    _check(requirement, subjects)
    about = tuple(
        verdict
        for verdict, subject in zip(verdicts, subjects, strict=True)
        if requirement.fits(subject)
    )
    missing = max(map(_missing_runs, about))
    check_number_of_runs(requirement, LEAST_RUNS - missing)
    against = tuple(verdict for verdict in about if verdict.verdict not in requirement.accepted)
    why = "; ".join(_finding(verdict) for verdict in against or about)
    return Checked(requirement, not against, why, about)


def _evaluate_fill(requirement: Requirement, least: float, capacity: Sequence[Capacity]) -> Checked:
    arm = " ".join(requirement.names)
    about = [each for each in capacity if not arm or arm in (each.arm, each.arm_title)]
    if not about:
        arms = listed((each.arm for each in capacity), "or", most=_SHOWN)
        remedy = f"use one of {arms}" if capacity else "only campaigns of draws measure it"
        raise Refusal(
            f'The requirement "{requirement.text}" is about launches that were not made; {remedy}.'
        )
    against = [each for each in about if each.share < least]
    why = "; ".join(f"{each.arm_title} {each.in_words('draw')}" for each in against or about)
    # A few launches show little: what was observed decides, and this says how far it carries.
    if not against and any(each.ci95[0] < least for each in about):
        why += f"; so few do not show {percent(least)}"
    return Checked(requirement, not against, why, ())


def _missing_runs(verdict: Word) -> int:
    """How many more earlier runs a verdict needs; none if it is not about earlier runs.

    Results of earlier versions have words from fewer runs, which are none.
    """
    if isinstance(verdict.baseline, str):  # an answer's
        return 0
    runs = len(verdict.baseline.runs)
    too_few = LEAST_RUNS - runs if runs else 0
    return max(getattr(verdict, "more_runs", None) or 0, too_few)


def _check(requirement: Requirement, subjects: Sequence[Subject]) -> None:
    if requirement.least_fill is not None:
        raise Refusal(
            f'The requirement "{requirement.text}" is about launches; give it to `rackrate campaign'
            " run`, which makes several."
        )
    if any(requirement.fits(subject) for subject in subjects):
        return
    tests = list(dict.fromkeys(subject.test for subject in subjects))
    if requirement.test not in tests:
        raise Refusal(
            f'The requirement "{requirement.text}" names the test "{requirement.test}", which the'
            f" run does not have; use one of"
            f" {listed(tests, 'or', most=_SHOWN) or 'the tests it has'}."
        )
    of_test = list(dict.fromkeys(str(s) for s in subjects if s.test == requirement.test))
    raise Refusal(
        f'The requirement "{requirement.text}" fits nothing that is compared in the run; begin it'
        f" with {listed(of_test, 'or', most=_SHOWN)}."
    )


def check_number_of_runs(requirement: Requirement, runs: int, baseline: str | None = None) -> None:
    """Raise Refusal for a requirement against fewer runs than decide anything.

    Args:
        requirement: the requirement.
        runs: how many earlier runs there are.
        baseline: the name of their baseline, or None.
    """
    if runs < LEAST_RUNS:
        raise Refusal(
            f'The requirement "{requirement.text}" cannot be decided:'
            f" {what_a_gate_needs(runs, baseline)}."
        )


def _nothing_earlier(requirement: Requirement) -> Refusal:
    return Refusal(
        f'The requirement "{requirement.text}" is about earlier runs, and the plan names none;'
        " add compare_with to the plan."
    )


def _names(entries: object) -> list[str] | None:
    """The names of a plan's tests or arms. None when they are missing or not names."""
    if not isinstance(entries, list):
        return None
    named = [entry.get("name") if isinstance(entry, dict) else entry for entry in entries]
    names = [name for name in named if isinstance(name, str)]
    return names if len(names) == len(named) else None


def _accepted(alternative: str, text: str) -> set[str]:
    negated = alternative.startswith("not ")
    verdict = alternative.removeprefix("not ").strip()
    if verdict not in VERDICTS:
        what = f'"{verdict}" is no verdict' if verdict else "a verdict is missing"
        raise Refusal(f'In the requirement "{text}" {what}; use {_verdicts()}.')
    return set(VERDICTS) - {verdict} if negated else {verdict}


def _verdicts() -> str:
    return f"{listed(VERDICTS, 'or')}, or `not` and one of them"


def _finding(verdict: Word) -> str:
    """`treatment's tcp-1 throughput is better, +100 % (95 % CI +99 to +101 %)`."""
    finding = f"{verdict.sides[0]}'s {verdict.name} is {verdict.verdict}"
    if verdict.ratio is not None:
        finding += f", {change_with_interval(verdict.ratio, verdict.ci_simultaneous)}"
    if verdict.verdict == "inconclusive" and verdict.lacks:
        finding += f": {verdict.lacks}"
    if shows := getattr(verdict, "shows", ""):
        finding += f"; {shows}"
    return finding
