"""The main process inside a lab: the emulated AWS, with the real Kubernetes behind its EKS."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
import threading
from pathlib import Path

from lab.aws.server import Region, serve
from lab.cache import FUNCTIONS, cache_directory
from lab.daemon import INSIDE, Settings, state_directory
from lab.fabric.luck import Luck
from lab.faults import programs
from lab.faults.links import Links
from lab.faults.programs import Target
from lab.nodes.cluster import Machine
from lab.nodes.containerd import Images
from lab.nodes.host import Host
from lab.nodes.programs import Programs
from lab.setup.image import tools_reference

LOG = logging.getLogger("lab.region")
CHUNK_BYTES = 65536


def write_status(region: Region, settings: Settings) -> None:
    """Write the status file: the region answers, and what the outside needs to reach it."""
    state = state_directory()
    status = {
        "endpoint_url": region.endpoint_url,
        "access_key_id": region.access_key_id,
        "secret_access_key": region.secret_access_key,
        "region": "us-east-1",
        "kubeconfig": str(state / "kubeconfig"),
        "network_scale": settings.network_scale,
        "seed": settings.seed,
        "stretch": settings.stretch,
        "tools_image": tools_reference(Path(settings.images)),
        "kubernetes": settings.kubernetes,
    }
    temporary = state / "status.json.new"
    temporary.touch(mode=0o600)
    temporary.write_text(json.dumps(status, indent=2), encoding="utf-8")
    temporary.rename(state / "status.json")


def forward(listener: socket.socket, port: int) -> None:
    """Forward connections from the host's loopback to a port of the lab's loopback."""
    while True:
        try:
            outside, _ = listener.accept()
        except OSError:
            return
        try:
            inside = socket.create_connection(("127.0.0.1", port), timeout=5)
        except OSError:
            outside.close()  # no cluster yet: the client should see a closed connection
            continue
        inside.settimeout(None)
        for source, target in ((outside, inside), (inside, outside)):
            threading.Thread(target=_carry, args=(source, target), daemon=True).start()


def _carry(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(CHUNK_BYTES):
            target.sendall(data)
    except OSError:
        pass
    finally:
        # Half-close: the other direction may still carry data.
        for end, how in ((target, socket.SHUT_WR), (source, socket.SHUT_RD)):
            try:
                end.shutdown(how)
            except OSError:
                end.close()


def main() -> None:
    """Run the region. Arguments: settings as JSON, the inherited listeners of the host."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    for noisy in ("botocore", "boto3", "werkzeug", "urllib3"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    settings = Settings(**json.loads(sys.argv[1]))
    outside_aws, outside_kubernetes = (socket.socket(fileno=int(word)) for word in sys.argv[2:4])
    inside_aws = socket.create_server(("127.0.0.1", settings.aws_port), backlog=128)
    programs_of_nodes = Programs(
        kubernetes=Path(settings.kubernetes), debian=Path(settings.programs)
    )
    machine = Machine(
        programs=programs_of_nodes,
        images=Images(programs_of_nodes, Path(settings.images), INSIDE / "images"),
        state_directory=INSIDE,
        endpoint_port=settings.kubernetes_port,
        network_scale=settings.network_scale,
        luck=Luck(settings.seed, settings.stretch),
        kwok=None if settings.kwok is None else Path(settings.kwok),
    )
    host = Host(machine)
    target = Target(host)
    region = serve(
        listeners=[inside_aws, outside_aws],
        endpoint_url=f"http://127.0.0.1:{settings.aws_port}",
        state_directory=state_directory() / "aws",
        infrastructure=host,
        injectors={**programs.injectors(target), **Links(target).injectors},
        unpacked=cache_directory() / FUNCTIONS,
    )
    threading.Thread(
        target=forward, args=(outside_kubernetes, settings.kubernetes_port), daemon=True
    ).start()
    write_status(region, settings)
    LOG.info("the region answers at %s, process %d", region.endpoint_url, os.getpid())
    # Serve until process 1 of the namespace ends: the kernel then kills every process in it.
    signal.sigwait([signal.SIGTERM])


if __name__ == "__main__":
    main()
