"""The fields of a plan: the models that validate plans.

`make docs` generates `docs/plan.schema.json` and `docs/plan.md` from these models and the tools'.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Discriminator, Field, Tag, ValidationInfo, field_validator

from rackrate.tools.base import refusal
from rackrate_contract.document import Document

DEFAULT_TESTS = ("requests", "requests-loaded", "tcp-1", "tcp-8")

#: Fewer blocks cannot support a 95 % interval. The interval from the smallest to the largest of n
#: values covers their median with probability 1 - 2^(1-n): 94 % for five and 97 % for six.
LEAST_BLOCKS = 6
MAX_BLOCKS = 1000
MAX_PAUSE_SECONDS = 3600
#: Fewer pairs of nodes in an arm support a claim about these nodes only. From this many on the
#: scatter between pairs is known well enough for an interval about the stack's placement.
LEAST_PAIRS = 3
#: Fewer earlier runs do not show how much runs differ from each other.
LEAST_RUNS = 4
MAX_EARLIER_RUNS = 20
MAX_ARMS = 10
MAX_TESTS = 20
MAX_TRIALS = 100_000

Direction = Literal["alternate", "forward", "reverse", "both"]
Load = Literal["isolated", "together"]
IfBusy = Literal["wait", "refuse"]


class RandomPairs(Document):
    """A number of pairs of each arm, drawn once by the seed."""

    random: Annotated[
        int,
        Field(
            ge=1,
            le=MAX_TRIALS,
            description="Number of pairs of each arm. They share no node as long as nodes are left,"
            " and are the same in every block.",
            examples=[4],
        ),
    ]


def _pairing_tag(value: object) -> str:
    return "random" if isinstance(value, dict | RandomPairs) else "name"


PairingField = Annotated[
    Annotated[Literal["one", "ring", "mesh"], Tag("name")] | Annotated[RandomPairs, Tag("random")],
    Discriminator(_pairing_tag),
]


class LeastMost(Document):
    """The fewest and the most of something of which a run or a campaign decides how many it needs.

    `field_name` is its name in the input.
    """

    field_name: ClassVar[str]

    least: int
    most: int

    @classmethod
    def of(cls, field: int | LeastMost) -> Self:
        """What an input asks for; a number is both the least and the most."""
        least, most = (field, field) if isinstance(field, int) else (field.least, field.most)
        return cls(least=least, most=most)

    @field_validator("most")
    @classmethod
    def _is_no_less_than_least(cls, most: int, info: ValidationInfo) -> int:
        least = info.data.get("least", most)
        if most < least:
            raise refusal(
                f"must be no less than {cls.field_name}.least, {least}, not {most}",
                "write a larger number, or a smaller one there",
            )
        return most


class Blocks(LeastMost):
    """How many blocks a run measures. It stops between the two when its verdicts are settled."""

    field_name = "blocks"

    least: Annotated[
        int,
        Field(
            ge=1,
            le=MAX_BLOCKS,
            description="The fewest blocks. The run looks at its verdicts for the first time after"
            " them.",
            examples=[6],
        ),
    ]
    most: Annotated[
        int,
        Field(
            ge=1,
            le=MAX_BLOCKS,
            description="The most blocks, as many as `least` or more.",
            examples=[24],
        ),
    ]


def _blocks_tag(value: object) -> str:
    return "range" if isinstance(value, dict | Blocks) else "number"


BlocksField = Annotated[
    Annotated[int, Field(ge=1, le=MAX_BLOCKS), Tag("number")] | Annotated[Blocks, Tag("range")],
    Discriminator(_blocks_tag),
]


def _names_tag(value: object) -> str:
    if value is None:
        return "none"
    return "list" if isinstance(value, list) else "name"


RunName = Annotated[str, Field(min_length=1, max_length=80)]
RunNames = Annotated[
    Annotated[RunName, Tag("name")]
    | Annotated[list[RunName], Field(max_length=MAX_EARLIER_RUNS), Tag("list")]
    | Annotated[None, Tag("none")],
    Discriminator(_names_tag),
]


JsonSchemaField = Annotated[
    str | None,
    Field(
        alias="$schema",
        description="Where editors find the schema of the input. It changes nothing.",
        examples=["./plan.schema.json"],
    ),
]


class PlanInput(Document):
    """What one run measures. Every field has a default, so `{}` is a valid plan."""

    # `arms` and `tests` are read entry by entry, for better messages.

    arms: Annotated[
        list[Any] | None,
        Field(
            max_length=MAX_ARMS,
            description="The arms to compare. Give names of the stack's arms, or objects that say"
            " more. By default all arms of the stack. A single arm is measured alone, without a"
            " verdict; its nodes can be ranked.",
            examples=[["treatment", "baseline"]],
        ),
    ] = None
    baseline: Annotated[
        str | None,
        Field(
            description="The arm that the others are compared with. By default the stack's"
            " baseline, or the one arm that uses its nodes.",
            examples=["baseline"],
        ),
    ] = None
    tests: Annotated[
        list[Any],
        Field(
            min_length=1,
            max_length=MAX_TESTS,
            description="The tests that every pair runs. Give names of the catalogue, or objects"
            " with a name, a tool and its options. An object with a name of the catalogue changes"
            " that test.",
            examples=[["tcp-1", {"name": "rtt", "count": 100}]],
        ),
    ] = list(DEFAULT_TESTS)  # noqa: RUF012 (pydantic copies it)
    blocks: Annotated[
        BlocksField,
        Field(
            description="How often everything is repeated. A block contains every test of every"
            " pair of every arm. A verdict's interval is computed from the blocks. With `least` and"
            " `most` the run looks at its verdicts after fixed numbers of blocks, and stops when"
            " all are settled or more blocks would hardly settle another. A number asks for exactly"
            " that many.",
            examples=[{"least": 6, "most": 24}, 12],
        ),
    ] = Blocks(least=LEAST_BLOCKS, most=2 * LEAST_BLOCKS)
    pause_seconds: Annotated[
        int,
        Field(
            ge=0,
            le=MAX_PAUSE_SECONDS,
            description="How long the run waits before each block but the first. A verdict holds"
            " for the time in which it was measured; pauses make that time longer.",
            examples=[300],
        ),
    ] = 0
    pairing: Annotated[
        PairingField,
        Field(
            description="Which pairs of an arm's nodes are measured. `one`: one pair, drawn by the"
            " seed and the same in every block. `ring`: each node with the next by name. `mesh`:"
            ' each node with each other node. `{"random": k}`: k pairs, drawn by the seed.',
            examples=["ring", {"random": 4}],
        ),
    ] = "one"
    direction: Annotated[
        Direction,
        Field(
            description="Which node of a pair is the client. `forward`: the node whose name sorts"
            " first; in a ring each node towards the next. `reverse`: the other node. `alternate`:"
            " forward in odd blocks and reverse in even ones. `both`: one after the other in every"
            " block.",
            examples=["both"],
        ),
    ] = "alternate"
    load: Annotated[
        Load,
        Field(
            description="How many pairs are measured at a time. `isolated`: one pair of each arm."
            " `together`: all pairs that share no node, which loads the network between all nodes.",
            examples=["together"],
        ),
    ] = "isolated"
    warm_up: Annotated[
        bool,
        Field(
            description="Whether every pair runs one short test before the first block. These"
            " trials are stored and marked, and no verdict uses them. Pairs that cannot communicate"
            " are named.",
            examples=[False],
        ),
    ] = True
    compare_with: Annotated[
        RunNames,
        Field(
            description="Earlier runs to compare this run's arms with: a run's id, the name of a"
            f" baseline, or a list of them. A verdict needs at least {LEAST_RUNS} runs; with fewer"
            " the ratio is shown and the verdict is inconclusive. They must be runs of the same"
            f" stack with the same tests, at most {MAX_EARLIER_RUNS}.",
            examples=["main", ["run-20261121-082710-d4cc", "run-20261122-082711-0b1f"]],
        ),
    ] = None
    seed: Annotated[
        int | None,
        Field(
            ge=0,
            lt=2**32,
            description="Seed of all orders and draws. By default derived from the run's id, and"
            " stored with the run.",
            examples=[42],
        ),
    ] = None
    threshold: Annotated[
        float,
        Field(
            gt=0,
            le=1,
            description="Differences below this share do not matter; 0.05 is 5 %.",
            examples=[0.1],
        ),
    ] = 0.05
    tolerated_loss: Annotated[
        float,
        Field(
            ge=0,
            lt=1,
            description="Share of trials that may be lost before the run fails.",
            examples=[0.2],
        ),
    ] = 0.1
    if_busy: Annotated[
        IfBusy,
        Field(
            description="What to do while another run holds the nodes. `wait`: wait until they are"
            " free, at most 12 hours. `refuse`: end at once with `NodesBusy`.",
            examples=["refuse"],
        ),
    ] = "wait"
    dry_run: Annotated[
        bool,
        Field(
            description="Whether to stop after the plan. A dry run checks and plans everything,"
            " estimates time, bytes and dollars, and measures nothing.",
            examples=[True],
        ),
    ] = False
    campaign: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=80,
            description="The campaign that started this run. A campaign writes it itself; leave it"
            " out.",
            examples=["campaign-20261122-060003-9c1e"],
        ),
    ] = None
    json_schema: JsonSchemaField = None


#: The field that Step Functions adds to the input of an execution that another one starts (Step
#: Functions developer guide, "Start workflow executions from a task state").
STARTED_BY = "AWS_STEP_FUNCTIONS_STARTED_BY_EXECUTION_ID"


def without_started_by(raw: object) -> object:
    """An execution's input without the field that Step Functions adds."""
    if not isinstance(raw, dict):
        return raw
    return {name: value for name, value in raw.items() if name != STARTED_BY}
