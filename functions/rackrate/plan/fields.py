"""The fields of a plan: the models that validate plans.

`make docs` generates `docs/plan.schema.json` and `docs/plan.md` from these models and the tools'.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from rackrate.document import Document

DEFAULT_TESTS = ("tcp-1", "tcp-8", "rtt")

#: Fewer blocks cannot support a 95 % interval. The interval from the smallest to the largest of n
#: values covers their median with probability 1 - 2^(1-n): 94 % for five and 97 % for six.
LEAST_BLOCKS = 6
MAX_ARMS = 10
MAX_TESTS = 20
MAX_TRIALS = 100_000

Direction = Literal["alternate", "forward", "reverse", "both"]
Load = Literal["isolated", "together"]


class RandomPairs(Document):
    """So many pairs of every arm, drawn once by the seed."""

    random: Annotated[
        int,
        Field(
            ge=1,
            le=MAX_TRIALS,
            description="Number of pairs of each arm. They share no node while there are nodes"
            " left, and are the same in every block.",
            examples=[4],
        ),
    ]


def _pairing_tag(value: object) -> str:
    return "random" if isinstance(value, dict | RandomPairs) else "name"


PairingField = Annotated[
    Annotated[Literal["one", "ring", "mesh"], Tag("name")] | Annotated[RandomPairs, Tag("random")],
    Discriminator(_pairing_tag),
]


class PlanInput(Document):
    """What one run measures. `{}` is a good plan: every field has a default."""

    # `arms` and `tests` are read entry by entry, for better messages.

    arms: Annotated[
        list[Any] | None,
        Field(
            max_length=MAX_ARMS,
            description="What is compared: names of the stack's arms, or objects that say more."
            " By default all arms of the stack.",
            examples=[["treatment", "baseline"]],
        ),
    ] = None
    baseline: Annotated[
        str | None,
        Field(
            description="The arm the others are compared with. By default the stack's baseline, or"
            " the one arm that uses its nodes.",
            examples=["baseline"],
        ),
    ] = None
    tests: Annotated[
        list[Any],
        Field(
            min_length=1,
            max_length=MAX_TESTS,
            description="What every pair runs: names of the catalogue, or objects with a name, a"
            " tool and its options. An object with a name of the catalogue changes that test.",
            examples=[["tcp-1", {"name": "rtt", "count": 100}]],
        ),
    ] = list(DEFAULT_TESTS)  # noqa: RUF012 (pydantic copies it)
    blocks: Annotated[
        int,
        Field(
            ge=1,
            le=1000,
            description="How often everything is repeated. A block holds every test of every pair"
            " of every arm; blocks are what a verdict's interval rests on.",
            examples=[12],
        ),
    ] = LEAST_BLOCKS
    pairing: Annotated[
        PairingField,
        Field(
            description="Which pairs of an arm's nodes are measured: `one`, drawn by the seed and"
            " the same in every block; `ring`, each node with the next by name; `mesh`, each with"
            " each; or so many at random.",
            examples=["ring", {"random": 4}],
        ),
    ] = "one"
    direction: Annotated[
        Direction,
        Field(
            description="Who of a pair is the client. `forward`: the node whose name sorts first,"
            " in a ring each node towards the next; `reverse`: the other one; `alternate`: forward"
            " in odd blocks and reverse in even ones; `both`: one after the other in every block.",
            examples=["both"],
        ),
    ] = "alternate"
    load: Annotated[
        Load,
        Field(
            description="How many pairs are measured at a time: one of each arm (`isolated`), or"
            " all that share no node (`together`, which loads the network between all nodes).",
            examples=["together"],
        ),
    ] = "isolated"
    warm_up: Annotated[
        bool,
        Field(
            description="Lets every pair run one short test before the first block. Its results"
            " are kept, marked, and left out of every verdict; pairs that cannot talk are named.",
            examples=[False],
        ),
    ] = True
    compare_with: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=80,
            description="Id of an earlier run of the same stack with the same tests, or the name of"
            " a baseline: its arms are compared with this run's, before and after.",
            examples=["run-20261121-082710-d4cc"],
        ),
    ] = None
    seed: Annotated[
        int | None,
        Field(
            ge=0,
            lt=2**32,
            description="Decides every order and every draw. By default made from the run's id,"
            " and stored with the run.",
            examples=[42],
        ),
    ] = None
    threshold: Annotated[
        float,
        Field(
            gt=0,
            le=1,
            description="Share by which two arms must differ to matter: 0.05 is 5 %.",
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
    dry_run: Annotated[
        bool,
        Field(
            description="Checks and plans everything, estimates time, bytes and dollars, and"
            " measures nothing.",
            examples=[True],
        ),
    ] = False
