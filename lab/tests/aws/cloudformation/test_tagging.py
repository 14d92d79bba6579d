"""A stack's tags reach its resources, including existing ones when the tags change."""

from __future__ import annotations

from typing import Any

from lab.tests.aws.region import Lab


def tagged(lab: Lab, resource_type: str, stack: str) -> list[dict[str, str]]:
    """The tags of a type's resources with a stack's tag, from the tagging API."""
    pages = lab.client("resourcegroupstaggingapi").get_resources(
        ResourceTypeFilters=[resource_type],
        TagFilters=[{"Key": "rackrate:stack", "Values": [stack]}],
    )["ResourceTagMappingList"]
    return [{tag["Key"]: tag["Value"] for tag in resource["Tags"]} for resource in pages]


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
    root = lab.created(
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
    leaf = lab.resources(lab.resources(root["StackId"])["Middle"])["Leaf"]
    described = lab.client("cloudformation").describe_stacks(StackName=leaf)["Stacks"][0]
    values = {o["OutputKey"]: o["OutputValue"] for o in described["Outputs"]}
    inherited = {"rackrate:stack": "tagged", "depth": "leaf", "from": "root"}
    for resource_type in ("ec2:vpc", "ec2:security-group", "dynamodb:table", "s3"):
        for tags in tagged(lab, resource_type, "tagged"):
            assert inherited.items() <= tags.items(), resource_type
        assert tagged(lab, resource_type, "tagged"), resource_type
    assert {"own": "1"}.items() <= tagged(lab, "ec2:security-group", "tagged")[0].items()

    def pairs(tags: list[dict[str, str]], key: str = "Key", value: str = "Value") -> Any:
        return {tag[key]: tag[value] for tag in tags}

    client = lab.client
    by_resource = {
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
        name: {key: tags.get(key) for key in inherited} for name, tags in by_resource.items()
    } == dict.fromkeys(by_resource, inherited)


def test_new_tags_of_a_stack_reach_the_resources_it_has(lab: Lab) -> None:
    bucket = lab.stored("leaf.yaml", LEAF)
    root = f"""
Parameters: {{Center: {{Type: String, Default: one}}}}
Resources:
  Leaf:
    Type: AWS::CloudFormation::Stack
    Properties:
      TemplateURL: "{lab.region.endpoint_url}/{bucket}/leaf.yaml"
      Tags: [{{Key: "rackrate:stack", Value: retagged}}, {{Key: center, Value: !Ref Center}}]
"""
    stack = lab.created(root)
    assert lab.update(stack["StackId"], parameters={"Center": "two"}) == "UPDATE_COMPLETE"
    for resource_type in ("ec2:vpc", "ec2:security-group", "dynamodb:table", "s3"):
        resources = tagged(lab, resource_type, "retagged")
        assert [tags["center"] for tags in resources] == ["two"], resource_type
