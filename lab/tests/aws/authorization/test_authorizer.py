"""The lab denies calls that a role's policies do not allow, as AWS does, and records all calls."""

from __future__ import annotations

import json
import textwrap
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lab.aws.authorization import authorizer
from lab.aws.authorization.audit import RECORD_FILE, deployed_policies, table_of
from lab.tests.aws.region import Lab, allow, eventually, function_arn, key_schema, task

ACCOUNT = "123456789012"


@pytest.fixture(scope="module")
def table(lab: Lab) -> str:
    """A table with an index. Returns its ARN."""
    index = {
        "IndexName": "others",
        "KeySchema": key_schema("other"),
        "Projection": {"ProjectionType": "ALL"},
    }
    name = lab.table("pk", "other", KeySchema=key_schema("pk"), GlobalSecondaryIndexes=[index])
    return f"arn:aws:dynamodb:us-east-1:{ACCOUNT}:table/{name}"


def name_of(arn: str) -> str:
    """The name of a table or of a role."""
    return arn.rsplit("/", 1)[-1]


def refused(lab: Lab, role: str, service: str, operation: str, **request: Any) -> ClientError:
    with pytest.raises(ClientError) as caught:
        getattr(lab.as_role(role, service), operation)(**request)
    return caught.value


def code(error: ClientError) -> str:
    return str(error.response["Error"]["Code"])


def test_what_no_policy_allows_is_refused_in_the_services_own_shape(lab: Lab, table: str) -> None:
    role = lab.role("lambda.amazonaws.com", allow("dynamodb:GetItem", table))
    item = {"pk": {"S": "1"}}
    assert "Item" not in lab.as_role(role, "dynamodb").get_item(TableName=name_of(table), Key=item)
    error = refused(lab, role, "dynamodb", "put_item", TableName=name_of(table), Item=item)
    assert code(error) == "AccessDeniedException"
    assert f"perform: dynamodb:PutItem on resource: {table}" in str(error)
    assert f"assumed-role/{name_of(role)}" in str(error)
    assert code(refused(lab, role, "ec2", "describe_instances")) == "UnauthorizedOperation"
    assert code(refused(lab, role, "lambda", "invoke", FunctionName="f")) == "AccessDeniedException"
    assert code(refused(lab, role, "eks", "describe_cluster", name="c")) == "AccessDeniedException"
    assert code(refused(lab, role, "sns", "list_topics")) == "AccessDenied"
    error = refused(lab, role, "sts", "assume_role", RoleArn=role, RoleSessionName="test")
    assert code(error) == "AccessDenied"
    assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    assert lab.as_role(role, "sts").get_caller_identity()["Account"] == ACCOUNT


def test_an_index_is_a_resource_of_its_own(lab: Lab, table: str) -> None:
    query = {
        "TableName": name_of(table),
        "IndexName": "others",
        "KeyConditionExpression": "other = :o",
        "ExpressionAttributeValues": {":o": {"S": "1"}},
    }
    role = lab.role("lambda.amazonaws.com", allow("dynamodb:Query", table))
    assert f"{table}/index/others" in str(refused(lab, role, "dynamodb", "query", **query))
    lab.permit(role, allow("dynamodb:Query", f"{table}/index/*"))
    assert lab.as_role(role, "dynamodb").query(**query)["Items"] == []


def test_a_change_of_policy_counts_at_once_and_a_denial_wins(lab: Lab, table: str) -> None:
    role = lab.role("lambda.amazonaws.com", allow("dynamodb:*", "*"))
    client, name = lab.as_role(role, "dynamodb"), name_of(table)
    client.describe_table(TableName=name)
    deny = {"Effect": "Deny", "Action": "dynamodb:Describe*", "Resource": table}
    lab.permit(role, allow("dynamodb:*", "*"), deny)
    with pytest.raises(ClientError, match="explicit deny"):
        client.describe_table(TableName=name)


