"""Look: compute the verdicts on the blocks so far, and decide whether to measure more."""

from __future__ import annotations

from rackrate.plan.items import batch_name, planned_trials, up_to_batch
from rackrate.plan.looks import looks
from rackrate.resources import Resources
from rackrate.verdict.analysis import verdicts_between_arms
from rackrate.verdict.enough import stop
from rackrate_contract.document import Document
from rackrate_text.words import counted


class Looked(Document):
    """Whether a run has measured enough, and the batch to measure next if not."""

    enough: bool
    batch: int
    """The next batch; the one that was looked at if the run has measured enough."""
    items_key: str
    """The items of that batch."""


def look(run_id: str, resources: Resources, *, batch: int) -> Looked:
    """Look at a run's verdicts after a batch of blocks, and record what follows from them.

    The answer depends on stored trials only, so the call can be repeated. A run that has given up
    measures no more.

    Args:
        run_id: the run.
        resources: the stack's resources.
        batch: the batch that was just measured, from 1.
    """
    store = resources.store
    if (run := store.runs.find(run_id)) is not None and run.gave_up is not None:
        return Looked(enough=True, batch=batch, items_key=store.runs.key(run_id, batch_name(batch)))
    # The nodes are read a second time only after the last look.
    evidence = store.evidence(run_id, with_counters=False)
    plan = evidence.planned_run.plan
    at = looks(plan.blocks.least, plan.blocks.most)
    blocks = at[batch - 1]
    verdicts = verdicts_between_arms(evidence)
    if (stopped := stop(verdicts, blocks=blocks, most=plan.blocks.most)) is not None:
        store.runs.update(run_id, phase=f"stopped after {blocks} blocks", stopped=stopped.to_json())
        return Looked(enough=True, batch=batch, items_key=store.runs.key(run_id, batch_name(batch)))
    settled = sum(verdict.is_decided for verdict in verdicts)
    following = batch + 1
    planned = planned_trials(up_to_batch(store.runs.items(run_id), following))
    store.runs.update(
        run_id,
        phase=f"looked after {counted(blocks, 'block')}: {settled} of"
        f" {counted(len(verdicts), 'verdict')} are settled, measuring on to {at[batch]}",
        next_look=at[batch],
        trials_planned=len(planned),
    )
    return Looked(
        enough=False, batch=following, items_key=store.runs.key(run_id, batch_name(following))
    )
