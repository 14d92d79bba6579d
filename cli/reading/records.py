"""What runs and campaigns have in the stack's table, and how their items are read."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any, NamedTuple, Self, get_type_hints

from rackrate_text.failures import CONTINUABLE

_LARGEST = 1e15

GOOD = frozenset({"succeeded", "degraded", "dry_run", "skipped"})
TERMINAL = GOOD | CONTINUABLE | {"invalid"}

AFTER_BLOCKS = frozenset(
    {"analyzing", "reporting", "putting nodes to rest", "putting back what was changed"}
)
"""The phases after the last block of a run, or the last step of a campaign."""


@dataclass(frozen=True)
class Record(ABC):
    """An execution as the stack records it.

    Times are ISO 8601, durations in seconds. None means not known (yet).
    """

    id: str
    status: str
    phase: str
    next_look: int | None
    """The block or step after which it looks at its verdicts or answers next."""
    stopped_after: int | None
    """The number of blocks or steps after which it stopped, if it looked at them."""
    started_at: str
    finished_at: str | None
    seconds: float | None
    expected_seconds: float | None
    conclusion: str | None
    error: str | None
    cause: str | None

    @property
    def is_over(self) -> bool:
        """Whether it is over. The stack writes the final status once, as its last action."""
        return self.status in TERMINAL

    @property
    def is_cleaned_up(self) -> bool:
        """Whether it is over and the stack has nothing left to put back."""
        return self.is_over

    @property
    def has_measured(self) -> bool:
        """Whether its parts are over. The stack estimates no time for what is left then."""
        return self.stopped_after is not None or self.phase in AFTER_BLOCKS

    @classmethod
    @abstractmethod
    def from_item(cls, item: Mapping[str, Any]) -> Self:
        """Read an item as the table resource returns it."""

    def as_document(self) -> dict[str, Any]:
        """The record for `--json`: its fields by name."""
        return asdict(self)


class Pace(NamedTuple):
    """How far something is that goes on in parts: a run in blocks, a campaign in steps.

    `now` is the part that is going on, from 1, or 0 before the first. It ends after `least` to
    `most` parts, as far as is known. `planned` is how many parts `expected_seconds` is for. Each
    takes `part_seconds`, and between two is a pause. Parts up to `through` go on together, without
    pauses. None means not estimated (yet).
    """

    now: int
    least: int
    most: int
    planned: int
    expected_seconds: float | None
    part_seconds: float | None
    pause_seconds: float = 0.0
    through: int = 0


def read_item[T: Hashable](kind: type[T], item: Mapping[str, Any], **others: Any) -> T:
    """Make a dataclass from an item of the table, by the names and the types of its fields.

    `others` are the fields that the item has elsewhere or in another form. What the item lacks, or
    has of another kind, is empty, zero or None.
    """
    hints = get_type_hints(kind)
    read = {name: _AS[hints[name]](item.get(name)) for name in hints.keys() - others.keys()}
    return kind(**read, **others)


def number_of(value: object) -> float | None:
    """A number of an item, or None if it is none, or larger than any that the stack writes."""
    number = float(value) if isinstance(value, Decimal | int | float) else math.inf
    return number if abs(number) <= _LARGEST else None


def whole_of(value: object) -> int | None:
    """The same as a whole number."""
    return None if (number := number_of(value)) is None else int(number)


def fields_of(value: object) -> Mapping[str, Any]:
    """A map of an item, or an empty one if it is none."""
    return value if isinstance(value, Mapping) else {}


def texts_of(value: object) -> tuple[str, ...]:
    """The texts of a list of an item; none if it is no list."""
    return tuple(map(str, value)) if isinstance(value, list) else ()


def text_of(value: object) -> str | None:
    """A text of an item, or None if it is missing or empty."""
    return str(value) if value else None


#: How a value of an item is read, by the type of the field that it becomes.
_AS: Mapping[Any, Callable[[Any], Any]] = {
    str: lambda value: str(value or ""),
    str | None: text_of,
    int: lambda value: whole_of(value) or 0,
    int | None: whole_of,
    float: lambda value: number_of(value) or 0.0,
    float | None: number_of,
}
