"""A kubelet's settings: the lab's own, overridden by those of the node's user data."""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from lab.aws.eks.user_data import merged
from lab.errors import LabError

LOG = logging.getLogger(__name__)

# Fields that user data cannot change, because the lab's nodes need them: the kubelet's identity and
# whom it trusts, where its files and its containerd are, and the control groups and disk of the
# one machine, which all nodes share.
LAB_FIELDS = frozenset(
    {
        "address",
        "apiVersion",
        "authentication",
        "authorization",
        "cgroupDriver",
        "cgroupRoot",
        "cgroupsPerQOS",
        "containerRuntimeEndpoint",
        "enforceNodeAllocatable",
        "failCgroupV1",
        "failSwapOn",
        "healthzPort",
        "kind",
        "localStorageCapacityIsolation",
        "oomScoreAdj",
        "podLogsDir",
        "port",
        "providerID",
        "readOnlyPort",
        "tlsCertFile",
        "tlsPrivateKeyFile",
        "volumePluginDir",
    }
)
_LAB_FLAGS = frozenset(
    {
        "bootstrap-kubeconfig",
        "cert-dir",
        "config",
        "config-dir",
        "hostname-override",
        "image-credential-provider-bin-dir",
        "image-credential-provider-config",
        "kubeconfig",
        "node-ip",
        "root-dir",
    }
) | {re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower() for name in LAB_FIELDS}


def pod_addresses(block: ipaddress.IPv4Network) -> int:
    """How many pods with their own address fit into a node's block."""
    # All host addresses but those of the node itself and of the pods' gateway.
    return block.num_addresses - 4


def configuration(
    own: Mapping[str, Any], fields: Mapping[str, Any], block: ipaddress.IPv4Network
) -> dict[str, Any]:
    """A KubeletConfiguration: the lab's `own`, overridden by `fields`.

    The fields that the lab needs stay as they are, and the log says so. Raises LabError when the
    result allows more pods than the node's block has addresses.
    """
    for name in sorted(LAB_FIELDS & fields.keys()):
        LOG.warning("kubelet configuration: %s stays the lab's own", name)
    result = merged(own, {name: value for name, value in fields.items() if name not in LAB_FIELDS})
    most, pods = pod_addresses(block), result.get("maxPods")
    if isinstance(pods, int) and pods > most:
        raise LabError(
            f"maxPods is {pods}, but a node of the lab has a /{block.prefixlen} block of"
            f" addresses, which carries {most} pods: give MaxPods of at most {most} in the lab"
        )
    return result


def split_flags(flags: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Fields and remaining flags of `flags`, whose items have the form --name=value.

    A flag overrides the configuration file, so --max-pods becomes the field that is checked. Flags
    that the lab needs are left out, and the log says so. Raises LabError for an invalid number.
    """
    fields: dict[str, Any] = {}
    remaining = []
    for flag in flags:
        name, _, value = flag.removeprefix("--").partition("=")
        if name == "max-pods":
            if not value.isdigit():
                raise LabError(f"the kubelet's flag {flag} needs a number")
            fields["maxPods"] = int(value)
        elif name in _LAB_FLAGS:
            LOG.warning("kubelet flag: --%s stays the lab's own", name)
        else:
            remaining.append(flag)
    return fields, remaining
