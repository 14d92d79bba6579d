"""Rules about exports, ARNs and parameters."""

from __future__ import annotations

import pytest

from lint.rules import stacks as rules
from lint.rules.parameters import DescribedParameters


def resource(kind: str, properties: str) -> str:
    return f"""
    Resources:
      Mine:
        Type: {kind}
        Properties: {{{properties}}}
    """


def test_an_export_is_refused_and_an_output_taken(findings):
    text = "Outputs:\n  Name: {Value: x, %s}\n"
    (found,) = findings(rules.NoExports, text % "Export: {Name: y}")
    assert "Outputs/Name/Export: Export ties other stacks to Name; remove it" in found
    assert findings(rules.NoExports, text % "Description: y") == []


@pytest.mark.parametrize(
    "value", ["arn:aws:s3:::x", "!Sub 'arn:aws-cn:iam::${AWS::AccountId}:x'", "[a, 'arn:aws:x']"]
)
def test_a_partition_written_out_is_refused(findings, value):
    (found,) = findings(rules.NoLiteralPartition, resource("AWS::IAM::Role", f"Path: {value}"))
    assert "has its partition written out; use !Sub arn:${AWS::Partition}" in found


def test_a_partition_written_out_is_found_in_a_template_with_the_serverless_transform(findings):
    text = "Transform: AWS::Serverless-2016-10-31" + resource(
        "AWS::Serverless::Function", "Role: arn:aws:iam::123456789012:role/x"
    ).replace("\n    ", "\n")
    assert len(findings(rules.NoLiteralPartition, text)) == 1


def test_the_partition_of_the_region_is_taken(findings):
    text = resource("AWS::IAM::Role", "Path: !Sub 'arn:${AWS::Partition}:s3:::aws-x'")
    assert findings(rules.NoLiteralPartition, text) == []


FORM = """
Metadata: {AWS::CloudFormation::Interface: {ParameterGroups: []}}
Parameters:
  First:
    Type: String
    Description: The first.
    AllowedValues: [a]
"""


def test_a_parameter_without_description_is_refused(findings):
    (found,) = findings(DescribedParameters, "Parameters: {Mine: {Type: String}}")
    assert "Parameters/Mine: Description of Mine is missing" in found


def test_a_parameter_of_a_nested_template_needs_only_a_description(findings):
    text = "Parameters: {Mine: {Type: String, Description: Mine.}}"
    assert findings(DescribedParameters, text) == []


@pytest.mark.parametrize("kind", ["String", "Number", "CommaDelimitedList"])
def test_a_parameter_of_a_form_that_takes_anything_is_refused(findings, kind):
    text = f"{FORM}  Mine:\n    Type: {kind}\n    Description: Mine.\n"
    (found,) = findings(DescribedParameters, text)
    assert "Mine takes anything; add AllowedValues, AllowedPattern or bounds" in found


@pytest.mark.parametrize(
    "constraint",
    [
        "Type: AWS::EC2::VPC::Id",
        "Type: List<AWS::EC2::Subnet::Id>",
        "Type: Number\n    MinValue: 2",
        "Type: String\n    AllowedPattern: a\n    ConstraintDescription: must be a.",
        "# Any text will do: it is a label.\n    Type: String",
    ],
)
def test_a_parameter_of_a_form_with_a_constraint_or_a_reason_is_taken(findings, constraint):
    text = f"{FORM}  Mine:\n    Description: Mine.\n    {constraint}\n"
    assert findings(DescribedParameters, text) == []


def test_a_pattern_that_nobody_explains_is_refused(findings):
    text = f"{FORM}  Mine:\n    Description: Mine.\n    Type: String\n    AllowedPattern: a\n"
    (found,) = findings(DescribedParameters, text)
    assert "AllowedPattern of Mine" in found
    assert "add a ConstraintDescription" in found
