"""The records and objects of a stack's executions of one kind: what runs and campaigns share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from aws_lambda_powertools import Logger
from pydantic import ValidationError

from rackrate.executions.objects import Objects
from rackrate.table import Table
from rackrate.times import now
from rackrate_contract.document import Document, Json
from rackrate_contract.executions import ExecutionRecord, Status

logger = Logger(child=True)


class Executions[R: ExecutionRecord, P: Document](ABC):
    """The executions of one kind.

    A record's attributes are given by the names of its fields, with the values that the table has.

    Args:
        table: the table's items.
        objects: the bucket's objects.
        record: the type of a record.
        plan: the type of plan.json.

    Raises, from every method:
        Throttled: too many requests.
        TypeError: a record has no field of such a name.
    """

    #: What the record of an execution has that was refused before it was planned.
    unplanned: ClassVar[Mapping[str, str]] = {}

    def __init__(self, table: Table, objects: Objects, record: type[R], plan: type[P]) -> None:
        self._table, self._objects = table, objects
        self._record, self._plan = record, plan
        self._noun = record.of_kind

    # -- its record

    def get(self, name: str) -> R:
        """The record.

        Raises:
            LookupError: there is none.
        """
        record = self.find(name)
        if record is None:
            raise LookupError(f"the {self._noun} {name} is not in the table")
        return record

    def find(self, name: str) -> R | None:
        """The record, or None where only progress was written and no start."""
        return self._started(self._table.get(*self.keys(name)))

    def start(self, name: str, status: Status, started_at: str, **attributes: Any) -> None:
        """Record a planned execution; a repeated call changes only the attributes that it passes.

        Args:
            name: its name.
            status: such as `running` or `dry_run`.
            started_at: ISO 8601; ignored when it is recorded already.
            attributes: further attributes.
        """
        self.write(
            name,
            {**attributes, **self._listed(name, status)},
            set_once={"started_at": started_at, "gsi1sk": started_at},
        )

    def update(self, name: str, **attributes: Any) -> R | None:
        """Record progress by overwriting attributes.

        Returns:
            The record, or None where only progress was written and no start.
        """
        return self._started(self.write(name, attributes))

    def finish(self, name: str, status: Status, **attributes: Any) -> float | None:
        """Record how an execution ended, unless its end is recorded already.

        One with an invalid input was never recorded; this call records it.

        Returns:
            The seconds that it took, or None when its end was recorded before.
        """
        time = now()
        record = self.find(name)
        started_at, seconds = time, 0.0
        if record is not None:
            started_at, recorded = record.started_at, record.seconds
            seconds = self.seconds_of(record, time) if recorded is None else recorded
        written = self.write(
            name,
            {
                **attributes,
                **self._listed(name, status),
                "finished_at": time,
                "updated_at": time,
                "seconds": seconds,
            },
            set_once={**self.unplanned, "started_at": started_at, "gsi1sk": started_at},
            condition="attribute_not_exists(#status) OR #status = :running",
            values={":running": "running"},
        )
        return None if written is None else seconds

    @abstractmethod
    def seconds_of(self, record: R, end: str) -> float:
        """How long an execution took that ends at a time in ISO 8601."""

    def running(self) -> list[R]:
        """Those whose status is `running`."""
        return self.query("#status = :running", {"#status": "status"}, {":running": "running"})

    def query(
        self, chosen: str, names: Mapping[str, str], values: Mapping[str, Any], started: str = ""
    ) -> list[R]:
        """Those that match a filter expression, and started when a condition on the key says."""
        key = f"gsi1pk = :all AND gsi1sk {started}" if started else "gsi1pk = :all"
        items = self._table.query_index(key, chosen, names, {":all": f"{self._noun}s", **values})
        return [record for item in items if (record := self._read(item)) is not None]

    def keys(self, name: str) -> tuple[str, str]:
        """The keys of a record's item."""
        return f"{self._noun}#{name}", self._noun

    def write(self, name: str, attributes: Mapping[str, Any], **others: Any) -> Json | None:
        """Overwrite attributes of an item, as `Table.update` does, and note the time.

        Returns:
            The item as it is then, or None where it does not meet the condition of `others`.
        """
        fields = {*self._record.model_fields, "gsi1pk", f"{self._noun}_id"} - {"id"}
        if unknown := attributes.keys() - fields:
            raise TypeError(f"a {self._noun} has no {', '.join(sorted(unknown))}")
        set_ = {"updated_at": now(), **attributes}
        return self._table.update(*self.keys(name), set_=set_, **others)

    def _listed(self, name: str, status: Status) -> Json:
        return {"status": status, f"{self._noun}_id": name, "gsi1pk": f"{self._noun}s"}

    def _started(self, item: Mapping[str, Any] | None) -> R | None:
        return None if item is None or "status" not in item else self._read(item)

    def _read(self, item: Mapping[str, Any]) -> R | None:
        """An item as a record; None, with a warning, if nobody can read it.

        Its id is that of its key, whatever else the item says.
        """
        name = item["pk"].removeprefix(f"{self._noun}#")
        return readable(self._record, {**item, "id": name}, self._noun)

    # -- its objects

    def key(self, name: str, of: str) -> str:
        """The key of one of an execution's objects."""
        return f"{self._noun}s/{name}/{of}"

    def put(self, name: str, of: str, document: Document) -> str:
        """Write one of its objects as JSON and return its key."""
        return self._objects.put_json(self.key(name, of), document.to_json())

    def put_text(self, name: str, of: str, text: str, content_type: str) -> str:
        """Write one of its objects and return its key."""
        return self._objects.put(self.key(name, of), text, content_type)

    def read[D: Document](self, name: str, of: str, kind: type[D]) -> D:
        """Read one of its objects.

        Raises:
            botocore.exceptions.ClientError: there is none.
            pydantic.ValidationError: the object is not of that kind.
        """
        return kind.from_json(self._objects.read(self.key(name, of)))

    def find_document[D: Document](self, name: str, of: str, kind: type[D]) -> D | None:
        """One of its objects, or None where it has none."""
        text = self.find_text(name, of)
        return None if text is None else kind.from_json(text)

    def find_text(self, name: str, of: str) -> bytes | None:
        """The text of one of its objects, or None where it has none."""
        return self._objects.find(self.key(name, of))

    def plan(self, name: str) -> P:
        """Its plan.json."""
        return self.read(name, "plan.json", self._plan)


def read_item[D: Document](kind: type[D], item: Mapping[str, Any]) -> D:
    """Read the fields of an item that a document has.

    Raises:
        pydantic.ValidationError: one has another type.
    """
    values = {name: item[name] for name in kind.model_fields if name in item}
    # Not strict, because DynamoDB returns lists where the models have tuples.
    return kind.model_validate(values, strict=False)


def readable[D: Document](kind: type[D], item: Mapping[str, Any], noun: str) -> D | None:
    """The same; None, with a warning, if nobody can read it: it must not hide all others."""
    try:
        return read_item(kind, item)
    except ValidationError as error:
        logger.warning(f"an item is no {noun}", pk=item.get("pk"), error=str(error))
        return None
