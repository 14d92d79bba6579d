"""`rackrate down`: delete the stack, and what `rackrate up` uploaded for it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

import typer
from botocore.exceptions import BotoCoreError, ClientError

from ..deploying.deployment import DEFAULT_STACK, Deployment, command
from ..deploying.leftovers import Leftover, find, remove
from ..deploying.release import Artifacts
from ..errors import EXIT_INTERRUPTED, Refusal, explain
from ..options import YesOption, confirm
from ..printing.output import JsonOption, Output, StackOption
from ..printing.progress import display_for
from ..reading.stack import client_of, session_of_environment
from ..sentences import one_sentence


@one_sentence
def down(
    yes: YesOption = False,
    remove_leftovers: Annotated[
        bool,
        typer.Option(
            "--remove-leftovers", help="Also remove what GuardDuty and the VPC CNI left in its VPC."
        ),
    ] = False,
    stack: StackOption = DEFAULT_STACK,
    as_json: JsonOption = False,
) -> None:
    """Delete the stack and everything that it created, and wait until it is deleted.

    The results stay if the stack's `RetainResults` is true. If others left something in the stack's
    VPC, the command names it.

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
        output.document({"stack": stack, "kept": [], "leftovers": []})
        return
    deployment.check_owner()
    retained = [
        deployment.outputs[name]
        for name in ("TableName", "BucketName")
        if deployment.parameters.get("RetainResults") == "true" and name in deployment.outputs
    ]
    results = (
        f"keeps the results ({', '.join(retained)})" if retained else "deletes its results, too"
    )
    confirm(yes, f'delete the stack "{stack}" in {session.region_name}', f"This {results}.")
    _delete(deployment, output)
    details: dict[str, Any] = {"leftovers": []}
    if deployment.status == "DELETE_FAILED":
        ec2 = client_of(session, "ec2")
        may_remove = partial(_may_remove, stack, output, yes=yes, requested=remove_leftovers)
        details["leftovers"] = _delete_again(deployment, ec2, may_remove, output)
    try:
        deployment.check("DELETE_COMPLETE")
    except Refusal as refusal:
        refusal.details = details
        raise
    artifacts.remove()
    output.line(f'The stack "{stack}" is gone.')
    if retained:
        output.line(f"The results are kept: {', '.join(retained)}")
    output.document({"stack": stack, "kept": retained, **details})


def _delete(deployment: Deployment, output: Output) -> None:
    """Delete the stack, and wait until CloudFormation has ended its work."""
    deployment.delete()
    try:
        deployment.follow(display_for(output.errors))
    except KeyboardInterrupt:
        again = command("down", deployment.name)
        output.complain(f"CloudFormation goes on deleting; run `{again}` again to follow it.")
        raise typer.Exit(EXIT_INTERRUPTED) from None


def _delete_again(
    deployment: Deployment, ec2: Any, may_remove: Callable[[], bool], output: Output
) -> list[dict[str, Any]]:
    """Remove the leftovers that kept the stack from being deleted, if that is allowed.

    Returns the leftovers for `--json`.
    """
    leftovers = _leftovers(deployment, ec2, output)
    removed = [leftover for leftover in leftovers if leftover.is_removable]
    if removed and may_remove():
        remove(ec2, removed, display_for(output.errors))
        _delete(deployment, output)
    else:
        removed = []
    return [{**asdict(leftover), "removed": leftover in removed} for leftover in leftovers]


def _leftovers(deployment: Deployment, ec2: Any, output: Output) -> list[Leftover]:
    """Name what others left in the VPC of a stack whose network could not be deleted."""
    resources = list(deployment.resources())
    ids = {each["ResourceType"]: each.get("PhysicalResourceId", "") for each in resources}
    vpc, cluster = ids.get("AWS::EC2::VPC"), ids.get("AWS::EKS::Cluster", "")
    failed = {e["ResourceType"] for e in resources if e["ResourceStatus"] == "DELETE_FAILED"}
    if not vpc or not any(kind.startswith("AWS::EC2::") for kind in failed):
        return []
    try:
        leftovers = find(ec2, vpc, cluster, {each.get("PhysicalResourceId") for each in resources})
    except (BotoCoreError, ClientError) as error:
        output.note(f"What is left in the VPC {vpc} was not read: {explain(error)}")
        return []
    for each in leftovers:
        output.note(f"Left in the VPC {vpc}: {each}.")
    return leftovers


def _may_remove(stack: str, output: Output, *, yes: bool, requested: bool) -> bool:
    """Whether to remove the leftovers. Asks unless `requested`; `--yes` does not allow it."""
    if requested:
        return True
    if yes or not sys.stdin.isatty():
        again = f"{command('down', stack)} --remove-leftovers"
        output.note(f"`{again}` removes what GuardDuty and the VPC CNI left there.")
        return False
    question = "Remove what GuardDuty and the VPC CNI left there, and delete the stack again?"
    return typer.confirm(question, err=True)
