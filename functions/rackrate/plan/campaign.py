"""The campaign, and the check of its input.

The check reports every mistake at once, with its path in the input. Pure.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from rackrate.errors import Fault, InvalidPlan
from rackrate.plan.campaign_fields import LEAST_DRAWS, MAX_SWEEP_VALUES, CampaignInput, Draws
from rackrate.plan.capacity import load_nodes_for
from rackrate.plan.check import check_plan
from rackrate.plan.faults import (
    Faults,
    check_name,
    faults_of,
    kind_of,
    read_fields,
    shown,
    whole_numbers,
)
from rackrate.plan.fields import without_started_by
from rackrate.plan.hunt import read_hunt
from rackrate.plan.model import Plan
from rackrate.settings import Settings, StackArm
from rackrate_contract.campaign import CampaignKind, HuntGoal
from rackrate_contract.document import Document, Json
from rackrate_text.words import listed, nearest

#: The fields that say what a campaign does. They exclude each other, but a hunt may have draws.
_KINDS = ("draws", "sweep", "pool", "hunt")
#: The fields that a continued campaign may have besides `continue`.
_ANEW = ("budget_dollars", "draws", "dry_run")
#: The names of executions have at most 80 characters, and a run's is the campaign's and `-01`.
MAX_CAMPAIGN_ID = 76
#: The default: fewer draws say nothing of the group, more than these hardly help.
USUAL_DRAWS = Draws(least=LEAST_DRAWS, most=12)


class Sweep(Document):
    """What a sweep changes, and to what."""

    change: str
    """The field of `sweep`."""
    values: tuple[str | int, ...]
    runs_per_step: int

    @property
    def order(self) -> tuple[str | int, ...]:
        """The value of each step: forth, back, forth, so that a steady drift cancels."""
        forth = list(self.values)
        return tuple(
            value
            for number in range(self.runs_per_step)
            for value in (reversed(forth) if number % 2 else forth)
        )


class Uploaded(Document):
    """Results of another stack, which were uploaded to the bucket."""

    results: str
    """The object's key."""


class Campaign(Document):
    """A checked campaign, with every default filled in. One of `draws`, `sweep`, `pool` is set.

    A hunt has `draws`, too.
    """

    plan: Json
    """The plan of every run, as it was given."""
    draws: Draws | None
    sweep: Sweep | None
    pool: tuple[str | Uploaded, ...] | None
    hunt: HuntGoal | None = None
    pause_minutes: int = 0
    series: str | None
    skip_if_running: bool = False
    budget_dollars: float
    continues: str | None
    seed: int
    dry_run: bool

    @property
    def kind(self) -> CampaignKind:
        """What it does."""
        if self.pool is not None or self.hunt is not None:
            return "pool" if self.hunt is None else "hunt"
        return "draws" if self.sweep is None else "sweep"

    @property
    def least(self) -> int:
        """The fewest steps that it makes unless something fails."""
        return self.draws.least if self.draws is not None else self.most

    @property
    def most(self) -> int:
        """The most steps that it makes."""
        if self.draws is not None:
            return self.draws.most
        return len(self.pool or ()) if self.sweep is None else len(self.sweep.order)

    def value_after(self, done: Iterable[str | int | None]) -> str | int | None:
        """The value of the next step of a sweep; None for draws.

        Args:
            done: the values of the steps that have a result.
        """
        if self.sweep is None:
            return None
        left = Counter(done)
        for value in self.sweep.order:
            if left[value] == 0:
                return value
            left[value] -= 1
        raise LookupError("every step of the sweep is done")

    def plan_of_step(self, campaign_id: str, number: int) -> Json:
        """The input of a step's run; each run has a seed of its own unless the plan has one."""
        seed = zlib.crc32(f"{self.seed} {number}".encode())
        return {"seed": seed, **self.plan, "campaign": campaign_id}


def run_id_of_step(campaign_id: str, number: int) -> str:
    """The id of a step's run."""
    return f"{campaign_id}-{number:02d}"


# -- the check


