"""What CloudFormation makes of parameters, rules, functions, limits and tags."""

from __future__ import annotations

import base64
import datetime
import json
import textwrap
from typing import Any

import pytest
from botocore.exceptions import ClientError

from .conftest import Lab, eventually

LOG = "Resources: {Log: {Type: AWS::Logs::LogGroup}}\n"


def accepted(lab: Lab, template: str, **parameters: str) -> dict[str, str]:
    """The outputs of a stack that must succeed."""
    stack = lab.stack(
        template,
        Parameters=[{"ParameterKey": k, "ParameterValue": v} for k, v in parameters.items()],
    )
    assert stack["StackStatus"] == "CREATE_COMPLETE", lab.reasons(stack["StackId"])
    return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}


def refusal(lab: Lab, template: str, **parameters: str) -> str:
    """Why CreateStack refuses the template at once."""
    with pytest.raises(ClientError) as caught:
        lab.client("cloudformation").create_stack(
            StackName="refused",
            TemplateBody=textwrap.dedent(template),
            Parameters=[{"ParameterKey": k, "ParameterValue": v} for k, v in parameters.items()],
        )
    assert caught.value.response["Error"]["Code"] == "ValidationError"
    return str(caught.value.response["Error"]["Message"])


@pytest.mark.parametrize(
    ("declared", "given", "message"),
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
    lab: Lab, declared: str, given: str, message: str
) -> None:
    assert refusal(lab, f"Parameters: {{P: {{{declared}}}}}\n{LOG}", P=given) == (
        f"Parameter 'P' {message}"
    )


RULE = """
Parameters:
  Mode: {Type: String, Default: a}
  Names: {Type: CommaDelimitedList, Default: "a,b"}
  Others: {Type: CommaDelimitedList, Default: "a,a"}
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
        ("!EachMemberEquals [!Ref Others, a]", True),
        ("!EachMemberEquals [!Ref Names, a]", False),
        ("!EachMemberIn [!Ref Names, [a, b, c]]", True),
        ("!EachMemberIn [!Ref Names, [a]]", False),
        ("!EachMemberEquals [{Fn::RefAll: String}, a]", True),
        ("!Equals [!Ref 'AWS::Region', us-east-1]", True),
    ],
)
def test_rules_evaluate_every_function_that_rules_have(
    lab: Lab, assertion: str, holds: bool
) -> None:
    template = RULE.replace("ASSERT", assertion) + LOG
    if holds:
        accepted(lab, template)
    else:
        expected = "Template validation error: Assertion failed: Rule Checked: said so"
        assert refusal(lab, template) == expected
    accepted(lab, template, Mode="other")


def test_rules_compare_attributes_of_what_parameters_name(lab: Lab) -> None:
    ec2 = lab.client("ec2")
    vpcs = [ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"] for _ in range(2)]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.9.{n}.0/24")["Subnet"]["SubnetId"]
        for n, vpc in enumerate([vpcs[0], vpcs[0], vpcs[1]])
    ]
    template = """
        Parameters:
          Vpc: {Type: AWS::EC2::VPC::Id}
          Subnets: {Type: "List<AWS::EC2::Subnet::Id>"}
        Rules:
          OneVpc:
            Assertions:
              - Assert: !EachMemberIn
                  - !ValueOfAll [AWS::EC2::Subnet::Id, VpcId]
                  - !RefAll AWS::EC2::VPC::Id
                AssertDescription: the subnets lie in the VPC
              - Assert: !EachMemberEquals [!ValueOf [Subnets, VpcId], !Ref Vpc]
        Resources: {Log: {Type: AWS::Logs::LogGroup}}
    """
    accepted(lab, template, Vpc=vpcs[0], Subnets=f"{subnets[0]},{subnets[1]}")
    message = refusal(lab, template, Vpc=vpcs[0], Subnets=f"{subnets[0]},{subnets[2]}")
    assert "Rule OneVpc: the subnets lie in the VPC" in message


def test_rules_have_none_of_the_templates_other_functions(lab: Lab) -> None:
    """CloudFormation refuses them, so the lab must."""
    for expression in ("!Equals [!Select [0, !Ref Names], a]", "!Condition X"):
        message = refusal(lab, RULE.replace("ASSERT", expression) + LOG)
        assert "cannot be used in a rule" in message


def test_functions_over_lists_maps_and_pseudo_parameters(lab: Lab) -> None:
    values = accepted(
        lab,
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
    cloudformation.validate_template(TemplateURL=f"{url}/fits")
    with pytest.raises(ClientError, match="may not exceed 1000000 bytes"):
        cloudformation.validate_template(TemplateURL=f"{url}/large")


def tagged(lab: Lab, resource_type: str, stack: str) -> list[dict[str, str]]:
    """Tags of the resources of a type that bear a stack's tag, by the tagging API."""
    pages = lab.client("resourcegroupstaggingapi").get_resources(
        ResourceTypeFilters=[resource_type],
        TagFilters=[{"Key": "rackrate:stack", "Values": [stack]}],
    )["ResourceTagMappingList"]
    return [{tag["Key"]: tag["Value"] for tag in found["Tags"]} for found in pages]


