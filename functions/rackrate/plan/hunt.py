"""What a hunt hunts for, and the check of its input. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rackrate.plan.campaign_fields import CampaignInput, HuntInput
from rackrate.plan.check_tests import read_test
from rackrate.plan.faults import Faults, name_of, shown
from rackrate.plan.model import CATALOGUE
from rackrate.settings import StackArm
from rackrate.tools.base import Metric
from rackrate_contract.campaign import HuntGoal
from rackrate_contract.document import Json
from rackrate_text.units import quantity, read_quantity

#: The fields that say what is good enough.
_GOALS = ("at_most", "at_least", "best_share", "dollars_per_percent")


def read_hunt(
    model: CampaignInput, *, most: int, arms: Sequence[StackArm], idles: bool, faults: Faults
) -> tuple[HuntGoal | None, Json]:
    """What a campaign hunts for, and the plan of its runs, which measure only the hunted arm.

    Args:
        model: the campaign's input.
        most: the most draws.
        arms: the stack's arms.
        idles: whether the stack removes its nodes after each run.
        faults: where faults are added.

    Returns:
        None and the plan as it is if it hunts for nothing, or with a fault.
    """
    hunt, plan, known = model.hunt, model.plan, len(faults)
    if hunt is None:
        return None, plan
    if idles:
        faults.add(
            "hunt",
            "nodes that are found are to stay, but this stack removes its nodes after each run",
            'update the stack with "IdleScaleToZero=false"',
        )
    if "arms" in plan:
        remedy = "remove it; hunt.arm names the arm, and hunt.endpoint what it is measured towards"
        faults.add("plan.arms", "is not for a hunt, which measures the arm that it draws", remedy)
    names = [arm.name for arm in arms]
    usual = [*(arm.name for arm in arms if not arm.baseline), *names, ""]
    arm = usual[0] if hunt.arm is None else hunt.arm
    if arm not in names:
        faults.add_unknown("hunt.arm", "the stack has no arm", arm, names)
    given = [name for name in _GOALS if getattr(hunt, name) is not None]
    if len(given) > 1:
        problem = f"excludes {given[0]}: a hunt has one goal"
        faults.add(f"hunt.{given[1]}", problem, f"remove {given[0]}, or remove {given[1]}")
    # Of so many draws the best is probably among that share.
    least = math.ceil(math.log(0.5) / math.log1p(-(hunt.best_share or 0.5)))
    if least > most:
        problem = f"takes {least} draws to be shown, more than the most, {most}"
        faults.add("hunt.best_share", problem, "write a larger share, or raise draws")
    metric = _metric(hunt, plan.get("tests", [*CATALOGUE]), faults)
    target = None if metric is None else _target(hunt, metric, faults)
    if metric is None or len(faults) > known:
        return None, plan
    unit, better = metric.unit, metric.better
    goal = HuntGoal.from_fields(
        hunt, metric=metric.name, unit=unit, better=better, arm=arm, target=target
    )
    measured: Json | str = arm
    if hunt.endpoint is not None:
        measured = {"name": arm, "nodes": arm, "endpoint": hunt.endpoint}
    return goal, {"tests": [hunt.test], **plan, "arms": [measured]}


def _metric(hunt: HuntInput, entries: Any, faults: Faults) -> Metric | None:
    """The hunted metric, of one of a plan's tests; other faults of the plan are found later."""
    entries = entries if isinstance(entries, list) else []
    named = {each if isinstance(each, str) else name_of(each): each for each in entries}
    if hunt.test not in named:
        known, otherwise = [*filter(None, named)], ", or add it to plan.tests"
        faults.add_unknown("hunt.test", "the plan has no test", hunt.test, known, otherwise)
        return None
    if (test := read_test(named[hunt.test], "", Faults())) is None:
        return None
    by_name = {metric.name: metric for metric in test.metrics}
    if hunt.metric is not None and hunt.metric not in by_name:
        faults.add_unknown("hunt.metric", f"{test.name} has no metric", hunt.metric, by_name)
    return by_name.get(hunt.metric or test.primary.name)


def _target(hunt: HuntInput, metric: Metric, faults: Faults) -> float | None:
    """The value that is good enough, in the metric's unit; None without one."""
    right, wrong = ("at_least", "at_most") if metric.better == "higher" else ("at_most", "at_least")
    if getattr(hunt, wrong) is not None:
        more = "more" if metric.better == "higher" else "less"
        faults.add(f"hunt.{wrong}", f"of {metric.name} {more} is better", f"use {right}")
    if (text := getattr(hunt, right)) is None:
        return None
    value = read_quantity(text, metric.unit)
    if value is None:
        remedy = f"write a number above 0 with its unit, such as {quantity(1.0, metric.unit)}"
        faults.add(f"hunt.{right}", f"{shown(text)} is no value of {metric.name}", remedy)
    return value
