"""The plan: what a run measures. `check` builds one from an input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from rackrate import registry
from rackrate.plan.arms import ArmChoice
from rackrate.plan.fields import Blocks, Direction, IfBusy, Load, PairingField
from rackrate.plan.workloads import workloads
from rackrate.registry import AnyTest
from rackrate.settings import Settings, StackArm
from rackrate_contract.document import Document

# The order in which the references list the tests. Further tests of the tools follow.
_FIRST_TESTS = ("tcp-1", "tcp-8", "rtt", "udp-1", "iperf2-32", "latency", "latency-loaded")
_OF_TOOLS = registry.catalogue()
#: Predefined tests, which a plan may name without giving their options.
CATALOGUE: Mapping[str, Mapping[str, Any]] = {
    name: _OF_TOOLS[name] for name in dict.fromkeys((*_FIRST_TESTS, *_OF_TOOLS))
}


def _named(value: object) -> object:
    return {"name": value, "nodes": value} if isinstance(value, str) else value


def _shortened(arm: ArmChoice) -> str | ArmChoice:
    return arm.name if arm.is_plain else arm


def _least_and_most(value: object) -> object:
    return Blocks.of(value) if isinstance(value, int) else value


def _number_if_fixed(blocks: Blocks) -> int | Blocks:
    return blocks.least if blocks.least == blocks.most else blocks


def names_of(value: Sequence[str] | None) -> tuple[str, ...]:
    """The names in `compare_with`; one may be written alone, and none as null."""
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(value)


def _as_written(names: tuple[str, ...]) -> str | tuple[str, ...] | None:
    """The names in the shortest form that `names_of` reads."""
    if len(names) > 1:
        return names
    return names[0] if names else None


class Plan(Document):
    """The plan with every default filled in; plan.schema.json describes the input."""

    # fields.PlanInput is that input. A new field needs a default here too, because the plans of
    # earlier runs lack it.

    arms: tuple[
        Annotated[
            ArmChoice,
            BeforeValidator(_named),
            PlainSerializer(_shortened, return_type=str | ArmChoice),
        ],
        ...,
    ]
    """The arms to measure, including the baseline."""
    baseline: str
    """The arm that the others are compared with."""
    tests: tuple[AnyTest, ...]
    blocks: Annotated[
        Blocks,
        BeforeValidator(_least_and_most),
        PlainSerializer(_number_if_fixed, return_type=int | Blocks),
    ]
    """How many blocks to measure; a number if it is fixed."""
    pause_seconds: int = 0
    """The wait before each block but the first."""
    pairing: PairingField
    direction: Direction
    load: Load
    warm_up: bool
    compare_with: Annotated[
        tuple[str, ...],
        BeforeValidator(names_of),
        PlainSerializer(_as_written, return_type=str | tuple[str, ...] | None),
    ]
    """Ids of the earlier runs to compare this one with; one is written alone, and none as null."""
    seed: int
    threshold: float
    tolerated_loss: float
    if_busy: IfBusy
    dry_run: bool
    campaign: str | None = None
    """The campaign that started the run."""

    @property
    def has_block_0(self) -> bool:
        """Whether something comes before its blocks: a warm-up, or data that workloads need."""
        return self.warm_up or any(test.has_data for test in workloads(self.tests))

    @property
    def stack_arms(self) -> tuple[str, ...]:
        """The names of the stack's arms whose nodes the run uses, each once."""
        return tuple(dict.fromkeys(arm.nodes for arm in self.arms))

    def node_sets(self, settings: Settings) -> tuple[StackArm, ...]:
        """The sets of the stack's nodes that the run uses: its arms, and load nodes if it has a use
        for them."""
        arms = tuple(arm for arm in settings.arms if arm.name in self.stack_arms)
        if settings.load is None or not any(test.uses_load_nodes for test in self.tests):
            return arms
        return (*arms, settings.load)