LEAF = """
Resources:
  Vpc: {Type: AWS::EC2::VPC, Properties: {CidrBlock: 10.0.0.0/16}}
  Group:
    Type: AWS::EC2::SecurityGroup
    Properties: {GroupDescription: x, VpcId: !Ref Vpc, Tags: [{Key: own, Value: "1"}]}
  Table:
    Type: AWS::DynamoDB::Table
    Properties:
      BillingMode: PAY_PER_REQUEST
      AttributeDefinitions: [{AttributeName: pk, AttributeType: S}]
      KeySchema: [{AttributeName: pk, KeyType: HASH}]
  Bucket: {Type: AWS::S3::Bucket}
  Log: {Type: AWS::Logs::LogGroup}
  Topic: {Type: AWS::SNS::Topic}
  Key: {Type: AWS::KMS::Key}
  Repository: {Type: AWS::ECR::Repository}
  Rule: {Type: AWS::Events::Rule, Properties: {ScheduleExpression: rate(1 hour)}}
  Alarm:
    Type: AWS::CloudWatch::Alarm
    Properties: {Namespace: n, MetricName: m, Statistic: Sum, Period: 60, EvaluationPeriods: 1,
                 Threshold: 1, ComparisonOperator: GreaterThanThreshold}
  Role:
    Type: AWS::IAM::Role
    Properties:
      AssumeRolePolicyDocument:
        Version: "2012-10-17"
        Statement: [{Effect: Allow, Action: sts:AssumeRole,
                     Principal: {Service: states.amazonaws.com}}]
  Machine:
    Type: AWS::StepFunctions::StateMachine
    Properties:
      RoleArn: !GetAtt Role.Arn
      Definition: {StartAt: A, States: {A: {Type: Succeed}}}
Outputs:
  Role: {Value: !Ref Role}
  Bucket: {Value: !Ref Bucket}
  Log: {Value: !Ref Log}
  Table: {Value: !GetAtt Table.Arn}
  Topic: {Value: !Ref Topic}
  Key: {Value: !Ref Key}
  Repository: {Value: !GetAtt Repository.Arn}
  Rule: {Value: !GetAtt Rule.Arn}
  Alarm: {Value: !GetAtt Alarm.Arn}
  Machine: {Value: !Ref Machine}
  Group: {Value: !Ref Group}
  Vpc: {Value: !Ref Vpc}
"""


