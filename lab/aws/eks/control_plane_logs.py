"""The log group of a cluster's control plane: EKS makes it whenever it writes and there is none.

EKS delivers the last lines some time after the cluster's deletion. A group that was deleted with
the cluster is then there again, without retention or key
(https://github.com/terraform-aws-modules/terraform-aws-eks/issues/2446, 2486 and 2763). The lab
delivers them as soon as the group is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moto.logs.models import LogsBackend, logs_backends

from lab.aws.account import ACCOUNT_ID, REGION

_moto_delete = LogsBackend.delete_log_group
#: The groups to which EKS has last lines to deliver.
_late: set[str] = set()


def begin(cluster: Mapping[str, Any]) -> None:
    """Write the first lines of a cluster, given as DescribeCluster shows it."""
    if _has_logs(cluster):
        _write(_group(cluster))


def end(cluster: Mapping[str, Any]) -> None:
    """Note that a deleted cluster has last lines, which EKS delivers later."""
    if _has_logs(cluster):
        _late.add(_group(cluster))


def _has_logs(cluster: Mapping[str, Any]) -> bool:
    return any(setup["enabled"] for setup in cluster["logging"]["clusterLogging"])


def _group(cluster: Mapping[str, Any]) -> str:
    return f"/aws/eks/{cluster['name']}/cluster"


def _write(group: str) -> None:
    logs = logs_backends[ACCOUNT_ID][REGION]
    if group not in logs.groups:
        logs.create_log_group(group, {})


def delete_log_group(self: LogsBackend, log_group_name: str) -> None:
    _moto_delete(self, log_group_name)
    if log_group_name in _late:
        _late.discard(log_group_name)
        _write(log_group_name)
