"""Results match their published schema exactly."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest
from jsonschema import Draft202012Validator

from rackrate_contract.results import RESULTS
from tests import ROOT
from tests.unit.report import samples

PUBLISHED = json.loads((ROOT / "docs" / "results.schema.json").read_text())
VALIDATOR = Draft202012Validator(PUBLISHED)


DOCUMENT = samples.results(counters=samples.counters()).to_json()


def test_the_schema_is_a_schema_of_its_draft_and_of_these_results():
    Draft202012Validator.check_schema(PUBLISHED)
    assert PUBLISHED["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert PUBLISHED["properties"]["schema"]["const"] == RESULTS


def test_results_are_valid_by_the_published_schema():
    VALIDATOR.validate(DOCUMENT)


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
PATHS = [path for path, _ in objects(DOCUMENT) if not NAMED & set(path)]


def at(document, path):
    for step in path:
        document = document[step]
    return document


@pytest.mark.parametrize("path", PATHS, ids=lambda path: ".".join(map(str, path)) or "root")
def test_no_field_may_be_added_unsaid_or_left_out(path):
    document = deepcopy(DOCUMENT)
    holder = at(document, path)
    for name in list(holder):
        value = holder.pop(name)
        assert not VALIDATOR.is_valid(document), name
        holder[name] = value
    holder["surprise"] = 1
    assert not VALIDATOR.is_valid(document)
