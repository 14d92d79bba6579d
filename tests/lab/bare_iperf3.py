"""iperf3 in the bare namespaces of nodes: what the network lets through, without pods."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from lab import daemon
from lab.setup.debian import library_path
from tests.lab.running import Lab
from tests.lab.waiting import eventually

PORT = 5301  # beside the pods' servers, which listen in namespaces of their own


def address(node: str) -> str:
    return node.split(".")[0].removeprefix("ip-").replace("-", ".")


def iperf3(lab: Lab, client: str, server: str, streams: int) -> float:
    """Bits per second at the receiver of bare iperf3 from one node to another."""
    programs = Path(lab.status["programs"])
    variables = os.environ | {"LD_LIBRARY_PATH": library_path(programs)}
    program = str(programs / "usr/bin/iperf3")
    arguments = ("--one-off", "--port", str(PORT))
    with subprocess.Popen(
        [*daemon.enter(server), program, "--server", *arguments],
        env=variables,
        stdout=subprocess.DEVNULL,
    ) as listening:
        sockets = [*daemon.enter(server), "ss", "-Hltn", f"sport = :{PORT}"]
        try:
            eventually(
                lambda: subprocess.run(sockets, capture_output=True, check=True).stdout, seconds=10
            )
            done = subprocess.run(
                [
                    *(*daemon.enter(client), program, "--client", address(server)),
                    *("--port", str(PORT), "--time", "2", "--omit", "1", "--json"),
                    *("--parallel", str(streams)),
                ],
                env=variables,
                capture_output=True,
                text=True,
                timeout=30,
                check=True,
            )
        finally:
            listening.terminate()
    return float(json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"])
