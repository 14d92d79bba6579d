"""`rackrate up`: deploy the stack from a release, by CloudFormation alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import boto3
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

ReleaseOption = Annotated[
    str | None,
    typer.Option(
        "--release",
        metavar="DIR|URL",
        envvar="RACKRATE_RELEASE",
        help="Directory of a release, or the URL of its template.",
    ),
]
HashOption = Annotated[
    str | None,
    typer.Option(
        "--sha256",
        metavar="HASH",
        envvar="RACKRATE_RELEASE_SHA256",
        help="SHA-256 of the release's file SHA256SUMS; a release's wheel knows its own.",
    ),
]

_READY = ("CREATE_COMPLETE", "UPDATE_COMPLETE")
#: The statuses of a stack that CloudFormation can update.
_UPDATABLE = (*_READY, "UPDATE_FAILED", "UPDATE_ROLLBACK_COMPLETE")
#: The options that select nodes of an existing cluster, by their parameters.
_SELECTORS = {"TreatmentSelector": "--treatment", "BaselineSelector": "--baseline"}


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
    release: ReleaseOption = None,
    sha256: HashOption = None,
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
    requested = _requested(
        parameters or (),
        {
            "InstanceType": type_,
            "NodeCount": None if nodes is None else str(nodes),
            "ExistingClusterName": existing_cluster,
            "TreatmentSelector": treatment,
            "BaselineSelector": baseline,
        },
    )
    session = session_of_environment()
    deployment = Deployment(stack, session)
    _check(deployment, requested)
    if not deployment.is_working:
        url = _upload(deployment, session, requested, release, sha256, output)
        if deployment.description is None:
            deployment.create(url, requested)
        else:
            _update(deployment, url, requested, yes, output)
    _follow(deployment, output)
    _print(deployment, session, output)


def _requested(texts: Iterable[str], options: Mapping[str, str | None]) -> dict[str, str]:
    """The parameters of `--set` and of the options of their own. Raises Refusal."""
    requested = assigned(texts)
    for name, value in options.items():
        if value is not None:
            if name in requested:
                raise Refusal(f"{name} is given twice; leave it out of --set.")
            requested[name] = value
    return requested


def _check(deployment: Deployment, requested: Mapping[str, str]) -> None:
    """Raise Refusal for a stack that is not rackrate's, or cannot get these parameters now."""
    deployment.check_owner()
    is_deleted = deployment.status.startswith("DELETE")
    if is_deleted or (deployment.description is not None and not deployment.is_working):
        deployment.check(*_UPDATABLE)
    if not _cluster(deployment, requested):
        for name, option in _SELECTORS.items():
            if name in requested:
                raise Refusal(
                    f"{option} selects nodes of a cluster that exists; add --existing-cluster."
                )
    if deployment.is_working and requested:
        raise Refusal(
            f'CloudFormation is at work on the stack "{deployment.name}" ({deployment.status});'
            f" follow it with `{command('up', deployment.name)}`, and change parameters afterwards."
        )


def _cluster(deployment: Deployment, requested: Mapping[str, str]) -> str | None:
    """The existing cluster of the stack after the update; None or empty if it has its own."""
    return {**deployment.parameters, **requested}.get("ExistingClusterName")


def _upload(
    deployment: Deployment,
    session: boto3.Session,
    requested: Mapping[str, str],
    release: str | None,
    sha256: str | None,
    output: Output,
) -> str:
    """Copy the release into the stack's bucket. Returns the root template's URL."""
    if release is None:
        raise Refusal(
            "No release is named; add --release with the directory that `make release` wrote,"
            " or with the URL of its template."
        )
    with TemporaryDirectory() as scratch:
        directory = Path(release)
        if "://" in release:
            directory = download(release, sha256, session, Path(scratch))
        return Artifacts(deployment.name, session).upload(
            directory,
            sha256,
            output.note,
            for_existing_cluster=bool(_cluster(deployment, requested)),
        )


def _update(
    deployment: Deployment, url: str, requested: Mapping[str, str], yes: bool, output: Output
) -> None:
    """Begin to update the stack. Ask first if that deletes or replaces something."""
    output.note("CloudFormation compares the release with the stack.")
    with deployment.proposed(url, requested) as change_set:
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


def _follow(deployment: Deployment, output: Output) -> None:
    """Wait until CloudFormation has ended its work. Raises Refusal if it ended badly."""
    try:
        deployment.follow(display_for(output.errors))
    except KeyboardInterrupt:
        output.complain(
            f"CloudFormation goes on alone; `{command('up', deployment.name)}` follows it again,"
            f" and `{command('down', deployment.name)}` removes the stack."
        )
        raise typer.Exit(EXIT_INTERRUPTED) from None
    deployment.check(*_READY)


def _print(deployment: Deployment, session: boto3.Session, output: Output) -> None:
    """Print the stack's warnings and status, and what to do with it next."""
    stack, outputs = deployment.name, deployment.outputs
    if (warnings := outputs.get("PreflightWarnings", "none")) != "none":
        output.say(warnings)
    output.line(f'The stack "{stack}" is {deployment.status} in {session.region_name}.')
    output.line(f"Measure:   {command('run', stack)}")
    output.line(f"Remove it: {command('down', stack)}")
    output.document({"stack": stack, "status": deployment.status, "outputs": outputs})
