"""The timeline of a run that lost trials: what each arm measured in each block."""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from rackrate.report.material import Material
from rackrate.report.rendering import Part
from rackrate.report.sections.trials import causes_table
from rackrate.report.tables import Cell, Table, head
from rackrate_text.units import UNKNOWN, duration

#: The most blocks that a timeline shows. A wider table is not read at a glance.
_MOST_BLOCKS = 24


def timeline_section(page: Material) -> Part | None:
    """Why trials were lost, and when: a row for each arm; None if none was lost."""
    counts = page.results.trials
    if not counts.failed or page.comparison:
        return None
    causes = causes_table((cause.loss for cause in counts.causes), "Why trials were lost")
    blocks = sorted({trial.block for trial in page.trials if not trial.warm_up})
    timeline, left = _timeline(page, blocks)
    return Part("lost", "What was lost", counts=counts, causes=causes, timeline=timeline, left=left)


def _timeline(page: Material, blocks: Sequence[int]) -> tuple[Table, int]:
    """What each arm measured in each block, and the number of blocks that are not shown."""
    measured: dict[str, Counter[int]] = defaultdict(Counter)
    ran: dict[str, Counter[int]] = defaultdict(Counter)
    began: dict[int, str] = {}
    for trial in page.trials:
        if trial.warm_up:
            continue
        ran[trial.arm][trial.block] += 1
        measured[trial.arm][trial.block] += trial.is_measured
        if trial.started_at is not None:
            began[trial.block] = min(trial.started_at, began.get(trial.block, trial.started_at))
    # A trial that never ran is not stored, so the fullest block shows how many an arm has.
    full = {arm: max(by_block.values()) for arm, by_block in ran.items()}
    shown = _shown(blocks, measured, full)
    times = {str(n): Cell(_after(page, began.get(n)), "number quiet") for n in shown}
    arms = [
        {
            "block": Cell(page.arm_title(arm), "head", arm=page.arm_number(arm)),
            **{str(n): _share(measured[arm][n], full.get(arm, 0)) for n in shown},
        }
        for arm in page.arms
    ]
    rows = [{"block": head("began after"), **times}, *arms] if blocks else []
    table = Table("Trials measured in each block, by arm", rows, style="timeline")
    return table, len(blocks) - len(shown)


def _share(measured: int, full: int) -> Cell:
    kind = "whole" if measured == full else "part" if measured else "none"
    return Cell(f"{measured}/{full}", f"number {kind}")


def _shown(
    blocks: Sequence[int], measured: Mapping[str, Mapping[int, int]], full: Mapping[str, int]
) -> Sequence[int]:
    """The blocks to show: all, or of many the first with a loss."""
    if len(blocks) <= _MOST_BLOCKS:
        return blocks
    lossy = [
        block
        for block in blocks
        if any(measured[arm].get(block, 0) < most for arm, most in full.items())
    ]
    return lossy[:_MOST_BLOCKS]


def _after(page: Material, began: str | None) -> str:
    """When a block began, from the start of the run."""
    if began is None:
        return UNKNOWN
    parse = datetime.datetime.fromisoformat
    return duration((parse(began) - parse(page.results.run.started_at)).total_seconds())
