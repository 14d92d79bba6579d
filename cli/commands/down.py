"""`rackrate down`: delete the stack, and what `rackrate up` uploaded for it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ..deployment import DEFAULT_STACK, Deployment, command
from ..errors import EXIT_INTERRUPTED, Refusal
from ..guard import one_sentence
from ..output import JsonOption, Output, StackOption
from ..progress import display_for
from ..release import Artifacts
from ..stack import session_of_environment


@one_sentence
def down(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    stack: StackOption = DEFAULT_STACK,
    as_json: JsonOption = False,
) -> None:
    """Delete the stack and everything that it created, and wait until it is gone.

    The results stay if the stack's `RetainResults` is true.

    Example: rackrate down
    """
    output = Output(as_json)
    session = session_of_environment()
    deployment = Deployment(stack, session)
    artifacts = Artifacts(stack, session)
    if deployment.description is None:
        if not artifacts.remove():
            raise Refusal(
                f'There is no stack "{stack}" in {session.region_name}; name another with --stack.'
            )
        output.line(f"The bucket {artifacts.bucket} is gone; there was no stack.")
        output.document({"stack": stack, "kept": []})
        return
    kept = [
        deployment.outputs[name]
        for name in ("TableName", "BucketName")
        if deployment.parameters.get("RetainResults") == "true" and name in deployment.outputs
    ]
    results = f"keeps the results ({', '.join(kept)})" if kept else "deletes its results, too"
    if not yes:
        if not sys.stdin.isatty():
            raise Refusal(f'Nobody can be asked whether to delete the stack "{stack}"; add --yes.')
        question = f'Delete the stack "{stack}" in {session.region_name}? This {results}.'
        if not typer.confirm(question, err=True):
            raise Refusal("Nothing was deleted.")
    deployment.delete()
    try:
        deployment.follow(display_for(output.errors))
    except KeyboardInterrupt:
        output.complain(
            f"CloudFormation goes on deleting; run `{command('down', stack)}` again to follow it."
        )
        raise typer.Exit(EXIT_INTERRUPTED) from None
    deployment.check("DELETE_COMPLETE")
    artifacts.remove()
    output.line(f'The stack "{stack}" is gone.')
    if kept:
        output.line(f"The results are kept: {', '.join(kept)}")
    output.document({"stack": stack, "kept": kept})
