"""CloudFormation: order, failure, roll-back, nesting, custom resources, transform, updates."""

from __future__ import annotations

import json
import textwrap

import pytest
from botocore.exceptions import ClientError

from lab.tests.aws.region import Lab, archive, eventually, function_arn, parameter_list

SERVERLESS = """
Transform: AWS::Serverless-2016-10-31
Parameters:
  Bucket: {Type: String}
  Fail: {Type: String, Default: "no"}
Resources:
  Log:
    Type: AWS::Logs::LogGroup
    Properties: {RetentionInDays: 30}
  Table:
    Type: AWS::DynamoDB::Table
    Properties:
      BillingMode: PAY_PER_REQUEST
      AttributeDefinitions:
        - {AttributeName: pk, AttributeType: S}
        - {AttributeName: sk, AttributeType: S}
        - {AttributeName: gsi1pk, AttributeType: S}
        - {AttributeName: gsi1sk, AttributeType: S}
      KeySchema: [{AttributeName: pk, KeyType: HASH}, {AttributeName: sk, KeyType: RANGE}]
      GlobalSecondaryIndexes:
        - IndexName: runs
          KeySchema:
            - {AttributeName: gsi1pk, KeyType: HASH}
            - {AttributeName: gsi1sk, KeyType: RANGE}
          Projection: {ProjectionType: ALL}
      PointInTimeRecoverySpecification: {PointInTimeRecoveryEnabled: true}
      SSESpecification: {SSEEnabled: true}
  Work:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: {Bucket: !Ref Bucket, Key: code.zip}
      Handler: index.handler
      Runtime: python3.13
      Timeout: 10
      MemorySize: 256
      Environment: {Variables: {TABLE_NAME: !Ref Table, COUNT: 6}}
      Policies: [DynamoDBCrudPolicy: {TableName: !Ref Table}]
  Machine:
    Type: AWS::Serverless::StateMachine
    Properties:
      DefinitionUri: {Bucket: !Ref Bucket, Key: machine.asl.yaml}
      DefinitionSubstitutions: {WorkArn: !GetAtt Work.Arn}
      Policies: [LambdaInvokePolicy: {FunctionName: !Ref Work}]
      Logging:
        Level: ERROR
        Destinations: [{CloudWatchLogsLogGroup: {LogGroupArn: !GetAtt Log.Arn}}]
  Thing:
    Type: Custom::Thing
    Properties: {ServiceToken: !GetAtt Work.Arn, Size: 3, Wet: true, Fail: !Ref Fail}
Outputs:
  StateMachineArn: {Value: !Ref Machine}
  TableName: {Value: !Ref Table}
  Made: {Value: !GetAtt Thing.Colour}
  ThingId: {Value: !Ref Thing}
"""

CODE = """
import json, os, urllib.request

def handler(event, context):
    if "RequestType" not in event:
        return {"table": os.environ["TABLE_NAME"], "count": os.environ["COUNT"]}
    print("asked", event["RequestType"], json.dumps(event["ResourceProperties"], sort_keys=True))
    fails = event["ResourceProperties"]["Fail"] in (event["RequestType"], "always")
    body = {
        "Status": "FAILED" if fails else "SUCCESS",
        "Reason": "the paint is dry",
        "PhysicalResourceId": event.get("PhysicalResourceId", "thing-1"),
        "StackId": event["StackId"], "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"], "Data": {"Colour": "green"},
    }
    request = urllib.request.Request(event["ResponseURL"], json.dumps(body).encode(), method="PUT",
                                     headers={"Content-Type": ""})
    urllib.request.urlopen(request).read()
"""

MACHINE = """
Comment: what the stack runs
StartAt: Work
States:
  Work:
    Type: Task
    Resource: arn:aws:states:::lambda:invoke
    Parameters: {FunctionName: "${WorkArn}", Payload.$: $}
    OutputPath: $.Payload
    End: true
"""


@pytest.fixture(scope="module")
def bucket(lab: Lab) -> str:
    """A bucket with the files that `sam package` uploads."""
    name = lab.stored("code.zip", archive(CODE))
    put = lab.client("s3").put_object
    put(Bucket=name, Key="machine.asl.yaml", Body=MACHINE.encode())
    put(Bucket=name, Key="leaf.yaml", Body=SERVERLESS.encode())
    return name


def nested(lab: Lab, bucket: str, fail: str) -> str:
    return f"""
    Resources:
      Leaf:
        Type: AWS::CloudFormation::Stack
        Properties:
          TemplateURL: {lab.region.endpoint_url}/{bucket}/leaf.yaml
          Parameters: {{Bucket: {bucket}, Fail: "{fail}"}}
    Outputs:
      StateMachineArn: {{Value: !GetAtt Leaf.Outputs.StateMachineArn}}
      TableName: {{Value: !GetAtt Leaf.Outputs.TableName}}
      Made: {{Value: !GetAtt Leaf.Outputs.Made}}
      ThingId: {{Value: !GetAtt Leaf.Outputs.ThingId}}
    """


