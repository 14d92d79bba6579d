"""`rackrate nodes`: rank the nodes that a run measured, and choose the best of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rackrate_text.words import counted, listed, nearest

from ..errors import Refusal
from ..following.outcome import RunFiles, files_of, record_of, require_results
from ..options import RunArgument, VerboseOption
from ..printing.nodes import affinity, print_best, print_ranking
from ..printing.output import JsonOption, Output, StackOption
from ..printing.verdict import print_scale
from ..reading.kinds import RUN
from ..reading.run_ids import find_measured_run
from ..reading.stack import Stack
from ..sentences import one_sentence

if TYPE_CHECKING:
    from rackrate_contract.ranking import Ranking
    from rackrate_contract.results import Results


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
    arm: Annotated[
        str | None, typer.Option("--arm", metavar="NAME", help="Only the nodes of this arm.")
    ] = None,
    test: Annotated[
        str | None, typer.Option("--test", metavar="NAME", help="Rank them by this test alone.")
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
    rankings = _chosen(results, arm, test)
    if best is not None:
        _check_number(rankings, best)
    output = Output(as_json, is_verbose=verbose)
    titles = arm_titles(results.arms)
    chosen = {}
    for ranking in rankings:
        title = titles[ranking.arm]
        print_ranking(output.console, ranking, title, verbose=verbose)
        if best is not None:
            chosen[ranking.arm] = print_best(output.console, ranking, title, best)
    print_scale(output.console, results.run.lab_scale)
    output.document(
        {
            **record_of(RUN, record.id, record),
            "stack": stack.name,
            "rankings": [ranking.to_json() for ranking in rankings],
            "best": {
                name: {"nodes": of_arm, "affinity": affinity(of_arm)}
                for name, of_arm in chosen.items()
            },
        }
    )


def _chosen(results: Results, arm: str | None, test: str | None) -> list[Ranking]:
    """The rankings of the arm and the test that a person names. Raises Refusal without any."""
    name, rankings = results.run.id, list(results.rankings)
    if not any(ranking.nodes or ranking.unranked for ranking in rankings):
        raise Refusal(
            f"Run {name} ranks no nodes, because its pairs cover no arm of three nodes or more; run"
            ' a plan with "pairing": "ring", "mesh" or {"random": k} on such arms.'
        )
    if arm is not None:
        arms = [ranking.arm for ranking in rankings]
        if arm not in arms:
            raise Refusal(f"Run {name} ranks {listed(arms)}, not {arm}{nearest(arm, arms)}.")
        rankings = [ranking for ranking in rankings if ranking.arm == arm]
    if test is not None:
        figures = (fig for each in rankings for node in each.nodes for fig in node.figures)
        tests = list(dict.fromkeys(figure.test for figure in figures))
        if test not in tests:
            by = listed(tests) or "no test"
            raise Refusal(f"Run {name} ranks nodes by {by}, not {test}{nearest(test, tests)}.")
        rankings = [ranking.by_test(test) for ranking in rankings]
    return rankings


def _check_number(rankings: list[Ranking], best: int) -> None:
    """Raise Refusal if an arm has fewer ranked nodes than are asked for."""
    for ranking in rankings:
        if len(ranking.nodes) < best:
            raise Refusal(
                f"--best {best} is more than the {counted(len(ranking.nodes), 'ranked node')} of"
                f" {ranking.arm}; name a smaller number, or another arm with --arm."
            )
