"""Build a campaign's input from a file and options. The stack checks everything else."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rackrate_text.words import listed, nearest

from ..errors import Refusal
from .plan import CAMPAIGN, PLAN, Json, as_input, read_object
from .requirements import Requirement, about_verdicts, check_plan

MOST_DRAWS = 60
MOST_RUNS_PER_STEP = 12
SWEEPS = ("vpc_cni", "kube_proxy", "ami_release", "instance_type", "nodes")
KUBE_PROXY_MODES = ("iptables", "ipvs", "nftables")

_KINDS = ("draws", "sweep", "pool")
_DRAWS = re.compile(r"(\d{1,3})(?:-(\d{1,3}))?")


@dataclass(frozen=True)
class Options:
    """The options of `rackrate campaign run` or `hunt`, as given. None means not given."""

    file: Path | None = None
    plan: Path | None = None
    draws: str | None = None
    sweep: str | None = None
    runs_per_step: int | None = None
    budget: float | None = None
    series: str | None = None
    continues: str | None = None
    seed: int | None = None
    dry_run: bool = False
    hunt: Mapping[str, Json] | None = None
    """The given fields of `hunt`; None for other campaigns."""


def read_campaign(options: Options) -> dict[str, Json]:
    """The campaign's input. Raises Refusal, which names the option or field and the remedy.

    An option replaces the field of the file with the same meaning.
    """
    _check_together(options)
    document = {} if options.file is None else read_object(options.file, CAMPAIGN)
    if options.plan is not None:
        document["plan"] = read_object(options.plan, PLAN)
    if options.draws is not None:
        document["draws"] = parse_draws(options.draws)
    if options.sweep is not None:
        document["sweep"] = parse_sweep(options.sweep)
    fields: dict[str, Json] = {
        "hunt": dict(options.hunt or {}) or None,
        "runs_per_step": options.runs_per_step,
        "budget_dollars": options.budget,
        "series": options.series,
        "continue": options.continues,
        "seed": options.seed,
        "dry_run": options.dry_run or None,
    }
    document |= {name: value for name, value in fields.items() if value is not None}
    _check_document(document, str(options.file))
    return document


def as_text(document: Mapping[str, Json], options: Options) -> str:
    """The input as text for the execution. Raises Refusal when it is too large."""
    return as_input(document, CAMPAIGN, options.file or options.plan)


def parse_draws(text: str) -> Json:
    """`6` or `4-12` as the field `draws`. Raises Refusal when it is neither."""
    match = _DRAWS.fullmatch(text.strip())
    least, most = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= least <= most <= MOST_DRAWS:
        raise Refusal(
            f'--draws is "{text}"; write a number such as 6, or the fewest and the most such as'
            f" 4-12, from 1 to {MOST_DRAWS}."
        )
    return {"least": least, "most": most} if match and match[2] else least


def parse_sweep(text: str) -> Json:
    """`nodes=15,60` as the field `sweep`. Raises Refusal when it cannot be one."""
    name, _, values = text.partition("=")
    name = name.strip()
    if name not in SWEEPS:
        raise Refusal(
            f'--sweep is "{text}"{nearest(name, SWEEPS)}; write what changes and its'
            f" values, such as nodes=15,60, with {listed(SWEEPS, 'or')} before the equals sign."
        )
    steps = [value.strip() for value in values.split(",") if value.strip()]
    if len(steps) < 2 or len(set(steps)) < len(steps):
        raise Refusal(
            f'--sweep is "{text}"; name at least two different values after the equals sign,'
            " separated by commas."
        )
    if name == "kube_proxy" and not set(steps) <= set(KUBE_PROXY_MODES):
        wrong = next(value for value in steps if value not in KUBE_PROXY_MODES)
        raise Refusal(
            f'--sweep names the mode "{wrong}" of kube-proxy; use {listed(KUBE_PROXY_MODES, "or")}.'
        )
    if name != "nodes":
        return {name: list(steps)}
    if not all(value.isdecimal() and int(value) > 0 for value in steps):
        raise Refusal(f'--sweep is "{text}"; write the numbers of nodes of an arm, such as 15,60.')
    return {name: [int(value) for value in steps]}


def check_requirements(
    requirements: Sequence[Requirement], document: Mapping[str, Json], *, detach: bool = False
) -> None:
    """Raise Refusal, before the start, for requirements that the campaign can never meet."""
    if not requirements:
        return
    if detach:
        raise Refusal(
            "--require needs the campaign's end, which --detach does not wait for; give it to"
            " `rackrate campaign watch`."
        )
    if document.get("dry_run"):
        raise Refusal("--require needs answers and a dry run has none; leave out one of them.")
    if kind := next((kind for kind in ("sweep", "hunt") if kind in document), None):
        raise Refusal(
            f"--require is about answers over draws and a {kind} has none; leave it out, or give it"
            " to `rackrate run`."
        )
    check_about_arms(requirements)
    plan = document.get("plan", {})
    if isinstance(plan, dict) and "continue" not in document and "pool" not in document:
        check_plan(about_verdicts(requirements), plan)


def check_about_arms(requirements: Sequence[Requirement]) -> None:
    """Raise Refusal for a requirement about earlier runs, which no answer is about."""
    for requirement in requirements:
        if requirement.is_about_earlier:
            raise Refusal(
                f'The requirement "{requirement.text}" is about earlier runs and the answers are'
                ' between arms; leave out "than before".'
            )


def _check_together(options: Options) -> None:
    """Raise Refusal for options that exclude each other."""
    if str(options.file) == "-" and str(options.plan) == "-":
        raise Refusal("--file and --plan both read standard input; name a file for one of them.")
    if options.draws is not None and options.sweep is not None:
        raise Refusal("--draws and --sweep exclude each other; leave out one of them.")
    if options.budget is not None and not 0 < options.budget < math.inf:
        raise Refusal(f"--budget is {options.budget:g}; write more than 0 US dollars, such as 5.")
    if options.runs_per_step is not None and not 1 <= options.runs_per_step <= MOST_RUNS_PER_STEP:
        raise Refusal(
            f"--runs-per-step is {options.runs_per_step}; write 1 to {MOST_RUNS_PER_STEP}."
        )
    if options.continues is None:
        if options.hunt is not None and "test" not in options.hunt:
            raise Refusal("A hunt needs a test; name one, such as `rackrate campaign hunt rtt`.")
        return
    taken_over = {
        **(options.hunt or {}),
        "--file": options.file,
        "--plan": options.plan,
        "--sweep": options.sweep,
        "--runs-per-step": options.runs_per_step,
        "--series": options.series,
        "--seed": options.seed,
    }
    wrong = [name for name, value in taken_over.items() if value is not None]
    if wrong:
        raise Refusal(
            f"--continue takes over the input of the campaign; leave out {listed(wrong)}, because"
            f" only {'--draws' if options.hunt is None else '--most'} and --budget may differ."
        )


def _check_document(document: Mapping[str, Json], file: str) -> None:
    """Raise Refusal for fields that exclude each other, or that belong elsewhere."""
    misplaced = [name for name in ("tests", "blocks", "arms") if name in document]
    if misplaced:
        raise Refusal(
            f"{file}: {misplaced[0]} is a field of a plan; give a plan's file with --plan, or put"
            ' its fields into "plan".'
        )
    kinds = [name for name in _KINDS if name in document]
    if len(kinds) > 1:
        raise Refusal(f"{listed(kinds)} exclude each other; leave out all but one.")
    if "runs_per_step" in document and kinds != ["sweep"]:
        raise Refusal(
            "--runs-per-step (runs_per_step) is about the values of a sweep; add --sweep, or use"
            " --draws for the number of draws."
        )
    if "series" in document and kinds in (["sweep"], ["pool"]):
        raise Refusal(
            f"--series (series) collects draws and a {kinds[0]} makes none; leave out one of them."
        )
    plan = document.get("plan", {})
    if not isinstance(plan, dict):
        raise Refusal('plan is not a JSON object; write one such as {"blocks": 6}.')
    for name, remedy in (
        ("dry_run", "ask for the campaign's with --dry-run"),
        ("campaign", "the campaign sets it by itself"),
    ):
        if name in plan:
            raise Refusal(
                f"plan.{name} cannot be in a campaign's plan; leave it out, and {remedy}."
            )
