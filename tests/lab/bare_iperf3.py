"""iperf3 in the bare namespaces of nodes: what the network lets through, without pods."""

from __future__ import annotations

import json
import subprocess

from lab import daemon
from lab.setup import tools
from tests.lab.waiting import eventually

PORT = 5301  # beside the pods' servers, which listen in namespaces of their own


def address(node: str) -> str:
    return node.split(".")[0].removeprefix("ip-").replace("-", ".")


def iperf3(client: str, server: str, streams: int) -> float:
    """Bits per second at the receiver of bare iperf3 from one node to another."""
    program = tools.command("iperf3")
    arguments = ("--one-off", "--port", str(PORT))
    with subprocess.Popen(
        [*daemon.enter(server), *program, "--server", *arguments],
        stdout=subprocess.DEVNULL,
    ) as listening:
        sockets = [*daemon.enter(server), "ss", "-Hltn", f"sport = :{PORT}"]
        try:
            eventually(
                lambda: subprocess.run(sockets, capture_output=True, check=True).stdout, seconds=10
            )
            done = subprocess.run(
                [
                    *(*daemon.enter(client), *program, "--client", address(server)),
                    *("--port", str(PORT), "--time", "2", "--omit", "1", "--json"),
                    *("--parallel", str(streams)),
                ],
                capture_output=True,
                text=True,
                timeout=30,
                check=True,
            )
        finally:
            listening.terminate()
    return float(json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"])