def function_log(lab: Lab, stack_id: str) -> str:
    return lab.log_of_ended(lab.resources(leaf_of(lab, stack_id))["Work"])


def leaf_of(lab: Lab, stack_id: str) -> str:
    return lab.resources(stack_id)["Leaf"]


def in_order(lab: Lab, stack_id: str, status: str = "CREATE_COMPLETE") -> list[str]:
    """The logical ids of a stack's resources in the order in which they got a status."""
    events = lab.client("cloudformation").describe_stack_events(StackName=stack_id)["StackEvents"]
    return [each["LogicalResourceId"] for each in events[::-1] if each["ResourceStatus"] == status]


def test_nested_serverless_stack_lives_and_dies(lab: Lab, bucket: str) -> None:
    values = lab.created(nested(lab, bucket, "no"))
    leaf = leaf_of(lab, values["StackId"])
    assert values["Made"] == "green"
    assert values["ThingId"] == "thing-1"
    states = lab.client("stepfunctions")
    run = states.start_execution(stateMachineArn=values["StateMachineArn"], input="{}")
    execution = lab.finished(run["executionArn"])
    assert json.loads(execution["output"]) == {"table": values["TableName"], "count": "6"}
    dynamodb = lab.client("dynamodb")
    table = dynamodb.describe_table(TableName=values["TableName"])["Table"]
    assert table["GlobalSecondaryIndexes"][0]["IndexName"] == "runs"
    assert table["SSEDescription"]["Status"] == "ENABLED"
    backups = dynamodb.describe_continuous_backups(TableName=values["TableName"])
    recovery = backups["ContinuousBackupsDescription"]["PointInTimeRecoveryDescription"]
    assert recovery["PointInTimeRecoveryStatus"] == "ENABLED"
    log = function_log(lab, values["StackId"])
    assert '"Wet": "true"' in log, "custom resources receive text"
    assert '"Size": "3"' in log

    after = lab.delete(values["StackId"])
    assert after["StackStatus"] == "DELETE_COMPLETE", lab.reasons(leaf)
    assert "asked Delete" in function_log(lab, values["StackId"])
    with pytest.raises(dynamodb.exceptions.ResourceNotFoundException):
        dynamodb.describe_table(TableName=values["TableName"])
    deleted = in_order(lab, leaf, "DELETE_COMPLETE")
    assert deleted.index("Thing") < deleted.index("Work") < deleted.index("Table")


def test_failed_custom_resource_rolls_back_with_its_reason(lab: Lab, bucket: str) -> None:
    stack = lab.stack(nested(lab, bucket, "Create"))
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    leaf = leaf_of(lab, stack["StackId"])
    assert "the paint is dry" in lab.reasons(leaf, "CREATE_FAILED")["Thing"]
    reason = lab.reasons(stack["StackId"], "CREATE_FAILED")["Leaf"]
    assert (
        "was not successfully created: The following resource(s) failed to create: [Thing]"
        in reason
    )
    assert "the paint is dry" not in reason, "as in AWS, a parent is not told the reason"
    assert "asked Delete" in function_log(lab, stack["StackId"])
    tables = lab.client("dynamodb").list_tables()["TableNames"]
    assert not [table for table in tables if table.startswith(stack["StackName"])]


def test_failed_deletion_is_reported_and_can_be_repeated(lab: Lab, bucket: str) -> None:
    stack = lab.created(nested(lab, bucket, "Delete"))
    assert lab.delete(stack["StackId"])["StackStatus"] == "DELETE_FAILED"
    leaf = leaf_of(lab, stack["StackId"])
    assert "the paint is dry" in lab.reasons(leaf, "DELETE_FAILED")["Thing"]


def test_update_changes_in_place_and_rolls_back(lab: Lab, bucket: str) -> None:
    stack_id = lab.created(nested(lab, bucket, "no"))["StackId"]
    assert lab.update(stack_id, nested(lab, bucket, "x")) == "UPDATE_COMPLETE"
    assert "asked Update" in function_log(lab, stack_id)
    assert lab.update(stack_id, nested(lab, bucket, "Update")) == "UPDATE_ROLLBACK_COMPLETE"
    leaf = leaf_of(lab, stack_id)
    assert "the paint is dry" in lab.reasons(leaf, "UPDATE_FAILED")["Thing"]


