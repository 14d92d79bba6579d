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
    rendered = parameters.render({"Parameters": {"A": parameter}})
    assert "Pattern: `a|b`" in rendered


def test_a_condition_without_words_is_an_error():
    rule = {"RuleCondition": {"Fn::Unheard": []}, "Assertions": [{"AssertDescription": "x"}]}
    with pytest.raises(ValueError, match="Fn::Unheard"):
        parameters.render({"Parameters": {}, "Rules": {"R": rule}})
