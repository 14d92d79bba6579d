"""`rackrate nodes`: rank the nodes that a run measured, and choose the best of them."""

from __future__ import annotations

from typing import Annotated

import typer

from rackrate_text.words import counted

from ..errors import Refusal
from ..following.outcome import RunFiles, files_of, record_of, require_results
from ..options import RunArgument, VerboseOption
from ..printing.nodes import print_best, print_ranking
from ..printing.output import JsonOption, Output, StackOption
from ..printing.verdict import print_scale
from ..reading.kinds import RUN
from ..reading.run_ids import find_measured_run
from ..reading.stack import Stack
from ..sentences import one_sentence


@one_sentence
def nodes(
    run_id: RunArgument,
    best: Annotated[
        int | None,
        typer.Option(
            "--best",
            metavar="N",
            min=1,
            help="Also print the N best nodes of each arm, and a node affinity for them.",
        ),
    ] = None,
    stack_name: StackOption = "rackrate",
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Rank the nodes that a run measured: which may be the best, and which are worse.

    The run's pairs must cover its arms: "pairing": "ring", "mesh" or {"random": k}.

    Example: rackrate nodes latest --best 4
    """
    from rackrate_contract.arms import arm_titles

    stack = Stack.find(stack_name)
    record = find_measured_run(stack, run_id)
    stored: RunFiles = files_of(stack, record.id, record)
    results = require_results(record, stored)
    rankings = results.rankings
    if not any(ranking.nodes or ranking.unranked for ranking in rankings):
        raise Refusal(
            f"Run {record.id} ranks no nodes, because its pairs cover no arm of three nodes or"
            ' more; run a plan with "pairing": "ring", "mesh" or {"random": k} on such arms.'
        )
    most = max(len(ranking.nodes) for ranking in rankings)
    if best is not None and 0 < most < best:
        raise Refusal(f"--best {best} is more than the {counted(most, 'ranked node')} of an arm.")
    output = Output(as_json, is_verbose=verbose)
    titles = arm_titles(results.arms)
    chosen = {}
    for ranking in rankings:
        print_ranking(output.console, ranking, titles[ranking.arm], verbose=verbose)
        if best is not None and best <= len(ranking.nodes):
            chosen[ranking.arm] = print_best(output.console, ranking, titles[ranking.arm], best)
    print_scale(output.console, results.run.lab_scale)
    output.document(
        {
            **record_of(RUN, record.id, record),
            "stack": stack.name,
            "rankings": [ranking.to_json() for ranking in rankings],
            "best": chosen,
        }
    )
