"""`python -m lab`: bring the lab up and down, and run the benchmark in it.

Exit codes: 0 success, 1 the benchmark failed, 2 the machine or the input is not right, 130
interrupted.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Annotated, Any

import typer
from rackrate_cli.errors import Refusal
from rackrate_cli.options import SetOption, assigned
from rackrate_cli.reading.plan import read_plan
from rackrate_cli.sentences import Command, Group
from rich.console import Console
from rich.table import Table

from lab import daemon, faults, stack
from lab import replay as replays
from lab.aws.authorization.audit import RECORD_FILE, table_of
from lab.aws.ec2 import capacity
from lab.errors import LabError
from lab.fabric import truth as truths
from lab.fabric.caps import change, links
from lab.fabric.luck import LARGEST_STRETCH, Luck
from lab.fabric.round_trips import machine_seconds
from lab.fabric.truth import Setting
from lab.progress import progress
from lab.setup import large
from lab.up import bring_up, network_scale

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    add_completion=False,
    help="The lab: AWS and EKS on one Linux machine.",
)
console = Console(highlight=False)
#: How many places of the nodes `truth` draws.
DRAWS = 20_000

Seed = Annotated[
    int | None,
    typer.Option(min=0, help="decides the nodes' places; a fresh one is drawn and printed"),
]
Even = Annotated[
    bool, typer.Option("--even", help="all nodes have the same place: no seed, no luck")
]


@app.command(cls=Command)
def up(
    with_stack: Annotated[
        bool, typer.Option("--stack/--no-stack", help="whether the stack is deployed")
    ] = True,
    plan: Annotated[
        Path | None,
        typer.Option(help="a plan or campaign that will run, whose programs the pods need"),
    ] = None,
    parameters: SetOption = None,
    seed: Seed = None,
    even: Even = False,
    stretch: Annotated[
        float,
        typer.Option(
            min=1, max=LARGEST_STRETCH, help="multiplies how far places lie from their mean"
        ),
    ] = 1.0,
) -> None:
    """Start a lab, with the stack deployed unless you choose otherwise, and keep it."""
    _check_luck(seed, even)
    assignments = assigned(parameters or ())
    if assignments and not with_stack:
        raise LabError("--set is for the stack: leave --no-stack out.")
    asks = plan is not None and _asks_for_large(plan)
    with progress(console) as say:
        status = bring_up(
            say,
            tied=False,
            deploy=with_stack,
            seed=seed,
            even=even,
            stretch=stretch,
            with_large=asks,
            parameters=assignments,
        )
    _print_environment(status)


@app.command(cls=Command)
def replay(
    archive: Annotated[Path, typer.Argument(help="what make acceptance wrote: acceptance.zip")],
) -> None:
    """List what AWS answered otherwise than a fresh lab does to the same calls (exit code 1)."""
    with progress(console) as say:
        differences = replays.replay(archive, say)
    for difference in differences:
        console.print(difference, soft_wrap=True, markup=False)
    console.print(f"{len(differences)} differences.")
    raise typer.Exit(1 if differences else 0)


@app.command(cls=Command)
def down() -> None:
    """Remove the lab, or what a killed one left."""
    if os.geteuid() != 0:
        raise LabError("Only root can remove the lab: run it again with sudo.")
    console.print("The lab is gone." if daemon.stop() else "There was no lab.")


@app.command(cls=Command)
def env() -> None:
    """Print the exports that point aws, kubectl and rackrate at the lab, and find them."""
    status = stack.status_of_lab()
    for name, value in stack.environment(status).items():
        print(f"export {name}={shlex.quote(value)}")
    tools = f"{Path(sys.executable).parent}:{status['kubernetes']}"
    print(f'export PATH={shlex.quote(tools)}:"$PATH"')


@app.command(cls=Command)
def calls() -> None:
    """Show each role's allowed actions and calls: what was used, what was not, what was refused."""
    record = daemon.state_directory() / "aws" / RECORD_FILE
    table = Table("role", "action", "state", "resources")
    for row in table_of(stack.status_of_lab(), record):
        table.add_row(*row)
    console.print(table)


