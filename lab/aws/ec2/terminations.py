"""Tell who cares that instances were terminated, as an Auto Scaling group learns it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from moto.ec2.models import EC2Backend

_terminate_instances = EC2Backend.terminate_instances


def terminate_instances(
    self: EC2Backend, terminated: Callable[[Sequence[str]], None], instance_ids: list[str]
) -> Any:
    """TerminateInstances that calls `terminated` with the ids of the instances of a request."""
    result = _terminate_instances(self, instance_ids)
    terminated(instance_ids)
    return result
