"""CloudFormation's handling of parameters, rules, functions and limits."""

from __future__ import annotations

import base64
import textwrap

import pytest
from botocore.exceptions import ClientError

from lab.tests.aws.region import Lab, parameter_list

LOG = "Resources: {Log: {Type: AWS::Logs::LogGroup}}\n"


def refusal(lab: Lab, template: str, **parameters: str) -> str:
    """The reason for which CreateStack refuses the template."""
    with pytest.raises(ClientError) as caught:
        lab.client("cloudformation").create_stack(
            StackName="refused",
            TemplateBody=textwrap.dedent(template),
            Parameters=parameter_list(parameters),
        )
    assert caught.value.response["Error"]["Code"] == "ValidationError"
    return str(caught.value.response["Error"]["Message"])


@pytest.mark.parametrize(
    ("declared", "value", "message"),
    [
        ("Type: String, AllowedPattern: '[a-z]+'", "A1", "must match pattern [a-z]+"),
        ("Type: String, AllowedValues: [a, b]", "c", "must be one of AllowedValues"),
        ("Type: String, MinLength: 3", "ab", "must contain at least 3 characters"),
        ("Type: String, MaxLength: 3", "abcd", "must contain at most 3 characters"),
        ("Type: Number", "many", "must be a number"),
        ("Type: Number, MaxValue: 7", "8", "must be a number not greater than 7"),
        ("Type: Number, AllowedPattern: '[0-9]+'", "1.5", "must match pattern [0-9]+"),
        ("Type: CommaDelimitedList, AllowedPattern: '[a-z]+'", "a,B", "must match pattern [a-z]+"),
        ("Type: CommaDelimitedList, AllowedValues: [a, b]", "a,c", "must be one of AllowedValues"),
        (
            "Type: CommaDelimitedList, AllowedPattern: '[a-z]+', ConstraintDescription: small",
            "a,B",
            "failed to satisfy constraint: small",
        ),
        (
            "Type: Number, MinValue: 2, ConstraintDescription: two or more nodes",
            "1",
            "failed to satisfy constraint: two or more nodes",
        ),
        ("Type: String", "x" * 4097, "must contain at most 4096 characters"),
    ],
)
def test_a_value_that_breaks_its_constraint_is_refused_in_cloudformations_words(
    lab: Lab, declared: str, value: str, message: str
) -> None:
    assert refusal(lab, f"Parameters: {{P: {{{declared}}}}}\n{LOG}", P=value) == (
        f"Parameter 'P' {message}"
    )


RULE = """
Parameters:
  Mode: {Type: String, Default: a}
  Names: {Type: CommaDelimitedList, Default: "a,b"}
Rules:
  Checked:
    RuleCondition: !Equals [!Ref Mode, a]
    Assertions: [{Assert: ASSERT, AssertDescription: said so}]
"""


@pytest.mark.parametrize(
    ("assertion", "holds"),
    [
        ("!Equals [!Ref Mode, a]", True),
        ("!Not [!Equals [!Ref Mode, a]]", False),
        ("!And [!Equals [!Ref Mode, a], !Equals [!Ref Mode, b]]", False),
        ("!Or [!Equals [!Ref Mode, b], !Equals [!Ref Mode, a]]", True),
        ("!Contains [[a, c], !Ref Mode]", True),
        ("!Contains [!Ref Names, c]", False),
        ("!Equals [!Ref 'AWS::Region', us-east-1]", True),
    ],
)
def test_rules_evaluate_what_they_assert(lab: Lab, assertion: str, holds: bool) -> None:
    template = RULE.replace("ASSERT", assertion) + LOG
    if holds:
        lab.created(template)
    else:
        expected = "Template validation error: Assertion failed: Rule Checked: said so"
        assert refusal(lab, template) == expected
    lab.created(template, {"Mode": "other"})


def test_rules_have_none_of_the_templates_other_functions(lab: Lab) -> None:
    """CloudFormation refuses other functions in rules, so the lab must too."""
    for expression in ("!Equals [!Select [0, !Ref Names], a]", "!Condition X"):
        message = refusal(lab, RULE.replace("ASSERT", expression) + LOG)
        assert "cannot be used in a rule" in message


def test_functions_over_lists_maps_and_pseudo_parameters(lab: Lab) -> None:
    values = lab.created(
        """
        Parameters:
          Names: {Type: CommaDelimitedList, Default: "a, b,c"}
          Block: {Type: String, Default: 10.0.0.0/16}
        Mappings:
          Regions: {us-east-1: {Short: ue1, Zones: [x, y]}}
          Accounts: {"123456789012": {Name: lab}}
        Resources: {Log: {Type: AWS::Logs::LogGroup}}
        Outputs:
          Joined: {Value: !Join ["+", !Ref Names]}
          Mapped: {Value: !FindInMap [Regions, !Ref "AWS::Region", Short]}
          Account: {Value: !FindInMap [Accounts, !Ref "AWS::AccountId", Name]}
          FromList: {Value: !Select [1, !FindInMap [Regions, !Ref "AWS::Region", Zones]]}
          Split: {Value: !Select [2, !Split ["/", !Sub "x/y/${AWS::Partition}"]]}
          Encoded: {Value: {"Fn::Base64": !Sub "${Block}!"}}
          Cidr: {Value: !Select [3, !Cidr [!Ref Block, 4, "14"]]}
          JoinedSplit: {Value: !Join [",", !Split ["|", "p|q"]]}
        """,
    )
    del values["StackId"], values["StackName"]
    assert values == {
        "Joined": "a+b+c",
        "Mapped": "ue1",
        "Account": "lab",
        "FromList": "y",
        "Split": "aws",
        "Encoded": base64.b64encode(b"10.0.0.0/16!").decode(),
        "Cidr": "10.0.192.0/18",
        "JoinedSplit": "p,q",
    }


def test_templates_beyond_cloudformations_limits_are_refused(lab: Lab) -> None:
    def many(section: str, count: int, item: str) -> str:
        return f"{section}:\n" + "".join(f"  X{n}: {item}\n" for n in range(count))

    parameter, group = "{Type: String, Default: a}", "{Type: AWS::Logs::LogGroup}"
    assert "Number of parameters, 201, is greater than maximum allowed, 200" in refusal(
        lab, many("Parameters", 201, parameter) + LOG
    )
    assert "Number of resources, 501, is greater than maximum allowed, 500" in refusal(
        lab, many("Resources", 501, group)
    )
    assert "less than or equal to 51200" in refusal(lab, LOG + "#" * 51_200)
    bucket = lab.bucket()
    for size, key in ((60_000, "fits"), (1_000_001, "large")):
        lab.client("s3").put_object(Bucket=bucket, Key=key, Body=LOG + "#" * (size - len(LOG)))
    url = f"{lab.region.endpoint_url}/{bucket}"
    cloudformation = lab.client("cloudformation")
    cloudformation.get_template_summary(TemplateURL=f"{url}/fits")
    with pytest.raises(ClientError, match="may not exceed 1000000 bytes"):
        cloudformation.get_template_summary(TemplateURL=f"{url}/large")
