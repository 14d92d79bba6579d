"""The codes of AWS's service quotas, for the functions and the command. Pure."""

from __future__ import annotations

import re

#: Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances, in vCPUs.
STANDARD = "L-1216C47A"
#: Nodes per managed node group, and AWS's default for it (Amazon EKS user guide, "View and manage
#: Amazon EKS and Fargate service quotas").
NODES_PER_GROUP = "L-BD136A63"
DEFAULT_NODES_PER_GROUP = 450

# Amazon EC2 user guide, "On-Demand Instance quotas": every quota counts vCPUs of running instances.
# Longer prefixes come first, because inf is not i, hpc is not h, dl is not d, and trn is not t.
_VCPUS = (
    ("hpc", "L-F7808C92"),
    ("inf", "L-1945791B"),
    ("trn", "L-2C3B7624"),
    ("dl", "L-6E869C2A"),
    ("vt", "L-DB2E81BA"),
    ("f", "L-74FC7D96"),
    ("g", "L-DB2E81BA"),
    ("p", "L-417A185B"),
    ("u", "L-43DA4232"),
    ("x", "L-7295265B"),
)


def quota_code(instance_type: str) -> str:
    """The code of the quota that counts the vCPUs of an instance type."""
    family = re.match(r"[a-z]+", instance_type)
    name = family[0] if family else ""
    return next((code for prefix, code in _VCPUS if name.startswith(prefix)), STANDARD)
