"""The reference of the parameters says what the template says."""

from __future__ import annotations

import pytest

from scripts import parameters

TEMPLATE = parameters.load()


def test_the_reference_is_not_stale():
    assert parameters.REFERENCE.read_text() == parameters.render(TEMPLATE), "run `make docs`"


def test_a_change_of_the_template_makes_the_reference_stale():
    changed = {name: dict(value) for name, value in TEMPLATE["Parameters"].items()}
    changed["NodeCount"]["MaxValue"] = 451
    assert parameters.render({**TEMPLATE, "Parameters": changed}) != parameters.render(TEMPLATE)


@pytest.mark.parametrize("name", TEMPLATE["Parameters"])
def test_every_parameter_is_in_the_reference_with_its_default(name):
    (row,) = [
        line
        for line in parameters.render(TEMPLATE).splitlines()
        if line.startswith(f"| `{name}` |")
    ]
    default = TEMPLATE["Parameters"][name]["Default"]
    assert (f"| `{default}` |" if default != "" else "| empty |") in row


def test_groups_and_form_stand_in_the_order_of_the_interface():
    interface = TEMPLATE["Metadata"]["AWS::CloudFormation::Interface"]
    titles = [group["Label"]["default"] for group in interface["ParameterGroups"]]
    assert [title for title, _ in parameters.groups(TEMPLATE)] == titles
    form = "\n".join(parameters.form(TEMPLATE))
    places = [form.index(f"**{title}**") for title in titles]
    assert places == sorted(places)
    names = [name for group in interface["ParameterGroups"] for name in group["Parameters"]]
    places = [form.index(f"(`{name}`)") for name in names]
    assert places == sorted(places)


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


def test_every_assertion_of_the_rules_is_quoted():
    text = parameters.render(TEMPLATE)
    for rule in TEMPLATE["Rules"].values():
        for assertion in rule["Assertions"]:
            assert " ".join(assertion["AssertDescription"].split()) in text


def test_a_bar_in_a_pattern_does_not_end_its_cell():
    parameter = {"Type": "String", "AllowedPattern": "a|b", "Default": "a"}
    rendered = parameters.render({"Parameters": {"A": parameter}})
    assert "pattern `a\\|b`" in rendered


def test_a_condition_without_words_is_an_error():
    rule = {"RuleCondition": {"Fn::Unheard": []}, "Assertions": [{"AssertDescription": "x"}]}
    with pytest.raises(ValueError, match="Fn::Unheard"):
        parameters.render({"Parameters": {}, "Rules": {"R": rule}})
