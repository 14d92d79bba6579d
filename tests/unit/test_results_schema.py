"""The reference of results is made of what checks and writes them, and is never stale."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest
from jsonschema import Draft202012Validator

from rackrate.report import models
from rackrate.report.results import SCHEMA, build_results
from scripts import results_reference
from tests.templates.cloudformation import ROOT
from tests.unit import report_samples as samples

PUBLISHED = json.loads((ROOT / "docs" / "results.schema.json").read_text())
VALIDATOR = Draft202012Validator(PUBLISHED)


def results(**changes):
    return build_results(
        run=samples.run(),
        failure=None,
        stored_plan=samples.stored_plan(),
        trials=samples.trials(),
        analysis=samples.analysis(**changes),
        counters=samples.counters(),
        written_at="2026-11-21T08:01:30Z",
    )


@pytest.mark.parametrize("path", results_reference.documents(), ids=lambda path: path.name)
def test_the_reference_is_what_the_models_and_the_columns_say_now(path):
    assert path.read_text() == results_reference.documents()[path], "make docs"


def test_the_schema_is_a_schema_of_its_draft_and_of_these_results():
    Draft202012Validator.check_schema(PUBLISHED)
    assert PUBLISHED["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert PUBLISHED["properties"]["schema"]["const"] == SCHEMA


def test_results_are_valid_by_the_published_schema_and_by_the_models():
    VALIDATOR.validate(results())
    assert models.faults(results()) == []


def test_a_run_of_nothing_is_valid_too():
    nothing = {"verdicts": [], "summaries": [], "marks": [], "regressions": [], "warnings": []}
    found = results(**nothing, method=None) | {"counters": None}
    VALIDATOR.validate(found)
    assert models.faults(found) == []


def objects(value, path=()):
    """Every object of a document that has fields of fixed names."""
    if isinstance(value, dict):
        yield path, value
    for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(entry, dict | list):
            yield from objects(entry, (*path, key))


#: Objects that are keyed by names of nodes, interfaces, counters or marks.
NAMED = {"bytes_per_node", "nodes", "marks"}
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
    assert models.faults(changed)
    missing = deepcopy(results())
    holder = at(missing, path)
    for name in list(holder):
        value = holder.pop(name)
        assert not VALIDATOR.is_valid(missing), name
        holder[name] = value


def test_a_fault_names_its_place():
    found = results()
    found["verdicts"][0]["blocks"] = "six"
    (fault,) = models.faults(found)
    assert fault == "verdicts.0.blocks: Input should be a valid integer"


def test_many_faults_are_counted():
    found = results()
    for verdict in found["verdicts"]:
        for name in ("test", "metric", "unit", "arm", "claim"):
            verdict[name] = 1
    assert models.faults(found)[-1] == "and 5 more"
