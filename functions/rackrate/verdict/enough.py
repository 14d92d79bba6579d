"""Whether a run or a campaign has measured enough. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from rackrate_contract.campaign import Answer
from rackrate_contract.results import Stopped
from rackrate_contract.verdicts import Verdict
from rackrate_text.words import counted

#: Measure on if the blocks or draws that are left settle a comparison with more than this
#: probability.
LEAST_PROSPECT = 0.1


class StopReason(NamedTuple):
    """Why to stop, as a word and as the end of a sentence."""

    why: Literal["settled", "no prospect", "most"]
    because: str


def stop_reason[T: (Verdict, Answer)](
    comparisons: Sequence[T],
    needed: Callable[[T], int | None],
    *,
    noun: str,
    between: str = "",
    unit: str,
    measured: int,
    most: int,
) -> StopReason | None:
    """Why to stop after a look, or None to measure on.

    Args:
        comparisons: the verdicts or answers so far.
        needed: returns how many blocks or draws would settle one, or None if that is unknown.
        noun: what they are called, such as `verdict`.
        between: words after the noun.
        unit: what is measured, in the plural: `blocks` or `draws`.
        measured: the number of blocks or draws so far.
        most: the most blocks or draws.
    """
    still_open = [one for one in comparisons if not one.is_decided]
    if not still_open:
        return StopReason("settled", f"every {noun}{between} is settled")
    of_all = f"{len(still_open)} of {counted(len(comparisons), noun)}{between}"
    not_settled = f"{of_all} {'is' if len(still_open) == 1 else 'are'} not settled"
    if measured >= most:
        return StopReason("most", not_settled)

    def may_be_settled(one: T) -> bool:
        if one.prospect is not None:
            return one.prospect > LEAST_PROSPECT
        # With too little for any comparison, its prospect is unknown.
        total = needed(one)
        return total is not None and total <= most

    if any(map(may_be_settled, still_open)):
        return None
    return StopReason("no prospect", f"{not_settled}, and more {unit} would hardly change that")


def stop(verdicts: Sequence[Verdict], *, blocks: int, most: int) -> Stopped | None:
    """Why to stop a run after a look, or None to measure on.

    Args:
        verdicts: the run's verdicts on the blocks so far.
        blocks: the number of blocks so far.
        most: the most blocks that the run measures.
    """
    reason = stop_reason(
        verdicts,
        lambda one: None if one.more_blocks is None else one.blocks + one.more_blocks,
        noun="verdict",
        between=" between the arms",
        unit="blocks",
        measured=blocks,
        most=most,
    )
    if reason is None:
        return None
    return Stopped(
        after_blocks=blocks,
        most_blocks=most,
        why=reason.why,
        settled=sum(verdict.is_decided for verdict in verdicts),
        verdicts=len(verdicts),
        text=f"Stopped after {blocks} of at most {most} blocks: {reason.because}.",
    )
