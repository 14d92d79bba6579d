"""The VPC CNI on the lab's nodes: its DaemonSet, and how a node connects its pods.

The DaemonSet is real, but its image only waits: the node itself writes the CNI's configuration, as
soon as its pod runs the version. A pod keeps the network with which it was made, as on EKS.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.fabric.shaping import BURST_BYTES
from lab.nodes import applying
from lab.nodes.applying import NAMESPACE, REGISTRY
from lab.nodes.control_plane import ControlPlane

NAME = "aws-node"
_REPOSITORY = f"{REGISTRY}/amazon-k8s-cni"
_LABEL = "k8s-app"
_VERSION = re.compile(r"v(\d+)\.(\d+)\.")

# Invented, so that a comparison of versions has something to find: before this version a pod gets
# only this share of its node's bandwidth. Measurements on EC2 found no difference between versions.
FIRST_WHOLE_VERSION = (1, 15)
OLD_SHARE = 0.9


def image(version: str) -> str:
    """The image of a version."""
    return f"{_REPOSITORY}:{version}"


def share(version: str | None) -> float:
    """The share of its node's bandwidth that a pod gets; all of it without a known version."""
    match = _VERSION.match(version or "")
    if match is None:
        return 1.0
    return OLD_SHARE if (int(match[1]), int(match[2])) < FIRST_WHOLE_VERSION else 1.0


def configuration(
    block: ipaddress.IPv4Network | ipaddress.IPv6Network,
    *,
    pods: int,
    directory: Path,
    mtu_bytes: int,
    version: str | None,
    node_bits_per_second: float,
) -> dict[str, Any]:
    """A node's CNI configuration: pods get routed addresses of its block, as with AWS's CNI.

    The block has addresses for `pods` pods at most, as many as the node's interfaces have. In a
    cluster of IPv6 one prefix is enough for all pods.
    """
    most = block.num_addresses - 4
    last = block[2 + (most if block.version == 6 else min(pods, most))]
    plugins: list[dict[str, Any]] = [
        {
            "type": "ptp",
            "ipMasq": False,
            "mtu": mtu_bytes,
            "ipam": {
                "type": "host-local",
                "dataDir": str(directory / "cni-addresses"),
                "ranges": [
                    [
                        {
                            "subnet": str(block),
                            "rangeStart": str(block[3]),
                            "rangeEnd": str(last),
                            "gateway": str(block[2]),
                        }
                    ]
                ],
                "routes": [{"dst": "::/0" if block.version == 6 else "0.0.0.0/0"}],
            },
        }
    ]
    part = share(version)
    if part < 1:
        rate, burst = round(node_bits_per_second * part), 2 * 8 * BURST_BYTES
        plugins.append(
            {
                "type": "bandwidth",
                **{f"{way}Rate": rate for way in ("ingress", "egress")},
                **{f"{way}Burst": burst for way in ("ingress", "egress")},
            }
        )
    return {"cniVersion": "0.4.0", "name": "vpc", "plugins": plugins}


def daemon_set(version: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """The DaemonSet of a version, rolled out as EKS's is."""
    container = {
        "name": NAME,
        "image": image(version),
        "imagePullPolicy": "Never",
        "env": [{"name": key, "value": value} for key, value in sorted(environment.items())],
    }
    pod = {
        "containers": [container],
        "hostNetwork": True,
        "automountServiceAccountToken": False,
        "priorityClassName": "system-node-critical",
        # The image only waits, so it ends at once.
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists"}],
    }
    return applying.daemon_set(NAME, {"metadata": {"labels": {_LABEL: NAME}}, "spec": pod})


def apply(control_plane: ControlPlane, manifest: dict[str, Any], conflicts: str) -> str:
    """Apply the DaemonSet; returns its image. Raises as `lab.nodes.applying.apply` does."""
    applied = applying.apply(control_plane, manifest, conflicts)
    (container,) = applied["spec"]["template"]["spec"]["containers"]
    return str(container["image"])


def is_rolled_out(control_plane: ControlPlane) -> bool:
    """Whether a pod of the newest generation is ready on every node. Raises OSError."""
    return applying.is_rolled_out(control_plane, "DaemonSet", NAME)


def nodes_with(control_plane: ControlPlane, running_image: str) -> set[str]:
    """The names of the nodes whose pod runs this image. Raises OSError."""
    pods = json.loads(
        control_plane.request(
            f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector={_LABEL}%3D{NAME}"
        )
    )["items"]
    return {
        pod["spec"]["nodeName"]
        for pod in pods
        if pod.get("status", {}).get("phase") == "Running"
        and pod["spec"]["containers"][0]["image"] == running_image
    }
