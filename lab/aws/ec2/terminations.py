"""Tell who cares that instances were terminated, as an Auto Scaling group learns it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from moto.ec2.models import EC2Backend

_terminate_instances = EC2Backend.terminate_instances


def terminating(terminated: Callable[[Sequence[str]], None]) -> Callable[..., Any]:
    """TerminateInstances that calls `terminated` with the ids of the instances of a request."""

    def terminate_instances(backend: EC2Backend, instance_ids: list[str]) -> Any:
        result = _terminate_instances(backend, instance_ids)
        terminated(instance_ids)
        return result

    return terminate_instances