def test_unknown_type_fails_the_stack(lab: Lab) -> None:
    stack = lab.stack(
        """
        Resources:
          Log: {Type: AWS::Logs::LogGroup}
          Odd: {Type: AWS::Odd::Thing, DependsOn: Log}
        """
    )
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    reason = lab.reasons(stack["StackId"], "CREATE_FAILED")["Odd"]
    assert reason.startswith("Resource type AWS::Odd::Thing is not supported")
    groups = lab.client("logs").describe_log_groups(logGroupNamePrefix=stack["StackName"])
    assert groups["logGroups"] == []


def test_depends_on_orders_and_events_have_times(lab: Lab) -> None:
    stack = lab.stack(
        """
        Resources:
          A: {Type: AWS::Logs::LogGroup, DependsOn: C}
          B: {Type: AWS::Logs::LogGroup}
          C: {Type: AWS::Logs::LogGroup, DependsOn: [B]}
        """
    )
    assert in_order(lab, stack["StackId"]) == ["B", "C", "A", stack["StackName"]]
    events = lab.client("cloudformation").describe_stack_events(StackName=stack["StackId"])
    times = [event["Timestamp"] for event in events["StackEvents"]]
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize(
    ("template", "parameters", "message"),
    [
        (
            "Parameters: {Count: {Type: Number, MinValue: 2}}\n",
            {"Count": "1"},
            "Parameter 'Count' must be a number not less than 2",
        ),
        ("Parameters: {Count: {Type: Number}}\n", {}, r"\[Count\] must have values"),
        ("", {"Odd": "1"}, r"\[Odd\] do not exist"),
        (
            "Parameters: {S: {Type: String, AllowedValues: [cluster, spread]}}\n",
            {"S": "x"},
            "AllowedValues",
        ),
        (
            "Parameters: {Zone: {Type: String, Default: ''}}\n"
            "Rules: {NeedsZone: {Assertions: [{Assert: !Not [!Equals [!Ref Zone, '']],"
            " AssertDescription: give a zone}]}}\n",
            {},
            "give a zone",
        ),
    ],
)
def test_bad_parameters_are_refused_before_anything_is_made(
    lab: Lab, template: str, parameters: dict[str, str], message: str
) -> None:
    with pytest.raises(ClientError, match=message):
        lab.client("cloudformation").create_stack(
            StackName="refused",
            TemplateBody=template + "Resources: {Log: {Type: AWS::Logs::LogGroup}}\n",
            Parameters=parameter_list(parameters),
        )
    with pytest.raises(ClientError, match="does not exist"):
        lab.client("cloudformation").describe_stacks(StackName="refused")


def test_metadata_that_refers_to_a_resource_waits_for_it_where_there_is_one(lab: Lab) -> None:
    stack = lab.stack(
        """
        Parameters: {Two: {Type: String, Default: "yes"}}
        Conditions: {HasTwo: !Equals [!Ref Two, "yes"], HasThree: !Equals [!Ref Two, three]}
        Resources:
          First:
            Type: AWS::Logs::LogGroup
            Metadata: {After: [!If [HasTwo, !Ref Second, ""], !If [HasThree, !Ref Third, ""]]}
          Second: {Type: AWS::Logs::LogGroup, Condition: HasTwo}
          Third: {Type: AWS::Logs::LogGroup, Condition: HasThree}
        """
    )
    assert in_order(lab, stack["StackId"]) == ["Second", "First", stack["StackName"]]


RETAINED = """
Resources:
  Kept:
    Type: AWS::Logs::LogGroup
    DeletionPolicy: RetainExceptOnCreate
"""
BROKEN = "  Broken: {Type: AWS::Odd::Thing, DependsOn: %s}\n"


def test_retain_except_on_create_keeps_what_a_deletion_would_delete(lab: Lab) -> None:
    stack = lab.stack(RETAINED)
    lab.delete(stack["StackId"])
    assert log_groups(lab, stack) == 1


def test_retain_except_on_create_deletes_what_a_failed_creation_made(lab: Lab) -> None:
    stack = lab.stack(RETAINED + BROKEN % "Kept")
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    assert log_groups(lab, stack) == 0


def test_a_complete_nested_stack_is_deleted_not_rolled_back_when_its_parent_fails(
    lab: Lab, bucket: str
) -> None:
    """The parent's roll-back deletes the nested stack, which was created in an operation of its own
    that did not fail. AWS's documentation of RetainExceptOnCreate says nothing of nested stacks;
    the lab takes it by its word: "the stack operation that created the resource is rolled back"."""
    lab.client("s3").put_object(Bucket=bucket, Key="kept.yaml", Body=RETAINED.encode())
    url = f"{lab.region.endpoint_url}/{bucket}/kept.yaml"
    leaf = (
        f"  Leaf:\n    Type: AWS::CloudFormation::Stack\n    Properties: {{TemplateURL: '{url}'}}\n"
    )
    stack = lab.stack("Resources:\n" + leaf + BROKEN % "Leaf")
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    assert log_groups(lab, stack) == 1


