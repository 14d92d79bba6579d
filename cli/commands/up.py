"""`rackrate up`: deploy the stack from a release, by CloudFormation alone."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from rackrate_text.words import counted

from ..deploying.change_sets import UNCERTAIN, listed
from ..deploying.deployment import DEFAULT_STACK, Deployment, command
from ..deploying.release import Artifacts, download
from ..errors import EXIT_INTERRUPTED, Refusal
from ..options import SetOption, YesOption, assigned, confirm
from ..printing.output import JsonOption, Output, StackOption
from ..printing.progress import display_for
from ..reading.stack import session_of_environment
from ..sentences import one_sentence

_READY = ("CREATE_COMPLETE", "UPDATE_COMPLETE")
#: The statuses of a stack that CloudFormation can update.
_UPDATABLE = (*_READY, "UPDATE_FAILED", "UPDATE_ROLLBACK_COMPLETE")


@one_sentence
def up(
    type_: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="EC2 instance type of every node.")
    ] = None,
    nodes: Annotated[
        int | None, typer.Option("--nodes", metavar="N", min=1, help="Nodes in each arm.")
    ] = None,
    existing_cluster: Annotated[
        str | None,
        typer.Option("--existing-cluster", metavar="NAME", help="Use this EKS cluster."),
    ] = None,
    treatment: Annotated[
        str | None,
        typer.Option("--treatment", metavar="SELECTOR", help="Its nodes with the placement group."),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", metavar="SELECTOR", help="Its nodes without one."),
    ] = None,
    parameters: SetOption = None,
    release: Annotated[
        str | None,
        typer.Option(
            "--release",
            metavar="DIR|URL",
            envvar="RACKRATE_RELEASE",
            help="Directory of a release, or the URL of its template.",
        ),
    ] = None,
    sha256: Annotated[
        str | None,
        typer.Option(
            "--sha256",
            metavar="HASH",
            envvar="RACKRATE_RELEASE_SHA256",
            help="SHA-256 of the release's file SHA256SUMS; a release's wheel knows its own.",
        ),
    ] = None,
    yes: YesOption = False,
    stack: StackOption = DEFAULT_STACK,
    as_json: JsonOption = False,
) -> None:
    """Deploy the stack from a release, or change its parameters. Needs neither a clone nor SAM.

    It costs money until `rackrate down` removes it. Before an update deletes or replaces
    something, it asks.

    Example: rackrate up --release rackrate-0.1.0 --type m7i.4xlarge
    """
    output = Output(as_json)
    given = assigned(parameters or ())
    for name, value in (
        ("InstanceType", type_),
        ("NodeCount", None if nodes is None else str(nodes)),
        ("ExistingClusterName", existing_cluster),
        ("TreatmentSelector", treatment),
        ("BaselineSelector", baseline),
    ):
        if value is not None:
            if name in given:
                raise Refusal(f"{name} is given twice; leave it out of --set.")
            given[name] = value
    session = session_of_environment()
    deployment = Deployment(stack, session)
    deployment.check_owner()
    is_deleted = deployment.status.startswith("DELETE")
    if is_deleted or (deployment.description is not None and not deployment.is_working):
        deployment.check(*_UPDATABLE)
    known = {**deployment.parameters, **given}
    for name in ("TreatmentSelector", "BaselineSelector"):
        if name in given and not known.get("ExistingClusterName"):
            option = "--treatment" if name.startswith("T") else "--baseline"
            raise Refusal(
                f"{option} selects nodes of a cluster that exists; add --existing-cluster."
            )
    if deployment.is_working:
        if given:
            raise Refusal(
                f'CloudFormation is at work on the stack "{stack}" ({deployment.status}); follow it'
                f" with `{command('up', stack)}`, and change parameters afterwards."
            )
    else:
        if release is None:
            raise Refusal(
                "No release is named; add --release with the directory that `make release` wrote,"
                " or with the URL of its template."
            )
        with TemporaryDirectory() as scratch:
            directory = Path(release)
            if "://" in release:
                directory = download(release, sha256, session, Path(scratch))
            url = Artifacts(stack, session).upload(
                directory,
                sha256,
                output.note,
                for_existing_cluster=bool(known.get("ExistingClusterName")),
            )
        if deployment.description is None:
            deployment.create(url, given)
        else:
            _update(deployment, url, given, yes, output)
    try:
        deployment.follow(display_for(output.errors))
    except KeyboardInterrupt:
        output.complain(
            f"CloudFormation goes on alone; `{command('up', stack)}` follows it again, and"
            f" `{command('down', stack)}` removes the stack."
        )
        raise typer.Exit(EXIT_INTERRUPTED) from None
    deployment.check(*_READY)
    outputs = deployment.outputs
    if (warnings := outputs.get("PreflightWarnings", "none")) != "none":
        output.say(warnings)
    output.line(f'The stack "{stack}" is {deployment.status} in {session.region_name}.')
    output.line(f"Measure:   {command('run', stack)}")
    output.line(f"Remove it: {command('down', stack)}")
    output.document({"stack": stack, "status": deployment.status, "outputs": outputs})


def _update(
    deployment: Deployment, url: str, given: dict[str, str], yes: bool, output: Output
) -> None:
    """Begin to update the stack. Ask first if that deletes or replaces something."""
    output.note("CloudFormation compares the release with the stack.")
    with deployment.proposed(url, given) as change_set:
        if change_set is None:
            output.note("Nothing changes.")
            return
        losses = list(change_set.losses())
        for line in listed(losses):
            output.note(line)
        certain = sum(loss.effect != UNCERTAIN for loss in losses)
        confirm(
            yes or not losses,
            f'update the stack "{deployment.name}"',
            f"That deletes or replaces {counted(certain, 'part')}, and perhaps"
            f" {len(losses) - certain} more.",
        )
        change_set.execute()
