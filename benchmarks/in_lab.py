"""The lab of a benchmark, the `rackrate` command in it, and bare iperf3 between its nodes."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lab import daemon, stack
from lab.errors import LabError
from lab.nodes.process import wait_until
from lab.setup import tools
from lab.up import bring_up

Json = dict[str, Any]
#: Makes a client of a service of AWS.
type Client = Callable[[str], Any]
#: Of bare iperf3, beside the pods' servers, which listen in namespaces of their own.
PORT = 5301
#: Short tests suffice: one second has about 2000 of the lab's round trips. TCP needs a few dozen of
#: them to fill a link whose queue holds 16 ms.
SHORT_TESTS = (
    {"name": "tcp-1", "seconds": 1},
    {"name": "tcp-8", "seconds": 1},
    {"name": "rtt", "count": 10, "interval_seconds": 0.1},
)


def say(step: str) -> None:
    """Print a step with its time."""
    print(f"  {time.strftime('%H:%M:%S')} {step}", flush=True)


@contextlib.contextmanager
def lab(**options: Any) -> Iterator[Json]:
    """A lab with these options of `bring_up`; its status. Raises LabError."""
    status = bring_up(say, tied=True, **options)
    try:
        yield status
    finally:
        daemon.stop()


def rackrate(status: Mapping[str, Any], *arguments: str, quiet: bool = False) -> None:
    """Run the command. Its output goes to this process's, unless it is to be quiet.

    Raises:
        LabError: it failed.
    """
    done = subprocess.run(
        [str(Path(sys.executable).parent / "rackrate"), *arguments],
        env=stack.child_environment(status),
        capture_output=quiet,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        why = done.stderr.strip()[-800:] if quiet else "see above"
        raise LabError(f"rackrate {arguments[0]} ended with exit code {done.returncode}: {why}")


def document(path: Path) -> Json:
    """An object that the command wrote as JSON."""
    content: Json = json.loads(path.read_text("utf-8"))
    return content


def pages(client: Any, operation: str, key: str, **request: Any) -> list[Json]:
    """All entries of a paginated list."""
    listed = client.get_paginator(operation).paginate(**request)
    return [entry for page in listed for entry in page.get(key, [])]


def histories_of(client: Client, arn: str) -> Iterator[list[Json]]:
    """The history of an execution, then those of the items of its Map Runs."""
    states = client("stepfunctions")
    arns = [arn]
    for map_run in states.list_map_runs(executionArn=arn)["mapRuns"]:
        name = {"mapRunArn": map_run["mapRunArn"]}
        items = pages(states, "list_executions", "executions", **name)
        arns += [item["executionArn"] for item in items]
    for each in arns:
        yield pages(states, "get_execution_history", "events", executionArn=each)


def lines(path: str) -> list[Json]:
    """The lines of a file of the lab's directory, each of which is JSON."""
    content = (daemon.state_directory() / path).read_text("utf-8")
    return [json.loads(line) for line in content.splitlines()]


def address(node: str) -> str:
    """A node's address, which its name has."""
    return node.split(".")[0].removeprefix("ip-").replace("-", ".")


def iperf3(client: str, server: str, seconds: int, *, streams: int = 1, omit: int = 0) -> float:
    """Bits per second at the receiver of iperf3 between bare nodes: what the network lets through.

    Args:
        client: the node that sends.
        server: the node that receives.
        seconds: for how long, after `omit` seconds that do not count.
        streams: number of parallel streams.
        omit: seconds at the start that do not count.
    """
    program, port = tools.command("iperf3"), ("--port", str(PORT))
    sockets = [*daemon.enter(server), "ss", "-Hltn", f"sport = :{PORT}"]
    serving = [*daemon.enter(server), *program, "--server", "--one-off", *port]
    with subprocess.Popen(serving, stdout=subprocess.DEVNULL) as listening:
        try:
            wait_until(
                lambda: bool(subprocess.run(sockets, capture_output=True, check=True).stdout),
                seconds=10,
                describe=lambda: f"iperf3 does not listen on {server}",
            )
            done = subprocess.run(
                [
                    *(*daemon.enter(client), *program, "--client", address(server), *port),
                    *("--time", str(seconds), "--omit", str(omit), "--parallel", str(streams)),
                    "--json",
                ],
                capture_output=True,
                text=True,
                timeout=seconds + omit + 30,
                check=True,
            )
        finally:
            listening.terminate()
    return float(json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"])
