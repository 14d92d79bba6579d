"""`rackrate up`: deploy the stack from a release, by CloudFormation alone."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from ..deployment import DEFAULT_STACK, Deployment, command
from ..errors import EXIT_INTERRUPTED, Refusal
from ..guard import one_sentence
from ..options import SetOption, assigned
from ..output import JsonOption, Output, StackOption
from ..progress import display_for
from ..release import Artifacts, download
from ..stack import session_of_environment

_READY = ("CREATE_COMPLETE", "UPDATE_COMPLETE")
#: The statuses of a stack that never worked, or that was not wholly deleted.
_BROKEN = (
    *("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED", "DELETE_FAILED"),
    "REVIEW_IN_PROGRESS",
)


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
    stack: StackOption = DEFAULT_STACK,
    as_json: JsonOption = False,
) -> None:
    """Deploy the stack from a release, or change its parameters. Needs neither a clone nor SAM.

    It costs money until `rackrate down` removes it.

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
    if deployment.status in _BROKEN:
        raise Refusal(
            f'The stack "{stack}" is {deployment.status} and cannot be changed; remove it with'
            f" `{command('down', stack)}`, and try again."
        )
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
            url = Artifacts(stack, session).upload(directory, sha256, output.note)
        if deployment.description is None:
            deployment.create(url, given)
        elif not deployment.update(url, given):
            output.note("Nothing changes.")
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
