"""Report the nodes and trials that a run loses while it runs."""

from __future__ import annotations

from botocore.exceptions import BotoCoreError, ClientError

from rackrate_text.failures import grouped, place
from rackrate_text.words import counted, listed

from ..reading.documents import read_estimates
from ..reading.runs import Run
from ..reading.stack import Stack

_CAUSES = 3
"""How many causes are reported at once. The end of the run shows more."""

_NODES = 3
"""How many nodes a line names."""


class Losses:
    """The nodes and the trials that a run has lost, each reported once."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._run_id, self._lost = "", 0
        self._away: frozenset[str] = frozenset()
        self._reported: set[tuple[str, str]] = set()

    def since_last_look(self, run: Run) -> list[str]:
        """What a run has lost since the last call, in lines: nodes, then trials by their causes."""
        if run.id != self._run_id:
            self._run_id, self._lost, self._away = run.id, 0, frozenset()
        return [*self._nodes(run), *self._trials(run)]

    def _nodes(self, run: Run) -> list[str]:
        """A line when nodes are lost, and when they are back."""
        # Until they are ready for the first time, servers are still to start.
        if run.waited_seconds is None or run.phase == "waiting for servers":
            return []
        before, self._away = self._away, frozenset(run.missing_nodes)
        lines = []
        if lost := sorted(self._away - before):
            lines.append(f"Node lost: {listed(lost, most=_NODES)}; no server there is ready")
        if back := sorted(before - self._away):
            lines.append(f"Node back, or another in its place: {listed(back, most=_NODES)}")
        return lines

    def _trials(self, run: Run) -> list[str]:
        """A line for each cause of lost trials, with their number and nodes."""
        before, self._lost = self._lost, run.trials_failed or 0
        # The trials are only read if their number has changed, since there may be thousands.
        if self._lost in (0, before):
            return []
        try:
            failed, titles = self._stack.failed_trials(run.id), self._titles(run.id)
        except (BotoCoreError, ClientError):
            # Who may not read the trials, or is throttled, still follows the run.
            more = self._lost - before
            return [f"Lost {counted(more, 'trial')}"] if more > 0 else []
        new = [trial for trial in failed if (run.id, trial.key) not in self._reported]
        self._reported |= {(run.id, trial.key) for trial in new}
        causes = grouped(
            (trial.reason, place(titles.get(trial.arm, trial.arm), trial.client, trial.server))
            for trial in new
        )
        lines = [f"Lost {cause.of_trials}" for cause in causes[:_CAUSES]]
        if rest := sum(cause.count for cause in causes[_CAUSES:]):
            lines.append(f"Lost {counted(rest, 'trial')} for other reasons")
        return lines

    def _titles(self, run_id: str) -> dict[str, str]:
        """What people read for the names of the run's arms."""
        # Pydantic takes longer to import than the command takes to start.
        from rackrate_contract.arms import arm_titles

        content = self._stack.file(run_id, "plan.json")
        return {} if content is None else arm_titles(read_estimates(content, run_id).arms)