def log_groups(lab: Lab, stack: dict) -> int:
    groups = lab.client("logs").describe_log_groups(logGroupNamePrefix=stack["StackName"])
    return len(groups["logGroups"])


def test_conditions_choose_resources_and_values(lab: Lab) -> None:
    values = lab.created(
        """
        Parameters:
          Size: {Type: String, Default: small}
          Names: {Type: CommaDelimitedList, Default: "a,b"}
        Mappings: {Days: {small: {Keep: 7}, large: {Keep: 90}}}
        Conditions:
          Large: !Equals [!Ref Size, large]
          Small: !Not [!Condition Large]
        Resources:
          Absent: {Type: AWS::Logs::LogGroup, Condition: Large}
          Log:
            Type: AWS::Logs::LogGroup
            Properties:
              RetentionInDays: !FindInMap [Days, !Ref Size, Keep]
              LogGroupName: !If [Large, !Ref AWS::NoValue, !Sub "${AWS::StackName}-${!x}-log"]
        Outputs:
          Name: {Value: !Ref Log}
          Second: {Value: !Select [1, !Ref Names]}
          Blocks: {Value: !Join ["|", !Cidr [10.0.0.0/16, 2, 12]]}
          None: {Value: !Ref Absent, Condition: Large}
        """
    )
    assert values.pop("Name") == values.pop("StackName") + "-${x}-log"
    del values["StackId"]
    assert values == {"Second": "b", "Blocks": "10.0.0.0/20|10.0.16.0/20"}


def test_transforms_and_roles_need_capabilities(lab: Lab) -> None:
    with pytest.raises(ClientError, match="CAPABILITY_AUTO_EXPAND"):
        lab.client("cloudformation").create_stack(
            StackName="refused",
            TemplateBody=SERVERLESS,
            Parameters=parameter_list({"Bucket": "b"}),
        )


def test_change_set_is_refused_before_it_makes_a_stack(lab: Lab) -> None:
    cloudformation = lab.client("cloudformation")
    body = "Rules: {Never: {Assertions: [{Assert: !Equals [a, b], AssertDescription: never}]}}\n"
    with pytest.raises(ClientError, match="never"):
        cloudformation.create_change_set(
            StackName="ruled-out",
            ChangeSetName="c",
            ChangeSetType="CREATE",
            TemplateBody=body + "Resources: {Log: {Type: AWS::Logs::LogGroup}}",
        )
    with pytest.raises(ClientError, match="does not exist"):
        cloudformation.describe_stacks(StackName="ruled-out")


def test_change_set_needs_no_capability_for_macros_without_nested_stacks(lab: Lab) -> None:
    cloudformation = lab.client("cloudformation")
    change_set = cloudformation.create_change_set(
        StackName="with-macros",
        ChangeSetName="c",
        ChangeSetType="CREATE",
        TemplateBody=(
            "Transform: AWS::Serverless-2016-10-31\nResources: {Log: {Type: AWS::Logs::LogGroup}}"
        ),
    )
    events = cloudformation.describe_stack_events(StackName="with-macros")["StackEvents"]
    assert [event["ResourceStatus"] for event in events] == ["REVIEW_IN_PROGRESS"]
    cloudformation.execute_change_set(ChangeSetName=change_set["Id"])
    eventually(
        lambda: cloudformation.describe_stacks(StackName="with-macros")["Stacks"][0],
        lambda stack: stack["StackStatus"] == "CREATE_COMPLETE",
    )


def test_deletion_during_creation_leaves_nothing(lab: Lab, bucket: str) -> None:
    """A stack deleted while its custom resource works is cleaned up."""
    cloudformation = lab.client("cloudformation")
    slow = lab.function("import time\ndef handler(event, context): time.sleep(1.5)\n", Timeout=5)
    stack_id = cloudformation.create_stack(
        StackName="given-up",
        TemplateBody=textwrap.dedent(
            f"""
            Resources:
              Log: {{Type: AWS::Logs::LogGroup}}
              Thing:
                Type: Custom::Slow
                DependsOn: Log
                Properties: {{ServiceToken: "{function_arn(slow)}", ServiceTimeout: 3}}
              Never: {{Type: AWS::Logs::LogGroup, DependsOn: Thing}}
            """
        ),
    )["StackId"]
    eventually(lambda: lab.reasons(stack_id, "CREATE_IN_PROGRESS"), lambda names: "Thing" in names)
    deleted = lab.delete(stack_id)
    assert deleted["StackStatus"] == "DELETE_COMPLETE", lab.reasons(stack_id)
    groups = lab.client("logs").describe_log_groups(logGroupNamePrefix="given-up")
    assert groups["logGroups"] == []
    assert "Never" not in lab.reasons(stack_id, "CREATE_IN_PROGRESS")