@app.command(cls=Command)
def caps(
    selector: Annotated[str, typer.Argument(help="a node label, such as placementGroup=false")],
    factor: Annotated[float, typer.Argument(help="what the caps are multiplied by; 1 restores")],
) -> None:
    """Lower the bandwidth caps of the nodes with a label, for a known difference between arms."""
    stack.status_of_lab()
    for link in change(selector, factor):
        console.print(
            f"{link.node}: {factor:g} of its caps: {link.limits.instance / 1e6:.0f} Mb/s in all,"
            f" {link.limits.flow / 1e6:.0f} Mb/s per flow, {link.limits.cluster_flow / 1e6:.0f}"
            " Mb/s per flow within a cluster group",
            soft_wrap=True,
        )


@app.command(cls=Command)
def karpenter() -> None:
    """Let the cluster have Karpenter's NodePool and EC2NodeClass, whose nodes come on demand."""
    status = stack.status_of_lab()
    name = stack.outputs(status)["ClusterName"]
    route = f"{status['endpoint_url']}/_lab/eks/{name}/karpenter"
    urllib.request.urlopen(urllib.request.Request(route, method="PUT"), timeout=60).close()
    console.print(
        f"{name} has Karpenter: apply a NodePool and its EC2NodeClass (docs/start-lab.md)."
    )


