"""How EC2 is asked for a placement group: by its name, or by its id. Pure."""

from __future__ import annotations

import re

#: Amazon EC2 API Reference, "Error codes", InvalidPlacementGroupId.Malformed.
_ID = re.compile(r"pg-[0-9a-f]{17}")


def is_group_id(group: str) -> bool:
    """Whether a text is a group's id. A group whose name looks like one must be named by its id."""
    return _ID.fullmatch(group) is not None


def group_query(group: str) -> dict[str, list[str]]:
    """The arguments of DescribePlacementGroups for a group's name or id.

    EC2 knows a group of another account by its id only (EC2 user guide, "Shared placement groups").
    It refuses what it does not know with the error `InvalidPlacementGroup.Unknown`.
    """
    return {"GroupIds" if is_group_id(group) else "GroupNames": [group]}