def test_tags_of_a_nested_stack_reach_every_resource_in_it(lab: Lab) -> None:
    bucket = lab.bucket()
    url = f"{lab.region.endpoint_url}/{bucket}"
    middle = f"""
Resources:
  Leaf:
    Type: AWS::CloudFormation::Stack
    Properties:
      TemplateURL: {url}/leaf.yaml
      Tags: [{{Key: depth, Value: leaf}}]
"""
    for key, body in (("leaf.yaml", LEAF), ("middle.yaml", middle)):
        lab.client("s3").put_object(Bucket=bucket, Key=key, Body=body.encode())
    root = lab.stack(
        f"""
        Resources:
          Middle:
            Type: AWS::CloudFormation::Stack
            Properties:
              TemplateURL: {url}/middle.yaml
              Tags: [{{Key: "rackrate:stack", Value: tagged}}, {{Key: depth, Value: middle}}]
        """,
        Tags=[{"Key": "from", "Value": "root"}],
    )
    assert root["StackStatus"] == "CREATE_COMPLETE", lab.reasons(root["StackId"])
    leaf = root["StackId"]
    for _ in range(2):
        resources = lab.client("cloudformation").describe_stack_resources(StackName=leaf)
        leaf = resources["StackResources"][0]["PhysicalResourceId"]
    described = lab.client("cloudformation").describe_stacks(StackName=leaf)["Stacks"][0]
    values = {o["OutputKey"]: o["OutputValue"] for o in described["Outputs"]}
    inherited = {"rackrate:stack": "tagged", "depth": "leaf", "from": "root"}
    for resource_type in ("ec2:vpc", "ec2:security-group", "dynamodb:table", "s3"):
        for tags in tagged(lab, resource_type, "tagged"):
            assert inherited.items() <= tags.items(), resource_type
        assert tagged(lab, resource_type, "tagged"), resource_type
    assert {"own": "1"}.items() <= tagged(lab, "ec2:security-group", "tagged")[0].items()

    def pairs(found: list[dict[str, str]], key: str = "Key", value: str = "Value") -> Any:
        return {tag[key]: tag[value] for tag in found}

    client = lab.client
    asked = {
        "role": pairs(client("iam").list_role_tags(RoleName=values["Role"])["Tags"]),
        "log": client("logs").list_tags_log_group(logGroupName=values["Log"])["tags"],
        "topic": pairs(client("sns").list_tags_for_resource(ResourceArn=values["Topic"])["Tags"]),
        "key": pairs(
            client("kms").list_resource_tags(KeyId=values["Key"])["Tags"], "TagKey", "TagValue"
        ),
        "repository": pairs(
            client("ecr").list_tags_for_resource(resourceArn=values["Repository"])["tags"]
        ),
        "rule": pairs(client("events").list_tags_for_resource(ResourceARN=values["Rule"])["Tags"]),
        "alarm": pairs(
            client("cloudwatch").list_tags_for_resource(ResourceARN=values["Alarm"])["Tags"]
        ),
        "machine": pairs(
            client("stepfunctions").list_tags_for_resource(resourceArn=values["Machine"])["tags"],
            "key",
            "value",
        ),
    }
    assert {
        name: {key: tags.get(key) for key in inherited} for name, tags in asked.items()
    } == dict.fromkeys(asked, inherited)


def test_new_tags_of_a_stack_reach_the_resources_it_has(lab: Lab) -> None:
    bucket = lab.bucket()
    lab.client("s3").put_object(Bucket=bucket, Key="leaf.yaml", Body=LEAF.encode())
    root = f"""
Parameters: {{Center: {{Type: String, Default: one}}}}
Resources:
  Leaf:
    Type: AWS::CloudFormation::Stack
    Properties:
      TemplateURL: "{lab.region.endpoint_url}/{bucket}/leaf.yaml"
      Tags: [{{Key: "rackrate:stack", Value: retagged}}, {{Key: center, Value: !Ref Center}}]
"""
    stack = lab.stack(root)
    assert stack["StackStatus"] == "CREATE_COMPLETE", lab.reasons(stack["StackId"])
    lab.client("cloudformation").update_stack(
        StackName=stack["StackId"],
        UsePreviousTemplate=True,
        Capabilities=["CAPABILITY_IAM"],
        Parameters=[{"ParameterKey": "Center", "ParameterValue": "two"}],
    )
    assert lab.settled(stack["StackId"])["StackStatus"] == "UPDATE_COMPLETE"
    for resource_type in ("ec2:vpc", "ec2:security-group", "dynamodb:table", "s3"):
        found = tagged(lab, resource_type, "retagged")
        assert [tags["center"] for tags in found] == ["two"], resource_type


