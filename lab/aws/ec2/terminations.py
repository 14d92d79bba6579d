"""Tell who cares that instances were terminated, as an Auto Scaling group learns it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from moto.ec2.models import EC2Backend

_terminate_instances = EC2Backend.terminate_instances


def install(terminated: Callable[[Sequence[str]], None]) -> None:
    """Make moto's EC2 call `terminated` with the ids of the instances that a request ended."""

    @functools.wraps(_terminate_instances)
    def told(backend: EC2Backend, instance_ids: list[str]) -> Any:
        answer = _terminate_instances(backend, instance_ids)
        terminated(instance_ids)
        return answer

    setattr(EC2Backend, "terminate_instances", told)  # noqa: B010 - mypy refuses to assign it
