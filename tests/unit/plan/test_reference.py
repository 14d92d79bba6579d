"""docs/plan.schema.json and docs/plan.md: generated from the models of plans, and current."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rackrate import registry
from rackrate.errors import InvalidPlan
from rackrate.plan.arms import ArmChoice
from rackrate.plan.check import check_plan
from rackrate.plan.faults import names_of_fields
from rackrate.plan.fields import PlanInput
from rackrate.plan.model import CATALOGUE
from scripts import plan_reference
from tests import ROOT
from tests.unit.samples import ARMS, ENDPOINTS, HOST_SETTINGS

PLANS = sorted((ROOT / "docs" / "plans").glob("*.json"))
#: Ready nodes in each arm: the minimum, or the largest tier in docs/plans/README.md.
NODES = dict.fromkeys((arm.name for arm in ARMS), 2)
TIERS = {"e4-mesh": 60, "e4-ring": 501}
#: Plans that need more: nodes in each arm, and load nodes.
LARGER = {"etcd": (3, 1), "cassandra": (3, 1)}

SCHEMA = plan_reference.schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def is_taken(raw, nodes=NODES, load_nodes=0):
    try:
        check_plan(
            raw,
            replace(HOST_SETTINGS, endpoints=ENDPOINTS),
            nodes=nodes,
            run_id="r",
            load_nodes=load_nodes,
        )
    except InvalidPlan:
        return False
    return True


def test_the_schema_is_a_schema_of_its_draft():
    VALIDATOR.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("tool", registry.names())
def test_every_tool_is_a_branch_that_its_name_selects(tool):
    assert {"$ref": f"#/$defs/{tool}"} in SCHEMA["properties"]["tests"]["items"]["oneOf"]
    assert SCHEMA["$defs"][tool]["properties"]["tool"]["const"] == tool
    assert set(SCHEMA["$defs"][tool]["properties"]) == set(registry.test_class(tool).model_fields)


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_every_plan_that_is_documented_is_valid(path):
    raw = json.loads(path.read_text())
    VALIDATOR.validate(raw)
    # As docs/plans/README.md says.
    fewest, load_nodes = LARGER.get(path.stem, (2, 0))
    assert is_taken(raw, dict.fromkeys(NODES, fewest), load_nodes)
    most = TIERS.get(path.stem, fewest)
    assert is_taken(raw, dict.fromkeys(NODES, most), load_nodes)
    assert f"`{path.name}`" in (path.parent / "README.md").read_text()


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_an_arm_beside_one_with_a_name_of_its_own_has_one_too(path):
    """Beside `host-to-host` the stack's name, `baseline`, would not say what differs."""
    arms = json.loads(path.read_text()).get("arms", ())
    assert len({type(arm) for arm in arms}) <= 1


def test_every_example_is_valid_where_it_stands():
    for name, field in SCHEMA["properties"].items():
        for value in field.get("examples", ()):
            VALIDATOR.validate({name: value})
            assert is_taken({name: value}, dict.fromkeys(NODES, 4)), name


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_test_of_the_catalogue_needs_no_tool_and_any_other_does(name):
    VALIDATOR.validate({"tests": [name, {"name": f"my-{name}", **CATALOGUE[name]}]})
    VALIDATOR.validate({"tests": [{"name": name}]})
    assert not VALIDATOR.is_valid({"tests": [{"name": f"my-{name}"}]})


@pytest.mark.parametrize(
    "raw",
    [
        {"arms": None},
        {"arms": []},
        {"arms": ["baseline", {"name": "x"}]},
        {"blocks": 6.5},
        {"blocks": True},
        {"pairing": {"random": 0}},
        {"tests": []},
        {"tests": ["tcp-9"]},
        {"tests": [{"name": "x", "tool": "no-such-tool"}]},
        {"tests": [{"name": "x", "tool": "ping", "streams": 1}]},
        {"threshold": 0},
        {"speed": 1},
        [],
    ],
    ids=str,
)
def test_the_schema_refuses_what_can_be_seen_without_the_stack(raw):
    assert not VALIDATOR.is_valid(raw)
    assert not is_taken(raw)


# Values that are valid for some field, and some that are valid for none.
scalars = (
    st.sampled_from(
        [
            *("treatment", "baseline", "other", "tcp-1", "rtt", "latency", "udp-1", "x", "X Y"),
            *("iperf3", "iperf", "ping", "sockperf", "pod", "host", "one", "ring", "mesh", "both"),
            *("tcp", "udp", "under-load", "together", "isolated", ""),
        ]
    )
    | st.sampled_from([0, 1, 2, 30, 100, 1000, 10**6, -1, 0.2, 0.5, 1.0, 2.5, 6.0])
    | st.booleans()
    | st.none()
)