LATER = """
import json, urllib.request

def handler(event, context):
    if "Answer" not in event:
        print("ASKED " + json.dumps(event))
        if event["RequestType"] == "Create":
            return  # somebody else answers
        event = {"Answer": "SUCCESS", "Request": event}
    request = event["Request"]
    body = {"Status": event["Answer"], "Reason": "first line\\nsecond line", "Data": {"Id": "r1"},
            "PhysicalResourceId": "run", "StackId": request["StackId"],
            "RequestId": request["RequestId"], "LogicalResourceId": request["LogicalResourceId"]}
    urllib.request.urlopen(urllib.request.Request(
        request["ResponseURL"], json.dumps(body).encode(), method="PUT",
        headers={"Content-Type": ""})).read()
"""


@pytest.mark.parametrize("answer", ["SUCCESS", "FAILED"])
def test_a_custom_resource_may_be_answered_by_another_invocation(lab: Lab, answer: str) -> None:

    name = lab.function(LATER)
    arn = f"arn:aws:lambda:us-east-1:123456789012:function:{name}"
    cloudformation = lab.client("cloudformation")
    stack_id = cloudformation.create_stack(
        StackName=f"later-{answer.lower()}",
        TemplateBody=textwrap.dedent(
            f"""
            Resources:
              Run: {{Type: Custom::Run, Properties: {{ServiceToken: "{arn}", ServiceTimeout: 30}}}}
            Outputs: {{Id: {{Value: !GetAtt Run.Id}}}}
            """
        ),
    )["StackId"]
    log = lab.state_directory / "lambda" / "logs" / f"{name}.log"
    text = eventually(
        lambda: log.read_text() if log.exists() else "",
        lambda found: "REPORT" in found and "ASKED" in found,
    )
    stack = cloudformation.describe_stacks(StackName=stack_id)["Stacks"][0]
    assert stack["StackStatus"] == "CREATE_IN_PROGRESS", "the function's end is no answer"
    line = next(line for line in text.splitlines() if line.startswith("ASKED "))
    request = json.loads(line.removeprefix("ASKED "))
    lab.client("lambda").invoke(
        FunctionName=name, Payload=json.dumps({"Answer": answer, "Request": request})
    )
    stack = lab.settled(stack_id)
    if answer == "SUCCESS":
        assert stack["Outputs"][0]["OutputValue"] == "r1"
    else:
        assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
        assert "first line\nsecond line" in lab.reasons(stack_id, "CREATE_FAILED")["Run"]


def test_a_custom_resource_that_nobody_answers_fails_after_its_timeout(lab: Lab) -> None:
    name = lab.function(LATER)
    arn = f"arn:aws:lambda:us-east-1:123456789012:function:{name}"
    template = """
        Resources:
          Run:
            Type: Custom::Run
            Properties: {{ServiceToken: "{arn}", ServiceTimeout: {seconds}}}
    """
    stack = lab.stack(template.format(arn=arn, seconds=1))
    reason = lab.reasons(stack["StackId"], "CREATE_FAILED")["Run"]
    assert "did not receive a response from your Custom Resource" in reason
    stack = lab.stack(template.format(arn=arn, seconds=3601))
    assert "from 1 to 3600, not 3601" in lab.reasons(stack["StackId"], "CREATE_FAILED")["Run"]


METRICS = """
import json, time

def handler(event, context):
    print(json.dumps({
        "_aws": {"Timestamp": int(time.time() * 1000), "CloudWatchMetrics": [
            {"Namespace": "rackrate", "Dimensions": [["service"]],
             "Metrics": [{"Name": "RunsSucceeded", "Unit": "Count"},
                         {"Name": "RunSeconds", "Unit": "Seconds"}]}]},
        "service": event["stack"], "RunsSucceeded": [1.0], "RunSeconds": 61.5}))
    print(json.dumps({"_aws": {"Timestamp": 0, "CloudWatchMetrics": [{"Namespace": "n"}]}}))
"""


