"""The leases on the stack's nodes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

from aws_lambda_powertools import Logger
from botocore.exceptions import ClientError
from pydantic import ValidationError

from rackrate.errors import translated
from rackrate.executions.records import read_item
from rackrate.table import Table, from_item, to_item
from rackrate.times import now
from rackrate_contract.document import Document, Json
from rackrate_contract.executions import Kind, Time

logger = Logger(child=True)

#: The key of the item with the leases on the nodes. It has an attribute for each arm, so that one
#: conditional write takes several arms together.
_LEASES = {"pk": "lease", "sk": "nodes"}


class Lease(Document):
    """A lease on the nodes of one of the stack's arms."""

    run_id: str
    """The run that holds the nodes, or the campaign that holds them for its runs."""
    kind: Kind | None = None
    """Which of the two it is, as both may have one id; null in a lease of an older rackrate."""
    taken_at: str
    """ISO 8601, UTC; so are the other times."""
    expected_end: Time
    """When the run is expected to end."""
    expires_at: Time
    """When another run may take the nodes if nobody knows what became of this one."""

    def is_of(self, kind: Kind | None, holder: str) -> bool:
        """Whether the run or the campaign holds it. Without a kind, whoever has the id does."""
        return self.run_id == holder and self.kind in (kind, None)


class Leases:
    """The leases on the nodes of a stack's arms.

    Raises, from every method:
        Throttled: too many requests.
    """

    def __init__(self, table: Table) -> None:
        self._table = table

    def hold(
        self, arms: Iterable[str], lease: Lease, *, renew: bool = False
    ) -> dict[str, Lease] | None:
        """Take or renew a run's lease on the nodes of several arms: on all of them or on none.

        A lease of another run is in the way until somebody ends it, also after its time. Functions'
        clocks may differ, so one that is ahead must not take the nodes of a run that goes on.

        Args:
            arms: names of the stack's arms.
            lease: the lease.
            renew: whether to write it only if the run still holds the nodes. Without this, a late
                call for a run that has ended would take them again.

        Returns:
            None when the run holds the nodes. Otherwise the leases of other runs on them, by arm.
        """
        arm_names = {f"#arm{number}": arm for number, arm in enumerate(arms)}
        free = "{0}.run_id = :run AND ({0}.kind = :kind OR attribute_not_exists({0}.kind))"
        if not renew:
            free += " OR attribute_not_exists({0})"
        held = self._change(
            "SET " + ", ".join(f"{name} = :lease" for name in arm_names),
            " AND ".join(f"({free.format(name)})" for name in arm_names),
            arm_names,
            to_item({":lease": lease.to_json(), ":run": lease.run_id, ":kind": lease.kind}),
        )
        if held is None:
            return None
        others = {a: each for a, each in held.items() if not each.is_of(lease.kind, lease.run_id)}
        return {arm: others[arm] for arm in arm_names.values() if arm in others}

    def valid(self) -> dict[str, Lease]:
        """The leases that have not expired, by arm."""
        time = now()
        leases = _leases(self._table.get(**_LEASES) or {})
        return {arm: lease for arm, lease in leases.items() if lease.expires_at >= time}

    def give_back(self, kind: Kind, holder: str) -> None:
        """End the lease of a run or of a campaign on all nodes that it holds, if it holds any."""
        leases = _leases(self._table.get(**_LEASES) or {})
        held = {
            f"#arm{number}": arm
            for number, (arm, lease) in enumerate(leases.items())
            if lease.is_of(kind, holder)
        }
        if not held:
            return
        # If another run has taken one of them since, the lease has expired on all of them.
        unchanged = " AND ".join(f"{name}.run_id = :run" for name in held)
        self._change("REMOVE " + ", ".join(held), unchanged, held, to_item({":run": holder}))

    def end(self, leases: Mapping[str, Lease]) -> None:
        """End the leases of runs that are gone, by arm, unless one was renewed or taken since."""
        names = {f"#arm{number}": arm for number, arm in enumerate(leases)}
        values: Json = {}
        unchanged: list[str] = []
        for number, lease in enumerate(leases.values()):
            values |= {f":run{number}": lease.run_id, f":end{number}": lease.expires_at}
            unchanged.append(f"#arm{number}.run_id = :run{number}")
            unchanged.append(f"#arm{number}.expires_at = :end{number}")
        condition = " AND ".join(unchanged)
        self._change("REMOVE " + ", ".join(names), condition, names, to_item(values))

    def _change(
        self, expression: str, condition: str, arms: Mapping[str, str], values: Mapping[str, Any]
    ) -> dict[str, Lease] | None:
        """Change the leases. Returns None, or all leases if the condition does not hold.

        In the latter case, those that nobody can read are deleted: nobody can renew or end them.
        `arms` has the arms by the names that the expressions use, and `values` their values.
        """
        try:
            with translated():
                self._table.client.update_item(
                    TableName=self._table.name,
                    Key=to_item(_LEASES),
                    UpdateExpression=expression,
                    ConditionExpression=condition,
                    ExpressionAttributeNames=arms,
                    ExpressionAttributeValues=values,
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                raise
            # Before the first lease of a stack there is no item.
            before: Any = error.response.get("Item", {})
            leases = _leases(from_item(before))
            for arm in before.keys() - _LEASES.keys() - leases.keys():
                logger.warning("a lease that nobody can read is deleted", arm=arm)
                of_arm = {":before": before[arm]}
                self._change("REMOVE #arm", "#arm = :before", {"#arm": arm}, of_arm)
            return leases
        return None


def _leases(item: Mapping[str, Any]) -> dict[str, Lease]:
    """The leases by arm, without what nobody can read."""
    leases = {}
    for arm, stored in item.items():
        if arm not in _LEASES and isinstance(stored, dict):
            with contextlib.suppress(ValidationError):
                leases[arm] = read_item(Lease, stored)
    return leases