@app.command(cls=Command)
def fault(
    name: Annotated[str | None, typer.Argument(help="without one, all are listed")] = None,
    on: Annotated[str | None, typer.Option(help="the target; the list says which")] = None,
    rate: Annotated[float, typer.Option(help="the share that is struck")] = 1.0,
    seconds: Annotated[float | None, typer.Option(min=0, help="how long; else to Ctrl-C")] = None,
    error: Annotated[str | None, typer.Option(help="an error code, for calls of AWS's")] = None,
    option: Annotated[list[str] | None, typer.Option(help="of the fault, as key=value")] = None,
) -> None:
    """Inject a fault into the lab that is up, and take it back at the end or at Ctrl-C."""
    if name is None:
        table = Table("fault", "what it does", "on", "default")
        for entry in faults.FAULTS.values():
            table.add_row(entry.name, entry.summary, entry.on, entry.default)
        console.print(table)
        return
    options = dict(_pair(text) for text in option or [])
    if error is not None:
        options["error"] = error
    with faults.inject(name, on=on, rate=rate, seconds=seconds, **options) as injected:
        console.print(f"{name} is active; Ctrl-C takes it back.", soft_wrap=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait(seconds)
        hits = injected.hits
    console.print(f"{name} is taken back; it struck {hits} times.")


def _pair(option: str) -> tuple[str, str]:
    key, equals, value = option.partition("=")
    if not equals:
        raise LabError(f"An option is key=value, not {option!r}.")
    return key, value


@app.command(cls=Command)
def truth(
    nodes: Annotated[int, typer.Option(min=2, help="nodes in each arm")] = 2,
) -> None:
    """Tell what is true over draws: caps and round trips, their ratios, and how launches fill.

    What the machine adds to a round trip is measured if a lab is up. Launches are refused and
    delayed as the faults say that are active in it.
    """
    source = "assumed, because no lab is up to measure it in"
    machine, stretch = (Setting.within_seconds, Setting.between_seconds), 1.0
    active: list[dict[str, Any]] = []
    if daemon.keeper_pid() is not None:
        source = "measured between idle nodes; it takes more between the pods of a run"
        status = stack.status_of_lab()
        machine, stretch = machine_seconds(links()), float(str(status["stretch"]))
        active = faults.active_faults(str(status["endpoint_url"]))
    within, between = machine
    setting = Setting(
        scale=network_scale(), nodes=nodes, within_seconds=within, between_seconds=between
    )
    figures_of = truths.truth(Luck(0, stretch), setting, DRAWS)
    console.print(
        f"{truths.METHOD}: {DRAWS} draws of {nodes} nodes in each arm. A round trip takes"
        f" {within * 1e6:.0f} µs within a rack, and between racks {between * 1e6:.0f} µs and"
        f" the spine's delay: {source}.",
        soft_wrap=True,
    )
    for title, rows in (("over draws", "placements"), ("ratio to no group", "ratios")):
        table = Table(title, "figure", "mean", "deviation", "95 % of draws")
        for placement, figures in figures_of[rows].items():
            for figure, spread in figures.items():
                table.add_row(placement, figure, *_spread(figure, spread, rows == "ratios"))
        console.print(table)
    table = Table("launches of a node group", "filled", "mean delay")
    for placement, filled, delay in capacity.truth(active):
        table.add_row(placement, f"{100 * filled:.1f} %", f"{delay:.1f} s")
    console.print(table)


def _spread(figure: str, spread: dict[str, float], ratio: bool) -> list[str]:
    factor, form = (1e6, "{:.0f} µs") if figure == "round_trip" else (1e-6, "{:.0f} Mbit/s")
    if ratio:
        factor, form = 1, "{:.3f}"
    mean, low, high = (form.format(spread[key] * factor) for key in ("mean", "low", "high"))
    return [mean, f"{spread['log_deviation'] * 100:.2f} %", f"{low} to {high}"]


@app.command(cls=Command)
def demo(
    plan: Annotated[Path, typer.Option(help="the plan to run")] = Path("docs/plans/demo.json"),
    seed: Seed = None,
    even: Even = False,
) -> None:
    """Bring a lab up, run the benchmark in it, take it down."""
    _check_luck(seed, even)
    asks = _asks_for_large(plan)
    with progress(console) as say:
        status = bring_up(say, tied=True, seed=seed, even=even, with_large=asks)
    console.print(f"The nodes' places: {_places(status)}.")
    code = 1
    try:
        code = _run(status, plan)
    finally:
        # Ignore a second Ctrl-C, so that the lab goes down here; else the keeper would end it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        daemon.stop()
    console.print("The lab is gone.")
    sys.exit(code)


def _asks_for_large(plan: Path) -> bool:
    """Whether a plan or a campaign has a test of a large workload."""
    return large.asks(json.loads(read_plan(plan)))


def _run(status: dict[str, object], plan: Path) -> int:
    command = [str(Path(sys.executable).parent / "rackrate"), "run", "--plan", str(plan)]
    with subprocess.Popen(command, env=stack.child_environment(status)) as child:
        while True:
            try:
                return child.wait()
            except KeyboardInterrupt:
                # The command got the same Ctrl-C: let it stop its run before the lab goes down.
                continue


def _check_luck(seed: int | None, even: bool) -> None:
    if seed is not None and even:
        raise LabError("In an even lab nothing is drawn: give either --seed or --even.")


def _places(status: dict[str, object]) -> str:
    return "all the same" if status["seed"] is None else f"seed {status['seed']}"


def _print_environment(status: dict[str, object]) -> None:
    console.print(f"The lab is up. Network scaled by {status['network_scale']}.")
    console.print(f"The nodes' places: {_places(status)}.\n")
    console.print(f"  kubeconfig    {status['kubeconfig']}")
    console.print(f"  AWS endpoint  {status['endpoint_url']}\n")
    clone = shlex.quote(str(stack.REPOSITORY))  # a shell may be in any directory
    console.print(
        "Point a shell's aws, kubectl and rackrate at it:\n\n"
        f'  eval "$(make -s -C {clone} lab-env)"\n\n'
        "Then, for example:\n\n"
        "  kubectl get nodes -l placementGroup=true\n"
        f"  rackrate run --plan {clone}/docs/plans/demo.json\n\n"
        f"Remove it with `make -C {clone} lab-down`.",
        markup=False,
        soft_wrap=True,
    )


def main() -> None:
    """Run the command line.

    A known mistake is printed as one sentence. Typer exits with 2 on misuse and 130 on Ctrl-C.
    """
    try:
        app()
    except (LabError, Refusal) as error:
        Console(stderr=True, highlight=False).print(str(error), markup=False, soft_wrap=True)
        sys.exit(2)
    finally:
        # Python keeps in mind that an interruption left an `exec` of text, by which dataclasses are
        # made, and `python -m` would end by the signal. The next `exec` lets Python forget it.
        exec("")


if __name__ == "__main__":
    main()
