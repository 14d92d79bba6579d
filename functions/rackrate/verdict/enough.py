"""Whether a run or a campaign has measured enough. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rackrate_contract.campaign import Answer
from rackrate_contract.results import Stopped
from rackrate_contract.verdicts import Verdict
from rackrate_text.words import counted

#: Measure on if the blocks or draws that are left settle a comparison with more than this
#: probability.
LEAST_PROSPECT = 0.1


def stop(verdicts: Sequence[Verdict], *, blocks: int, most: int) -> Stopped | None:
    """Why to stop a run after a look, or None to measure on.

    Args:
        verdicts: the run's verdicts on the blocks so far.
        blocks: the number of blocks so far.
        most: the most blocks that the run measures.
    """
    where = " between the arms"
    reason = reason_to_stop(verdicts, "verdict", where, unit="blocks", measured=blocks, most=most)
    if reason is None:
        return None
    why, because = reason
    return Stopped(
        after_blocks=blocks,
        most_blocks=most,
        why=why,
        settled=sum(verdict.is_decided for verdict in verdicts),
        verdicts=len(verdicts),
        text=f"Stopped after {blocks} of at most {most} blocks: {because}.",
    )


def reason_to_stop(
    comparisons: Sequence[Verdict | Answer],
    noun: str,
    where: str = "",
    *,
    unit: str,
    measured: int,
    most: int,
) -> tuple[Literal["settled", "no prospect", "most"], str] | None:
    """Why to stop after a look, as a word and the end of a sentence, or None to measure on.

    Args:
        comparisons: the verdicts or answers so far.
        noun: what they are called, such as `verdict`.
        where: words after the noun.
        unit: what is measured: `blocks` or `draws`.
        measured: the number of blocks or draws so far.
        most: the most blocks or draws.
    """
    still_open = [each for each in comparisons if not each.is_decided]
    if not comparisons:
        return "settled", "one arm is compared with nothing, so more would settle nothing"
    if not still_open:
        return "settled", f"every {noun}{where} is settled"
    of_all = f"{len(still_open)} of {counted(len(comparisons), noun)}{where}"
    not_settled = f"{of_all} {'is' if len(still_open) == 1 else 'are'} not settled"
    if measured >= most:
        return "most", not_settled
    if any(_may_be_settled(each, most) for each in still_open):
        return None
    return "no prospect", f"{not_settled}, and more {unit} would hardly change that"


def _may_be_settled(comparison: Verdict | Answer, most: int) -> bool:
    """Whether the blocks or draws that are left may settle an open comparison."""
    if comparison.prospect is not None:
        return comparison.prospect > LEAST_PROSPECT
    # With too little for any comparison, its prospect is unknown.
    return comparison.needed is not None and comparison.needed <= most
