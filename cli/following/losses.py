"""Report the trials that a run loses while it runs."""

from __future__ import annotations

from botocore.exceptions import BotoCoreError, ClientError

from rackrate_text.failures import grouped, place
from rackrate_text.words import counted

from ..reading.runs import Run
from ..reading.stack import Stack

_CAUSES = 3
"""How many causes are reported at once. The end of the run shows more."""


class Losses:
    """The trials that a run has lost, each reported once."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._run_id, self._lost = "", 0
        self._reported: set[tuple[str, str]] = set()

    def since_last_look(self, run: Run) -> list[str]:
        """A line for each cause of losses since the last call, with their number and nodes."""
        before = self._lost if run.id == self._run_id else 0
        self._run_id, self._lost = run.id, run.trials_failed or 0
        # The trials are only read if their number has changed, since there may be thousands.
        if self._lost in (0, before):
            return []
        try:
            failed = self._stack.failed_trials(run.id)
        except (BotoCoreError, ClientError):
            # Who may not read the trials, or is throttled, still follows the run.
            more = self._lost - before
            return [f"Lost {counted(more, 'trial')}"] if more > 0 else []
        new = [trial for trial in failed if (run.id, trial.key) not in self._reported]
        self._reported |= {(run.id, trial.key) for trial in new}
        causes = grouped(
            (trial.reason, place(trial.arm, trial.client, trial.server)) for trial in new
        )
        lines = [f"Lost {cause.of_trials}" for cause in causes[:_CAUSES]]
        if rest := sum(cause.count for cause in causes[_CAUSES:]):
            lines.append(f"Lost {counted(rest, 'trial')} for other reasons")
        return lines