def test_a_permissions_boundary_limits_what_policies_allow(lab: Lab, table: str) -> None:
    boundary = lab.policy(allow("dynamodb:GetItem", "*"))
    role = lab.role("lambda.amazonaws.com", allow("dynamodb:*", "*"), boundary=boundary)
    shown = lab.client("iam").get_role(RoleName=name_of(role))["Role"]
    assert shown["PermissionsBoundary"]["PermissionsBoundaryArn"] == boundary
    name = name_of(table)
    lab.as_role(role, "dynamodb").get_item(TableName=name, Key={"pk": {"S": "1"}})
    error = refused(lab, role, "dynamodb", "describe_table", TableName=name)
    assert "no permissions boundary allows" in str(error)


def test_objects_and_buckets_are_different_resources(lab: Lab) -> None:
    bucket = lab.bucket()
    arn = f"arn:aws:s3:::{bucket}"
    role = lab.role(
        "lambda.amazonaws.com",
        allow(["s3:GetObject", "s3:PutObject"], f"{arn}/runs/*"),
    )
    s3 = lab.as_role(role, "s3")
    s3.put_object(Bucket=bucket, Key="runs/1", Body=b"x")
    assert s3.get_object(Bucket=bucket, Key="runs/1")["Body"].read() == b"x"
    error = refused(lab, role, "s3", "put_object", Bucket=bucket, Key="other", Body=b"x")
    assert code(error) == "AccessDenied"
    assert code(refused(lab, role, "s3", "list_objects_v2", Bucket=bucket)) == "AccessDenied"
    lab.permit(
        role,
        allow("s3:ListBucket", arn, Condition={"StringLike": {"s3:prefix": ["runs/*"]}}),
    )
    listing = s3.list_objects_v2(Bucket=bucket, Prefix="runs/")
    assert [item["Key"] for item in listing["Contents"]] == ["runs/1"]
    with pytest.raises(ClientError, match="ListBucket"):
        s3.list_objects_v2(Bucket=bucket, Prefix="secret/")


def test_who_may_not_list_is_not_told_that_an_object_is_missing(lab: Lab) -> None:
    """AWS answers 403, not 404, to callers who may not list the bucket. The lab must too."""
    bucket = lab.bucket()
    role = lab.role("lambda.amazonaws.com", allow("s3:GetObject", f"arn:aws:s3:::{bucket}/*"))
    error = refused(lab, role, "s3", "get_object", Bucket=bucket, Key="none")
    assert (code(error), "s3:ListBucket" in str(error)) == ("AccessDenied", True)
    lab.permit(role, allow("s3:*", "*"))
    assert code(refused(lab, role, "s3", "get_object", Bucket=bucket, Key="none")) == "NoSuchKey"


def test_deleting_many_objects_needs_permission_for_each(lab: Lab) -> None:
    bucket = lab.bucket()
    lab.client("s3").put_object(Bucket=bucket, Key="runs/1", Body=b"x")
    role = lab.role("lambda.amazonaws.com", allow("s3:GetObject", "*"))
    request = {"Bucket": bucket, "Delete": {"Objects": [{"Key": "runs/1"}]}}
    response = lab.as_role(role, "s3").delete_objects(**request)
    assert response["Errors"][0]["Code"] == "AccessDenied"
    lab.permit(role, allow("s3:DeleteObject", f"arn:aws:s3:::{bucket}/*"))
    assert "Errors" not in lab.as_role(role, "s3").delete_objects(**request)
    assert "Contents" not in lab.client("s3").list_objects_v2(Bucket=bucket)


def test_a_customers_key_needs_permission_of_its_own(lab: Lab) -> None:
    key = lab.client("kms").create_key()["KeyMetadata"]["Arn"]
    bucket = lab.bucket()
    default = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}
    rule = {"ApplyServerSideEncryptionByDefault": default, "BucketKeyEnabled": True}
    lab.client("s3").put_bucket_encryption(
        Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": [rule]}
    )
    role = lab.role("lambda.amazonaws.com", allow("s3:*", "*"))
    request = {"Bucket": bucket, "Key": "k"}
    error = refused(lab, role, "s3", "put_object", **request, Body=b"x")
    assert "kms:GenerateDataKey" in str(error)
    via = {"StringEquals": {"kms:ViaService": "s3.us-east-1.amazonaws.com"}}
    lab.permit(role, allow("s3:*", "*"), allow("kms:GenerateDataKey", key, Condition=via))
    lab.as_role(role, "s3").put_object(**request, Body=b"x")
    assert "kms:Decrypt" in str(refused(lab, role, "s3", "get_object", **request))
    lab.permit(role, allow("s3:*", "*"), allow("kms:Decrypt", key))
    assert lab.as_role(role, "s3").get_object(**request)["Body"].read() == b"x"
    of_logs = allow("kms:*", "*", Principal={"Service": "logs.us-east-1.amazonaws.com"})
    lab.client("kms").put_key_policy(
        KeyId=key,
        PolicyName="default",
        Policy=json.dumps({"Version": "2012-10-17", "Statement": [of_logs]}),
    )
    assert "no key policy allows" in str(refused(lab, role, "s3", "get_object", **request))


