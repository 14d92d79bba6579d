"""Whether a run has measured enough blocks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rackrate_contract.results import Stopped
from rackrate_contract.verdicts import Verdict
from rackrate_text.words import counted

#: A run measures on if the blocks that are left settle a verdict with more than this probability.
LEAST_PROSPECT = 0.1


def stop(verdicts: Sequence[Verdict], *, blocks: int, most: int) -> Stopped | None:
    """Why to stop after a look, or None to measure on.

    Args:
        verdicts: the run's verdicts on the blocks so far.
        blocks: the number of blocks so far.
        most: the most blocks that the run measures.
    """
    still_open = [verdict for verdict in verdicts if not verdict.is_decided]
    of_verdicts = f"{len(still_open)} of {counted(len(verdicts), 'verdict')} between the arms"
    not_settled = f"{of_verdicts} {'is' if len(still_open) == 1 else 'are'} not settled"
    why: Literal["settled", "no prospect", "most"]
    if not still_open:
        why, because = "settled", "every verdict between the arms is settled"
    elif blocks >= most:
        why, because = "most", not_settled
    elif not any(_may_be_settled(verdict, most) for verdict in still_open):
        why, because = "no prospect", f"{not_settled}, and more blocks would hardly change that"
    else:
        return None
    return Stopped(
        after_blocks=blocks,
        most_blocks=most,
        why=why,
        settled=len(verdicts) - len(still_open),
        verdicts=len(verdicts),
        text=f"Stopped after {blocks} of at most {most} blocks: {because}.",
    )


def _may_be_settled(verdict: Verdict, most: int) -> bool:
    """Whether the blocks that are left may settle an open verdict."""
    if verdict.prospect is not None:
        return verdict.prospect > LEAST_PROSPECT
    # With too few blocks for any verdict, nothing is known of its prospect.
    return verdict.more_blocks is not None and verdict.blocks + verdict.more_blocks <= most
