"""The fields of a campaign's input: the models that validate it.

`make docs` generates a part of `docs/campaigns/README.md` from them.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from rackrate.plan.fields import JsonSchemaField, LeastMost
from rackrate.tools.base import NAME_PATTERN
from rackrate_contract.document import Document

#: Fewer draws say nothing of the placement group.
LEAST_DRAWS = 4
MAX_DRAWS = 60
MAX_SWEEP_VALUES = 20
MAX_RUNS_PER_STEP = 12
MAX_POOL = 60
MAX_PAUSE_MINUTES = 24 * 60
DEFAULT_BUDGET_DOLLARS = 5.0


class Draws(LeastMost):
    """How many draws a campaign makes. It stops between the two when its answers are settled."""

    field_name = "draws"

    least: Annotated[
        int,
        Field(
            ge=1,
            le=MAX_DRAWS,
            description="The fewest draws. The campaign looks at its answers for the first time"
            f" after them. With fewer than {LEAST_DRAWS} an answer is about these draws, not about"
            " the placement group.",
            examples=[4],
        ),
    ] = LEAST_DRAWS
    most: Annotated[
        int,
        Field(
            ge=1,
            le=MAX_DRAWS,
            description="The most draws, as many as `least` or more.",
            examples=[12],
        ),
    ]

    @model_validator(mode="before")
    @classmethod
    def _has_a_least(cls, value: Any) -> Any:
        """Without the fewest draws they are the usual number, or the most if that is less."""
        if isinstance(value, dict) and isinstance(most := value.get("most"), int):
            return {"least": min(LEAST_DRAWS, most), **value}
        return value


class HuntInput(Document):
    """What a hunt hunts for. At most one of the last four says what is good enough."""

    test: str
    """A test of the plan."""
    metric: str | None = None
    """A metric of it; the default is its primary one."""
    arm: str | None = None
    """The stack's arm whose nodes are drawn; the default is the first that is not the baseline."""
    endpoint: str | None = None
    """What each of its nodes is measured towards, as in arms of a plan: `instance`, or an address
    that the stack allows. The default is that its nodes are measured in pairs."""
    at_most: str | None = None
    """A value with its unit, of a metric of which less is better."""
    at_least: str | None = None
    """A value with its unit, of a metric of which more is better."""
    best_share: Annotated[float | None, Field(ge=0.01, lt=1)] = None
    """Among which share of placements the nodes are to be; 0.1 is the best tenth."""
    dollars_per_percent: Annotated[float | None, Field(gt=0, le=100_000)] = None
    """What 1 % better is worth. The hunt stops when going on gains less than it costs."""


def _draws_tag(value: object) -> str:
    if value is None:
        return "none"
    return "range" if isinstance(value, dict | Draws) else "number"


DrawsField = Annotated[
    Annotated[int, Field(ge=1, le=MAX_DRAWS), Tag("number")]
    | Annotated[Draws, Tag("range")]
    | Annotated[None, Tag("none")],
    Discriminator(_draws_tag),
]


class CampaignInput(Document):
    """What a campaign does. Every field has a default, so `{}` is a good campaign."""

    model_config = ConfigDict(validate_by_name=False, validate_by_alias=True)

    # The plan, the values of `sweep` and the entries of `pool` are read one by one, for better
    # messages.

    plan: Annotated[
        dict[str, Any],
        Field(
            description="The plan of every run, as `rackrate run` takes it, without `dry_run`.",
            examples=[{"tests": ["tcp-1", "rtt"]}],
        ),
    ] = {}  # noqa: RUF012 (pydantic copies it)
    draws: Annotated[
        DrawsField,
        Field(
            description="How many draws to make. Before each run the nodes of all arms are"
            " replaced, so that their placement is drawn anew. With `least` and `most` the campaign"
            " looks at its answers after fixed numbers of draws, and stops when all are settled or"
            " more draws would hardly settle another. A number asks for exactly that many. Without"
            ' `sweep` and `pool` the default is `{"least": 4, "most": 12}`.',
            examples=[{"least": 4, "most": 12}, 6],
        ),
    ] = None
    pause_minutes: Annotated[
        int,
        Field(
            ge=0,
            le=MAX_PAUSE_MINUTES,
            description="How long a campaign waits after each draw before it makes the next."
            " Its answers hold for the time of its draws; pauses make that time longer. The nodes"
            " stay up, and cost, meanwhile.",
            examples=[120],
        ),
    ] = 0
    sweep: Annotated[
        dict[str, list[Any]] | None,
        Field(
            description="What to change from step to step, and its values.",
            examples=[{"vpc_cni": ["v1.14.1-eksbuild.1", "v1.15.4-eksbuild.1"]}],
        ),
    ] = None
    runs_per_step: Annotated[
        int,
        Field(
            ge=1,
            le=MAX_RUNS_PER_STEP,
            description="Runs with each value of a sweep. With one run nobody knows how much runs"
            " of the same value differ, so that no value gets a verdict. The values are gone"
            " through forth and back, so that a steady drift cancels.",
            examples=[2],
        ),
    ] = 2
    hunt: Annotated[
        HuntInput | None,
        Field(
            description="Draw new nodes of one arm until the present ones are good enough, and"
            " leave them. The runs measure that arm alone. Without a goal the hunt stops where the"
            " expected rank among its `draws` is best.",
            examples=[{"test": "rtt", "at_most": "90 us"}],
        ),
    ] = None
    pool: Annotated[
        list[Any] | None,
        Field(
            min_length=1,
            max_length=MAX_POOL,
            description="Earlier runs as the draws. Give ids of runs and names of baselines of this"
            " stack, and results of other stacks that were uploaded to its bucket. Nothing is"
            " measured.",
            examples=[["run-20261121-082710-d4cc", {"results": "pools/p1/1.json"}]],
        ),
    ] = None
    series: Annotated[
        str | None,
        Field(
            pattern=NAME_PATTERN,
            max_length=60,
            description="A name to which the draws are added. The answers are then over all draws"
            " of that name, and the newest draw is tested against those before it.",
            examples=["nightly"],
        ),
    ] = None
    skip_if_running: Annotated[bool, Field(examples=[True])] = False
    """Whether to make nothing while an earlier campaign of the same series, or also of none, is
    going on. The stack's schedule asks for it."""
    budget_dollars: Annotated[
        float,
        Field(
            gt=0,
            le=100_000,
            description="What the campaign may cost. It makes no step that the estimate says would"
            " exceed it.",
            examples=[5],
        ),
    ] = DEFAULT_BUDGET_DOLLARS
    continues: Annotated[
        str | None,
        Field(
            alias="continue",
            min_length=1,
            max_length=80,
            description="The id of a campaign of this stack that has ended. Its input is taken over"
            " and its finished steps count; only `budget_dollars` and `draws` may differ.",
            examples=["campaign-20261121-082710-d4cc"],
        ),
    ] = None
    seed: Annotated[
        int | None,
        Field(
            ge=0,
            lt=2**32,
            description="Seed of the runs' seeds. By default derived from the campaign's id.",
            examples=[42],
        ),
    ] = None
    dry_run: Annotated[
        bool,
        Field(
            description="Whether to stop after the plan. A dry run checks everything, estimates"
            " time and dollars, tells how many draws may be needed, and changes nothing.",
            examples=[True],
        ),
    ] = False
    json_schema: JsonSchemaField = None
