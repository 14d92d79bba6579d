"""Results match their published schema exactly."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest
from jsonschema import Draft202012Validator

from rackrate_contract.results import RESULTS
from tests.templates.cloudformation import ROOT
from tests.unit.report import samples

PUBLISHED = json.loads((ROOT / "docs" / "results.schema.json").read_text())
VALIDATOR = Draft202012Validator(PUBLISHED)
#: The published results of an earlier run, and the fields that were added since.
SINCE = {
    *("bandwidth_weighting", "ena_express_use", "gauges", "interfaces", "network_drivers"),
    *(
        "at_least",
        "campaign",
        "capacity_type",
        "causes",
        "cni",
        "dns_nodes",
        "labelled_group_id",
        "labelled_partition",
        "node_pool",
        "intervals",
        "drift",
        "ec2_placement",
        "if_busy",
        "left_out",
        "more_runs",
        "pause_seconds",
    ),
    *("partitions", "prospect", "regression_differences", "selector", "span_seconds", "stack"),
    "replacements",
    "stopped",
    "together",
    "waited_seconds",
    "workloads",
}
SINCE_OF = {
    ("arms", "[]"): {"pairs", "via"},
    ("verdicts", "[]"): {"arm_mean", "baseline_mean"},
    ("verdicts", "[]", "steadiness"): {"ci_simultaneous"},
}
EARLIER = json.loads((ROOT / "tests" / "docs" / "data" / "demo.results.json").read_text())


def results(**changes):
    return samples.results(counters=samples.counters(), **changes).to_json()


def test_the_schema_is_a_schema_of_its_draft_and_of_these_results():
    Draft202012Validator.check_schema(PUBLISHED)
    assert PUBLISHED["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert PUBLISHED["properties"]["schema"]["const"] == RESULTS


def test_results_are_valid_by_the_published_schema():
    VALIDATOR.validate(results())


def test_a_run_of_nothing_is_valid_too():
    nothing = dict.fromkeys(("verdicts", "summaries", "marks", "regressions", "warnings"), ())
    VALIDATOR.validate(samples.results(trials=[], **nothing).to_json())


def objects(value, path=()):
    """All objects of a document, each with its path."""
    if isinstance(value, dict):
        yield path, value
    for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(entry, dict | list):
            yield from objects(entry, (*path, key))


#: Objects whose keys are names of nodes, interfaces, counters or marks.
NAMED = {"bytes_per_node", "gauges", "nodes", "marks"}
PATHS = [path for path, _ in objects(results()) if not NAMED & set(path)]


def at(document, path):
    for step in path:
        document = document[step]
    return document


@pytest.mark.parametrize("path", PATHS, ids=lambda path: ".".join(map(str, path)) or "root")
def test_no_field_may_be_added_unsaid_or_left_out(path):
    changed = deepcopy(results())
    at(changed, path)["surprise"] = 1
    assert not VALIDATOR.is_valid(changed)
    missing = deepcopy(results())
    holder = at(missing, path)
    for name in list(holder):
        value = holder.pop(name)
        assert not VALIDATOR.is_valid(missing), name
        holder[name] = value


def shapes(document):
    """The names of objects' fields by the objects' paths. Items of a list have one path."""
    found = {}
    for path, value in objects(document):
        if not NAMED & set(path):
            place = tuple("[]" if isinstance(step, int) else step for step in path)
            found.setdefault(place, set()).add(frozenset(value))
    return found


def test_results_have_the_fields_that_were_published_and_no_others():
    now = shapes(results())
    for place, names in shapes(EARLIER).items():
        since = SINCE | SINCE_OF.get(place, set())
        assert names <= {each - since for each in now[place]}, place