def encrypted_table(lab: Lab, **encryption: str) -> str:
    """Create a table encrypted by KMS. Returns its name."""
    return lab.table(SSESpecification={"Enabled": True, "SSEType": "KMS", **encryption})


def test_a_table_under_awss_own_key_needs_no_permission_for_the_key(lab: Lab) -> None:
    name = encrypted_table(lab)
    role = lab.role("lambda.amazonaws.com", allow("dynamodb:GetItem", "*"))
    response = lab.as_role(role, "dynamodb").get_item(TableName=name, Key={"pk": {"S": "1"}})
    assert "Item" not in response


def test_a_tables_key_needs_permission_of_its_own(lab: Lab) -> None:
    key = lab.client("kms").create_key()["KeyMetadata"]["Arn"]
    name = encrypted_table(lab, KMSMasterKeyId=key)
    role = lab.role("lambda.amazonaws.com", allow("dynamodb:*", "*"))
    request = {"TableName": name, "Key": {"pk": {"S": "1"}}}
    assert "kms:Decrypt" in str(refused(lab, role, "dynamodb", "get_item", **request))
    lab.permit(role, allow("dynamodb:*", "*"), allow("kms:Decrypt", key))
    assert "Item" not in lab.as_role(role, "dynamodb").get_item(**request)


def test_a_function_without_permission_for_its_log_runs_without_one(lab: Lab) -> None:
    role = lab.role("lambda.amazonaws.com", allow("dynamodb:GetItem", "*"))
    name = lab.function("def handler(event, context): print('said')\n", Role=role)
    lab.client("lambda").invoke(FunctionName=name)
    groups = lab.client("logs").describe_log_groups(logGroupNamePrefix=f"/aws/lambda/{name}")
    assert groups["logGroups"] == []
    assert "said" in lab.log(name)


def test_ec2_knows_the_policies_of_a_new_role_only_after_a_moment(lab: Lab) -> None:
    role = lab.role("lambda.amazonaws.com", allow("ec2:DescribeVpcs", "*"))
    ec2 = lab.as_role(role, "ec2")

    def answer() -> str:
        try:
            return "allowed" if ec2.describe_vpcs()["Vpcs"] else "empty"
        except ClientError as error:
            return code(error)

    assert answer() == "UnauthorizedOperation"
    eventually(answer, lambda verdict: verdict == "allowed")


def test_a_function_gets_into_a_vpc_only_with_a_role_that_may(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authorizer, "EC2_LAG_SECONDS", 0.0)
    ec2 = lab.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.8.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.8.0.0/24")["Subnet"]["SubnetId"]
    network = {"VpcConfig": {"SubnetIds": [subnet], "SecurityGroupIds": []}}
    interfaces = ["ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface"]
    itself = {
        "Effect": "Deny",
        "Action": "ec2:*",
        "Resource": "*",
        "Condition": {"ArnLike": {"lambda:SourceFunctionArn": "arn:*:function:*"}},
    }
    code = """
        import boto3
        def handler(event, context): boto3.client("ec2").describe_network_interfaces()
    """
    role = lab.role("lambda.amazonaws.com", allow(interfaces, "*"), itself)
    with pytest.raises(ClientError, match="call DescribeNetworkInterfaces on EC2"):
        lab.function(textwrap.dedent(code), Role=role, **network)
    lab.permit(role, allow([*interfaces, "ec2:DescribeNetworkInterfaces"], "*"), itself)
    name = lab.function(textwrap.dedent(code), Role=role, **network)
    # Lambda may use these permissions of the role, and the function's code may not.
    assert "explicit deny" in lab.invoke(name)["errorMessage"]


