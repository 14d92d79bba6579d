"""What every tool has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

#: A container is named after its test, so a test's name is a DNS label.
NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"


class ParseError(ValueError):
    """A tool's output holds no complete measurement; the message says why."""


@dataclass(frozen=True)
class Measurement:
    """What one trial measured.

    Attributes:
        value: the trial's value, in the unit of its test's metric.
        samples: the raw values the trial's value was made of, in the same unit.
        details: further figures, their units in their names.
        version: the tool's own version, where its output tells.
    """

    value: float
    samples: tuple[float, ...]
    details: Mapping[str, float | int | str] = field(default_factory=dict)
    version: str | None = None


class TestBase(BaseModel, ABC):
    """A test: a tool with its parameters. Subclasses add the parameters."""

    __test__: ClassVar[bool] = False  # pytest would take the name for a test case
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    #: What a trial's value is, its SI unit, and which way is better.
    metric: ClassVar[str]
    unit: ClassVar[str]
    better: ClassVar[Literal["higher", "lower"]]
    #: Kernel settings of the pod's own network namespace the tool needs.
    sysctls: ClassVar[Mapping[str, str]] = {}

    name: Annotated[str, Field(pattern=NAME_PATTERN, max_length=40)]
    tool: str

    @abstractmethod
    def argv(self, server: str) -> list[str]:
        """The command line against a server's IP address; no shell reads it."""

    @property
    @abstractmethod
    def expected_seconds(self) -> float:
        """How long the test sends traffic."""

    @property
    @abstractmethod
    def flows(self) -> int:
        """How many flows (5-tuples) carry the traffic; 0 when throughput does not matter."""
