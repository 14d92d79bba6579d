"""The reference of parameters, rendered from sample templates. tests/docs keep it current."""

from __future__ import annotations

import pytest

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
    rendered = parameters.render({"Parameters": {"A": parameter}}, {"A": []})
    assert "Pattern: `a|b`" in rendered


def test_a_change_on_a_stack_that_exists_is_told_with_what_happens():
    change = {"outcome": "refused", "effect": "It cannot be taken back."}
    silent = {"outcome": "kept", "effect": ""}
    rendered = parameters.render({"Parameters": {"A": {"Type": "String"}}}, {"A": [change, silent]})
    assert "- On an existing stack (refused): It cannot be taken back." in rendered
    assert rendered.count("On an existing stack") == 1


def test_every_parameter_says_what_its_change_does_and_no_other_does():
    assert set(parameters.load_updates()) == set(parameters.load()["Parameters"])
    for changes in parameters.load_updates().values():
        assert any(change["effect"] for change in changes)
        assert {change["outcome"] for change in changes} <= {"kept", "nodes", "replaced", "refused"}


def test_a_condition_without_words_is_an_error():
    rule = {"RuleCondition": {"Fn::Unheard": []}, "Assertions": [{"AssertDescription": "x"}]}
    with pytest.raises(ValueError, match="Fn::Unheard"):
        parameters.render({"Parameters": {}, "Rules": {"R": rule}}, {})