def read_campaign(
    raw: object,
    *,
    campaign_id: str,
    sweeps: Collection[str],
    owns_nodes: bool,
    before: Mapping[str, Any] | None,
    faults: Faults,
    arms: Sequence[StackArm] = (),
    idles: bool = False,
) -> Campaign:
    """Read a campaign's input. Faults are added to `faults`; invalid fields have their defaults.

    The plan is checked by `check_plans`, and a sweep's values by their change.

    Args:
        raw: the execution's input, any JSON value.
        campaign_id: the source of the seed for a campaign without one.
        sweeps: the names of the changes that a sweep can make.
        owns_nodes: whether the stack made its nodes.
        before: the input of the campaign that this one continues; None if it continues none, or
            one that does not exist.
        faults: where faults are added.
        arms: the stack's arms.
        idles: whether the stack removes its nodes after each run.
    """
    fields = whole_numbers(_with_earlier_fields(without_started_by(raw), before, faults))
    model = read_fields(fields, CampaignInput, faults, "leave out what the defaults say already")
    _check_id(campaign_id, faults)
    sweep = _read_sweep(model, sweeps, faults)
    pool = _read_pool(model, faults)
    _check_kinds(model, fields, faults)
    if pool is None and not owns_nodes:
        faults.add(
            next((name for name in ("hunt", "sweep") if getattr(model, name) is not None), "draws"),
            "this stack did not make the cluster, and replaces and changes nothing in it",
            "make runs on different days or clusters, and pool them:"
            ' {"pool": ["<run>", "<run>"]}, or rackrate pool',
        )
    for field in ("dry_run", "campaign"):
        if field in model.plan:
            remedy = "remove it" if field == "campaign" else "write it beside plan"
            faults.add(f"plan.{field}", "is not a field of a campaign's plan", remedy)
    draws = None
    if sweep is None and pool is None:
        draws = USUAL_DRAWS if model.draws is None else Draws.of(model.draws)
    hunt, plan = None, model.plan
    if draws is not None and model.hunt is not None:
        # A hunt stops as soon as the present nodes are good enough.
        draws = Draws(least=1, most=draws.most)
        hunt, plan = read_hunt(model, most=draws.most, arms=arms, idles=idles, faults=faults)
    return Campaign(
        plan={k: v for k, v in plan.items() if k not in ("dry_run", "campaign")},
        draws=draws,
        sweep=sweep,
        pool=pool,
        hunt=hunt,
        pause_minutes=model.pause_minutes,
        series=model.series,
        skip_if_running=model.skip_if_running,
        budget_dollars=model.budget_dollars,
        continues=model.continues,
        seed=zlib.crc32(campaign_id.encode()) if model.seed is None else model.seed,
        dry_run=model.dry_run,
    )


def _with_earlier_fields(raw: object, before: Mapping[str, Any] | None, faults: Faults) -> object:
    """The input, with the fields of the campaign that it continues."""
    if not isinstance(raw, dict) or before is None:
        return raw
    anew = {name for name in _ANEW if name in raw}
    for name in sorted(raw.keys() - {*_ANEW, "continue", "$schema"}):
        problem = "is taken over from the campaign that this one continues"
        faults.add(name, problem, f"remove it; {listed(_ANEW)} may be given")
    usual = {"dry_run": False, "skip_if_running": False}
    return {**before, **usual, **{name: raw[name] for name in (*anew, "continue")}}


def _check_id(campaign_id: str, faults: Faults) -> None:
    check_name(campaign_id, faults)
    if len(campaign_id) > MAX_CAMPAIGN_ID:
        faults.add(
            "$",
            f"the execution's name has {len(campaign_id)} characters, and the names of its runs"
            " would be too long",
            f"give the execution a name of at most {MAX_CAMPAIGN_ID} characters",
        )


def _check_kinds(model: CampaignInput, raw: object, faults: Faults) -> None:
    fields: Mapping[str, Any] = raw if isinstance(raw, dict) else {}
    chosen = [name for name in _KINDS if fields.get(name) is not None]
    if "hunt" in chosen and "draws" in chosen:
        chosen.remove("draws")
    if len(chosen) > 1:
        first, second = chosen[:2]
        problem = f"excludes {first}: a campaign does one of {listed(_KINDS, 'or')}"
        faults.add(second, problem, f"remove {first}, or remove {second}")
    if model.sweep is None and "runs_per_step" in fields:
        problem = "is only for a sweep"
        faults.add("runs_per_step", problem, "remove it; draws says how many draws")
    if chosen and chosen[0] != "draws":
        for name in ("series", "pause_minutes"):
            if getattr(model, name):
                faults.add(name, "is only for draws", "remove it")
    if model.pool is not None:
        faults += [
            Fault(name, "is not for a pool, which measures nothing", "remove it")
            for name in ("plan", "budget_dollars", "seed", "continue")
            if name in fields
        ]


