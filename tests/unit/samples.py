"""Values that several tests use."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from rackrate.settings import Endpoints, Settings, StackArm
from rackrate_contract.arms import Endpoint
from rackrate_contract.selectors import Selector

DATA = Path(__file__).parent / "data"

LABEL = "eks.amazonaws.com/nodegroup"
ARMS = (
    StackArm("treatment", "cluster", False, ("ng-1",), Selector.parse(f"{LABEL}=ng-1")),
    StackArm("baseline", "none", True, ("ng-2",), Selector.parse(f"{LABEL}=ng-2")),
)
#: The endpoints that the plans of the tests and of the documentation may name.
ENDPOINTS = Endpoints(
    ("10.0.3.0/24", "fd00::/8"),
    Endpoint(name="instance", address="10.0.3.7", instance_id="i-0123"),
)
SETTINGS = Settings(
    "results", "results", "house", "rackrate", "example.test/tools:1", ARMS, 2, False
)
#: Settings of a stack that allows host networking.
HOST_SETTINGS = replace(SETTINGS, host_namespace="rackrate-host")
NODES = {"treatment": ["node-a", "node-b"], "baseline": ["node-c", "node-d"]}


def node(name: str, group: str, *, ready: bool = True, **labels: str) -> dict[str, Any]:
    """A node as in the Kubernetes API."""
    return {
        "metadata": {
            "name": name,
            "labels": {
                LABEL: group,
                "node.kubernetes.io/instance-type": "c5.large",
                "topology.kubernetes.io/zone": "us-east-1a",
                "eks.amazonaws.com/nodegroup-image": "ami-0123",
                **labels,
            },
        },
        "spec": {"providerID": f"aws:///us-east-1a/i-{name}"},
        "status": {
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "nodeInfo": {
                "kernelVersion": "6.12.0",
                "osImage": "Amazon Linux 2023",
                "kubeletVersion": "v1.36.3",
                "containerRuntimeVersion": "containerd://2.1.0",
            },
        },
    }
