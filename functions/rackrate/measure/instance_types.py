"""What EC2 says of instance types. Nodes label themselves with one, so a name can be anything."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from rackrate.errors import translated
from rackrate.measure.placement import MOST_VALUES, all_pages
from rackrate_contract.document import Json


def instance_types(ec2: Any, names: Iterable[str | None]) -> dict[str, Json]:
    """Instance types as DescribeInstanceTypes returns them, by name, without unknown ones.

    Args:
        ec2: a client of EC2.
        names: the names of types; None where a node reports none.

    Raises:
        Throttled: EC2 throttled the request.
    """
    described: dict[str, Json] = {}
    for some in itertools.batched(sorted(set(filter(None, names))), MOST_VALUES, strict=False):
        # A filter, because the argument InstanceTypes refuses all names if one is unknown.
        named = [{"Name": "instance-type", "Values": list(some)}]
        with translated():
            entries = all_pages(ec2.describe_instance_types, "InstanceTypes", Filters=named)
        described |= {entry["InstanceType"]: entry for entry in entries}
    return described