def _read_sweep(model: CampaignInput, sweeps: Collection[str], faults: Faults) -> Sweep | None:
    if model.sweep is None:
        return None
    possible = listed(sorted(sweeps), "or")
    unknown = sorted(model.sweep.keys() - set(sweeps))
    for name in unknown:
        path = f"sweep.{name}" if len(name) <= 60 else "sweep"
        problem = f"is nothing that a campaign can change{nearest(name, sweeps)}"
        faults.add(path, problem, f"use one of {possible}")
    chosen = [name for name in model.sweep if name in sweeps]
    if not chosen and not unknown:
        faults.add("sweep", "is empty", f"use one of {possible}")
    if len(chosen) > 1:
        problem = f"changes {listed(chosen)} at once"
        faults.add("sweep", problem, "change one thing, or make several campaigns")
    if not chosen:
        return None
    name = chosen[0]
    return Sweep(
        change=name,
        values=tuple(_values(f"sweep.{name}", model.sweep[name], faults)),
        runs_per_step=model.runs_per_step,
    )


def _values(path: str, raw: Sequence[Any], faults: Faults) -> list[str | int]:
    if len(raw) < 2:
        faults.add(path, "has fewer than two values", "name what to compare")
    if len(raw) > MAX_SWEEP_VALUES:
        problem = f"has more than {MAX_SWEEP_VALUES} entries"
        faults.add(path, problem, "split it into several campaigns")
    values: list[str | int] = []
    for index, value in enumerate(raw):
        place = f"{path}[{index}]"
        if isinstance(value, bool) or not isinstance(value, str | int):
            problem = f"must be a text or a whole number, not {kind_of(value)}"
            faults.add(place, problem, "correct it")
        elif value in values:
            problem = f"{shown(value)} is named twice"
            faults.add(place, problem, "name each value once; runs_per_step repeats them")
        else:
            values.append(value)
    return values


def _read_pool(model: CampaignInput, faults: Faults) -> tuple[str | Uploaded, ...] | None:
    if model.pool is None:
        return None
    entries: list[str | Uploaded] = []
    for index, entry in enumerate(model.pool):
        path = f"pool[{index}]"
        if isinstance(entry, str) and entry:
            read: str | Uploaded = entry
        elif isinstance(entry, dict):
            try:
                read = Uploaded.model_validate(entry)
            except ValidationError as error:
                faults.extend(faults_of(error, Uploaded, f"{path}."))
                continue
            if not read.results.startswith("pools/"):
                problem = f"{shown(read.results)} is no uploaded result"
                remedy = "upload results.json below pools/, or use rackrate pool, which does"
                faults.add(f"{path}.results", problem, remedy)
        else:
            problem = f"must be a run's id or an object, not {kind_of(entry)}"
            remedy = 'write the id of a run, or {"results": "pools/<id>/<n>.json"}'
            faults.add(path, problem, remedy)
            continue
        if read in entries:
            faults.add(path, "is named twice", "name each run once")
        entries.append(read)
    return tuple(entries)


def check_plans(
    plan: object,
    counts: Iterable[int],
    *,
    settings: Settings,
    campaign_id: str,
    faults: Faults,
) -> dict[int, Plan]:
    """Check the plan of the runs for each number of nodes that the steps have.

    Args:
        plan: the plan.
        counts: the numbers of nodes of each arm.
        settings: those of the stack.
        campaign_id: the campaign.
        faults: where faults are added, with the prefix `plan.`; each once.

    Returns:
        The checked plan by number of nodes, where it can run.
    """
    by_count: dict[int, Plan] = {}
    known = set(faults)
    for count in dict.fromkeys(counts):
        try:
            by_count[count] = check_plan(
                plan,
                settings,
                nodes={arm.name: count for arm in settings.arms},
                load_nodes=load_nodes_for(count, settings),
                run_id=run_id_of_step(campaign_id, 1),
            )
        except InvalidPlan as invalid:
            for fault in invalid.faults:
                path = "plan" if fault.path == "$" else f"plan.{fault.path}"
                prefixed = Fault(path, fault.problem, fault.remedy)
                if prefixed not in known:
                    known.add(prefixed)
                    faults.append(prefixed)
    return by_count
