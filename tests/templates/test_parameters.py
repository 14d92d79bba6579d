"""The reference of parameters, rendered from sample templates. tests/docs keep it current."""

from __future__ import annotations

from scripts import parameters


def test_a_parameter_in_no_group_comes_last_as_in_the_console():
    template = {
        "Metadata": {
            "AWS::CloudFormation::Interface": {
                "ParameterGroups": [{"Label": {"default": "First"}, "Parameters": ["B"]}]
            }
        },
        "Parameters": {"A": {"Type": "String"}, "B": {"Type": "String"}},
    }
    assert list(parameters.groups(template)) == [("First", ["B"]), ("Other parameters", ["A"])]


def test_a_pattern_is_written_as_it_is():
    parameter = {"Type": "String", "AllowedPattern": "a|b", "Default": "a"}
    template = {"Parameters": {"A": parameter}}
    rendered = parameters.render(template, template, {"A": []})
    assert "Pattern: `a|b`" in rendered


def test_a_change_on_a_stack_that_exists_is_told_with_what_happens():
    change = {"outcome": "refused", "effect": "It cannot be taken back."}
    silent = {"outcome": "kept", "effect": ""}
    template = {"Parameters": {"A": {"Type": "String"}}}
    rendered = parameters.render(template, template, {"A": [change, silent]})
    assert "- On an existing stack (refused): It cannot be taken back." in rendered
    assert rendered.count("On an existing stack") == 1


def test_a_parameter_of_the_second_template_is_repeated_only_where_it_differs():
    own = {"Parameters": {name: {"Type": "String"} for name in "AB"}}
    existing = {"Parameters": {**own["Parameters"], "B": {"Type": "Number"}, "C": {"Type": "List"}}}
    rendered = parameters.render(own, existing, {"A": [], "B": [], "C": []})
    titles = [line for line in rendered.splitlines() if line.startswith("### ")]
    assert titles == ["### `A`", "### `B`", "### `B` in a cluster that exists", "### `C`"]


def test_every_parameter_says_what_its_change_does_and_no_other_does():
    templates = map(parameters.load, (parameters.OWN_CLUSTER, parameters.EXISTING_CLUSTER))
    names = {name for template in templates for name in template["Parameters"]}
    assert set(parameters.load_updates()) == names
    for changes in parameters.load_updates().values():
        assert any(change["effect"] for change in changes)
        assert {change["outcome"] for change in changes} <= {"kept", "nodes", "replaced", "refused"}