def as_floats(value):
    """The same JSON value with every whole number written with a fraction of zero."""
    match value:
        case dict():
            return {name: as_floats(each) for name, each in value.items()}
        case list():
            return [as_floats(each) for each in value]
        case int() if not isinstance(value, bool):
            return float(value)
    return value


def objects(names):
    return st.dictionaries(st.sampled_from(sorted(names)), scalars, max_size=5)


test_fields = {name for tool in registry.names() for name in registry.test_class(tool).model_fields}
arm_entries = scalars | objects(ArmChoice.model_fields)
test_entries = scalars | objects({*test_fields, "colour"})
wild_plans = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(names_of_fields(PlanInput), scalars),
        "arms": st.lists(arm_entries, max_size=3) | scalars,
        "tests": st.lists(test_entries, max_size=3) | scalars,
        "pairing": scalars | objects({"random", "seed"}),
        "speed": scalars,
    },
)
# Plans with only one field are often valid, so that both answers occur.
simple_plans = st.one_of(
    *(st.fixed_dictionaries({name: scalars}) for name in names_of_fields(PlanInput)),
    st.fixed_dictionaries({"tests": st.lists(test_entries, min_size=1, max_size=1)}),
    st.fixed_dictionaries({"arms": st.tuples(st.just("baseline"), arm_entries).map(list)}),
)


@settings(max_examples=200)
@given(wild_plans | simple_plans)
@example({"blocks": 6.0, "seed": 42.0})
@example({"$schema": 5})
@example({"tests": [{"name": "tcp-1", "tool": "ping"}]})
def test_what_the_schema_refuses_the_stack_refuses_too(raw):
    if not VALIDATOR.is_valid(raw):
        assert not is_taken(raw)


@st.composite
def tool_tests(draw):
    """Options of a tool, each within the bounds of the tool's model."""
    tool = draw(st.sampled_from(registry.names()))
    fields = SCHEMA["$defs"][tool]["properties"]
    chosen = draw(st.sets(st.sampled_from(sorted(set(fields) - {"name", "tool"})), max_size=3))
    values = {}
    for name in sorted(chosen):
        kinds = fields[name].get("anyOf", [fields[name]])
        kind = draw(st.sampled_from(kinds))
        match kind.get("type"):
            case "integer" if "minimum" in kind:
                values[name] = draw(st.integers(kind["minimum"], kind["maximum"]))
            case "number":
                values[name] = draw(st.floats(kind["minimum"], kind["maximum"]))
            case "boolean":
                values[name] = draw(st.booleans())
            case "null":
                values[name] = None
            case "array":
                each = st.sampled_from(kind["items"].get("enum") or kind["items"]["examples"])
                least, most = kind.get("minItems", 0), kind["maxItems"]
                values[name] = draw(st.lists(each, min_size=least, max_size=most, unique=True))
            case None:  # another definition
                values[name] = {"storage_class": "gp3", "gib": draw(st.integers(1, 16_384))}
            case _:
                values[name] = draw(st.sampled_from(kind.get("enum") or kind["examples"]))
    return {"name": "x", "tool": tool, **values}


@settings(max_examples=100)
@given(tool_tests())
def test_what_the_stack_takes_the_schema_takes_and_its_warm_up_can_be_read_again(test):
    VALIDATOR.validate({"tests": [test]})
    try:
        (checked,) = check_plan(
            {"tests": [test], "blocks": 1}, HOST_SETTINGS, nodes=NODES, run_id="r"
        ).tests
    except InvalidPlan as invalid:
        assert {fault.path.split(".")[0] for fault in invalid.faults} <= {"tests[0]", "blocks"}
        return
    warm_up = checked.warm_up()
    assert registry.load_test(warm_up.model_dump()) == warm_up
    assert warm_up.expected_seconds <= 2.5


def test_the_schemas_name_may_stand_in_the_plan():
    raw = {"$schema": "./plan.schema.json", "blocks": 6}
    VALIDATOR.validate(raw)
    assert is_taken(raw)


@settings(max_examples=100)
@given(wild_plans | simple_plans | tool_tests().map(lambda test: {"tests": [test]}))
@example({"blocks": {"least": 6, "most": 8}, "pairing": {"random": 1}, "seed": 42})
@example({"tests": [{"name": "tcp-1", "streams": 2, "seconds": 3}]})
def test_how_a_whole_number_is_written_changes_neither_answer(raw):
    written = as_floats(raw)
    assert VALIDATOR.is_valid(written) == VALIDATOR.is_valid(raw)
    assert is_taken(written) == is_taken(raw)


@settings(max_examples=100)
@given(simple_plans)
def test_one_field_is_valid_for_both_or_for_neither(raw):
    """What the schema cannot know is left out: the stack's arms, and options that conflict."""
    if {"arms", "baseline", "tests", "compare_with", "campaign"} & raw.keys():
        return
    assert VALIDATOR.is_valid(raw) == is_taken(raw)
