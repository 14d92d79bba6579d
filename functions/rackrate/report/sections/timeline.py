"""The timeline of a run that lost trials: what each arm measured in each block."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Mapping
from html import escape

from rackrate.report.frame import key
from rackrate.report.markup import paragraph, scrolling, section, text
from rackrate.report.material import Material
from rackrate.report.sections.trials import causes_table
from rackrate_text.units import UNKNOWN, duration
from rackrate_text.words import counted

#: The most blocks that a timeline shows. A wider table is not read at a glance.
_MOST_BLOCKS = 24


def timeline_section(page: Material) -> str:
    """Why trials were lost, and when: a row for each arm; empty if none was lost."""
    counts = page.results.trials
    if not counts.failed or page.comparison:
        return ""
    lost = f"{counts.failed} of {counted(counts.planned, 'trial')} were lost."
    causes = causes_table((cause.loss for cause in counts.causes), "Why trials were lost")
    return section("lost", "What was lost", paragraph(lost) + causes + _table(page))


def _table(page: Material) -> str:
    measured: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    ran: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    began: dict[int, str] = {}
    for trial in page.trials:
        if trial.warm_up:
            continue
        ran[trial.arm][trial.block] += 1
        measured[trial.arm][trial.block] += trial.is_measured
        if trial.started_at is not None:
            began[trial.block] = min(trial.started_at, began.get(trial.block, trial.started_at))
    blocks = sorted({block for by_block in ran.values() for block in by_block})
    if not blocks:
        return ""
    # A trial that never ran is not stored, so the fullest block tells how many an arm has.
    full = {arm: max(by_block.values()) for arm, by_block in ran.items()}
    shown = _shown(blocks, measured, full)
    heads = "".join(f'<th scope="col" class="number">{block}</th>' for block in shown)
    times = "".join(
        f'<td class="number quiet">{text(_after(page, began.get(block)))}</td>' for block in shown
    )
    lines = "".join(
        f'<tr><th scope="row">{key(page.arm_number(arm))} {text(arm)}</th>'
        + "".join(_cell(measured[arm][block], full.get(arm, 0)) for block in shown)
        + "</tr>"
        for arm in page.arms
    )
    caption = "Trials measured in each block, by arm"
    inner = (
        f"<table class=timeline><caption>{escape(caption)}</caption><thead><tr>"
        f'<th scope="col">block</th>{heads}</tr></thead><tbody>'
        f'<tr><th scope="row">began after</th>{times}</tr>{lines}</tbody></table>'
    )
    left = len(blocks) - len(shown)
    more = f" Not shown: {counted(left, 'block')}." if left else ""
    note = paragraph(f"A block measures every arm at the same time.{more}", "quiet")
    return scrolling(inner, caption) + note


def _shown(
    blocks: list[int], measured: Mapping[str, Mapping[int, int]], full: Mapping[str, int]
) -> list[int]:
    """The blocks to show: all, or of many the first with a loss."""
    if len(blocks) <= _MOST_BLOCKS:
        return blocks
    lossy = [
        block
        for block in blocks
        if any(measured[arm].get(block, 0) < most for arm, most in full.items())
    ]
    return lossy[:_MOST_BLOCKS]


def _cell(measured: int, full: int) -> str:
    kind = "whole" if measured == full else "part" if measured else "none"
    return f'<td class="number {kind}">{measured}/{full}</td>'


def _after(page: Material, began: str | None) -> str:
    """When a block began, from the start of the run."""
    if began is None:
        return UNKNOWN
    parse = datetime.datetime.fromisoformat
    return duration((parse(began) - parse(page.results.run.started_at)).total_seconds())