def test_a_state_machines_own_role_calls_its_tasks(lab: Lab) -> None:
    name = lab.function("def handler(event, context): return 1\n")
    definition = {"StartAt": "Work", "States": {"Work": task(name, End=True)}}
    role = lab.role("states.amazonaws.com", allow("s3:GetObject", "*"))
    states = lab.client("stepfunctions")
    machine = lab.state_machine(definition, role)
    run = states.start_execution(stateMachineArn=machine)["executionArn"]
    execution = lab.finished(run)
    assert execution["status"] == "FAILED"
    assert "lambda:InvokeFunction" in execution["cause"]
    lab.permit(role, allow("lambda:InvokeFunction", function_arn(name)))
    run = states.start_execution(stateMachineArn=machine)["executionArn"]
    assert lab.finished(run)["output"] == "1"


def test_a_distributed_map_needs_permission_to_start_its_children(lab: Lab) -> None:
    definition = {
        "StartAt": "Each",
        "States": {
            "Each": {
                "Type": "Map",
                "ItemProcessor": {
                    "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
                    "StartAt": "Pass",
                    "States": {"Pass": {"Type": "Pass", "End": True}},
                },
                "End": True,
            }
        },
    }
    role = lab.role("states.amazonaws.com", allow("s3:GetObject", "*"))
    states = lab.client("stepfunctions")
    machine = lab.state_machine(definition, role)
    run = states.start_execution(stateMachineArn=machine, input="[1]")["executionArn"]
    execution = lab.finished(run)
    assert execution["status"] == "FAILED"
    assert f"states:StartExecution on resource: {machine}" in execution["cause"]
    lab.permit(role, allow("states:StartExecution", machine))
    run = states.start_execution(stateMachineArn=machine, input="[1]")["executionArn"]
    assert lab.finished(run)["output"] == "[1]"


def test_calls_are_recorded_with_the_roles_place_in_its_stack(lab: Lab, table: str) -> None:
    stack = lab.stack(
        f"""
        Resources:
          Reader:
            Type: AWS::IAM::Role
            Properties:
              AssumeRolePolicyDocument:
                Version: 2012-10-17
                Statement:
                  - {{Effect: Allow, Action: sts:AssumeRole,
                     Principal: {{Service: lambda.amazonaws.com}}}}
              Policies:
                - PolicyName: read
                  PolicyDocument:
                    Statement: [{{Effect: Allow, Action: dynamodb:GetItem, Resource: "{table}"}}]
        Outputs:
          Role: {{Value: !GetAtt Reader.Arn}}
        """
    )
    role = stack["Outputs"][0]["OutputValue"]
    name = name_of(table)
    client = lab.as_role(role, "dynamodb")
    for _ in range(3):
        client.get_item(TableName=name, Key={"pk": {"S": "1"}})
    refused(lab, role, "dynamodb", "scan", TableName=name)
    calls = eventually(
        lambda: [
            (call.logical_id, call.action, call.resource, call.allowed) for call in lab.calls(role)
        ],
        lambda rows: len(rows) >= 2,
    )
    assert calls == [
        ("Reader", "dynamodb:GetItem", table, True),
        ("Reader", "dynamodb:Scan", table, False),
    ]
    policies = deployed_policies(lab.client("cloudformation"), lab.client("iam"))
    assert policies["Reader"][0]["Action"] == "dynamodb:GetItem"
    record = lab.state_directory / RECORD_FILE
    rows = [row for row in table_of(lab.status, record) if "Reader" in row]
    assert rows == [
        ("Reader", "dynamodb:GetItem", "used", table),
        ("Reader", "dynamodb:Scan", "REFUSED", table),
    ]
    # A function may outlive its role's policies while its stack is deleted: it is refused, and that
    # is no finding.
    lab.client("iam").delete_role_policy(RoleName=name_of(role), PolicyName="read")
    refused(lab, role, "dynamodb", "describe_table", TableName=name)
    assert {call.action for call in lab.calls(role)} == {"dynamodb:GetItem", "dynamodb:Scan"}