def test_metrics_in_a_functions_log_become_metrics(lab: Lab) -> None:

    name = lab.function(METRICS)
    for _ in range(2):
        lab.client("lambda").invoke(FunctionName=name, Payload=json.dumps({"stack": name}))
    now = datetime.datetime.now(tz=datetime.UTC)

    def total(metric: str, statistic: str) -> list[float]:
        found = lab.client("cloudwatch").get_metric_statistics(
            Namespace="rackrate",
            MetricName=metric,
            Dimensions=[{"Name": "service", "Value": name}],
            StartTime=now - datetime.timedelta(minutes=5),
            EndTime=now + datetime.timedelta(minutes=5),
            Period=3600,
            Statistics=[statistic],
        )
        return [point[statistic] for point in found["Datapoints"]]

    eventually(lambda: sum(total("RunsSucceeded", "Sum")), lambda found: found == 2.0)
    assert set(total("RunSeconds", "Maximum")) == {61.5}


def test_one_rule_takes_every_end_of_an_execution(lab: Lab) -> None:

    name = lab.function("import json\ndef handler(event, context): print(json.dumps(event))\n")
    function = f"arn:aws:lambda:us-east-1:123456789012:function:{name}"
    lab.stack(
        f"""
        Resources:
          Ended:
            Type: AWS::Events::Rule
            Properties:
              EventPattern:
                source: [aws.states]
                detail-type: [Step Functions Execution Status Change]
                detail: {{status: [SUCCEEDED, FAILED, ABORTED, TIMED_OUT]}}
              Targets: [{{Id: f, Arn: "{function}"}}]
          Permission:
            Type: AWS::Lambda::Permission
            Properties:
              FunctionName: {name}
              Action: lambda:InvokeFunction
              Principal: events.amazonaws.com
              SourceArn: !GetAtt Ended.Arn
        """
    )
    lab.execute({"StartAt": "A", "States": {"A": {"Type": "Succeed"}}}, json.dumps({"mark": name}))
    lab.execute({"StartAt": "A", "States": {"A": {"Type": "Fail"}}}, json.dumps({"mark": name}))
    log = lab.state_directory / "lambda" / "logs" / f"{name}.log"
    eventually(
        lambda: log.read_text() if log.exists() else "",
        lambda found: '"status": "SUCCEEDED"' in found and '"status": "FAILED"' in found,
    )


def test_stacks_of_one_template_stand_side_by_side(lab: Lab) -> None:
    bucket = lab.bucket()
    lab.client("s3").put_object(Bucket=bucket, Key="leaf.yaml", Body=LEAF.encode())
    root = f"""
Resources:
  Leaf:
    Type: AWS::CloudFormation::Stack
    Properties: {{TemplateURL: "{lab.region.endpoint_url}/{bucket}/leaf.yaml"}}
"""
    cloudformation = lab.client("cloudformation")
    made = [
        cloudformation.create_stack(
            StackName=name, TemplateBody=root, Capabilities=["CAPABILITY_IAM"]
        )["StackId"]
        for name in ("side-a", "side-b")
    ]
    assert [lab.settled(stack)["StackStatus"] for stack in made] == ["CREATE_COMPLETE"] * 2
    assert lab.delete(made[0])["StackStatus"] == "DELETE_COMPLETE"
    assert lab.settled(made[1])["StackStatus"] == "CREATE_COMPLETE"
    tables = lab.client("dynamodb").list_tables()["TableNames"]
    assert not [name for name in tables if name.startswith("side-a")]
    assert [name for name in tables if name.startswith("side-b")]
    assert lab.delete(made[1])["StackStatus"] == "DELETE_COMPLETE"
