"""What the stack tells its functions, read from the environment."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Arm:
    """A node group under comparison.

    Attributes:
        name: the arm's name in plans and results.
        placement: strategy of its placement group; `none` without one.
        baseline: is it what the others are compared with unless the plan says otherwise?
        node_group: name of the EKS managed node group.
        selector: node labels that select its nodes.
    """

    name: str
    placement: str
    baseline: bool
    node_group: str
    selector: Mapping[str, str]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Arm:
        """Reads an arm of the environment variable `ARMS` or of a stored plan."""
        return cls(
            name=value["name"],
            placement=value["placement"],
            baseline=value["baseline"],
            node_group=value["node_group"],
            selector=dict(value["selector"]),
        )


@dataclass(frozen=True)
class Settings:
    """The stack's resources a function works with."""

    table_name: str
    bucket_name: str
    cluster_name: str
    namespace: str
    tool_image: str
    arms: tuple[Arm, ...]

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """Reads the settings.

        Raises:
            KeyError: a variable the template sets is missing.
        """
        return cls(
            table_name=environment["TABLE_NAME"],
            bucket_name=environment["BUCKET_NAME"],
            cluster_name=environment["CLUSTER_NAME"],
            namespace=environment["NAMESPACE"],
            tool_image=environment["TOOL_IMAGE"],
            arms=tuple(Arm.from_json(arm) for arm in json.loads(environment["ARMS"])),
        )
