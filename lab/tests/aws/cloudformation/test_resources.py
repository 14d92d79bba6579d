"""A template's properties reach the service, and the lab refuses those that cannot."""

from __future__ import annotations

import json
import re

import pytest
from botocore.exceptions import ClientError
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

from lab.aws.cloudformation.coercion import lost
from lab.aws.cloudformation.resources import TYPES
from lab.tests.aws.cluster_templates import NETWORK
from lab.tests.aws.region import Lab, allow, eventually


def refused(lab: Lab, template: str) -> dict[str, str]:
    stack = lab.stack(template)
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    return lab.reasons(stack["StackId"], "CREATE_FAILED")


@pytest.mark.parametrize(
    ("kind", "names"),
    sorted((kind, tuple(handler.properties or ())) for kind, handler in TYPES.items()),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_property_carried_out_is_one_of_the_type(kind: str, names: tuple[str, ...]) -> None:
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", kind).schema
    assert set(names) <= set(schema["properties"])


def test_a_property_that_would_have_no_effect_fails_the_resource(lab: Lab) -> None:
    reasons = refused(
        lab,
        """
        Resources:
          Log: {Type: AWS::Logs::LogGroup, Properties: {LogGroupNme: x}}
        """,
    )
    assert "unsupported property LogGroupNme" in reasons["Log"]
    reasons = refused(
        lab,
        """
        Resources:
          Template:
            Type: AWS::EC2::LaunchTemplate
            Properties: {LaunchTemplateData: {Placement: {GroupNme: x}}}
        """,
    )
    assert "#/LaunchTemplateData/Placement: extraneous key [GroupNme]" in reasons["Template"]


def test_network_of_private_nodes(lab: Lab) -> None:
    stack = lab.created(
        f"""
        Resources:
        {NETWORK.replace(chr(10), chr(10) + "        ")}
          Second:
            Type: AWS::EC2::VPCCidrBlock
            Properties: {{VpcId: !Ref Vpc, CidrBlock: 100.64.0.0/16}}
          Group:
            Type: AWS::EC2::SecurityGroup
            Properties:
              GroupDescription: endpoints
              VpcId: !Ref Vpc
              SecurityGroupIngress:
                - {{IpProtocol: tcp, FromPort: 443, ToPort: 443, CidrIp: !GetAtt Vpc.CidrBlock}}
          Rule:
            Type: AWS::EC2::SecurityGroupIngress
            Properties:
              GroupId: !GetAtt Group.GroupId
              IpProtocol: "-1"
              SourceSecurityGroupId: !Ref Group
          Table: {{Type: AWS::EC2::RouteTable, Properties: {{VpcId: !Ref Vpc}}}}
          Gateway:
            Type: AWS::EC2::VPCEndpoint
            Properties:
              VpcId: !Ref Vpc
              ServiceName: !Sub com.amazonaws.${{AWS::Region}}.s3
              RouteTableIds: [!Ref Table]
              PolicyDocument:
                Statement: [{{Effect: Allow, Principal: "*", Action: "s3:*", Resource: "*"}}]
          Interface:
            Type: AWS::EC2::VPCEndpoint
            Properties:
              VpcId: !Ref Vpc
              ServiceName: !Sub com.amazonaws.${{AWS::Region}}.eks
              VpcEndpointType: Interface
              PrivateDnsEnabled: "true"
              SecurityGroupIds: [!Ref Group]
              SubnetIds: [!Ref SubnetA]
              Tags: [{{Key: what, Value: eks}}]
        Outputs:
          Vpc: {{Value: !Ref Vpc}}
          Group: {{Value: !Ref Group}}
          Interface: {{Value: !Ref Interface}}
          Gateway: {{Value: !Ref Gateway}}
        """,
    )
    ec2 = lab.client("ec2")
    vpc = ec2.describe_vpcs(VpcIds=[stack["Vpc"]])["Vpcs"][0]
    assert {item["CidrBlock"] for item in vpc["CidrBlockAssociationSet"]} == {
        "10.0.0.0/16",
        "100.64.0.0/16",
    }
    endpoints = {
        item["VpcEndpointId"]: item
        for item in ec2.describe_vpc_endpoints(
            VpcEndpointIds=[stack["Interface"], stack["Gateway"]]
        )["VpcEndpoints"]
    }
    interface = endpoints[stack["Interface"]]
    assert interface["PrivateDnsEnabled"] is True
    assert [group["GroupId"] for group in interface["Groups"]] == [stack["Group"]]
    assert {"Key": "what", "Value": "eks"} in interface["Tags"]
    assert "s3:*" in endpoints[stack["Gateway"]]["PolicyDocument"]
    group = ec2.describe_security_groups(GroupIds=[stack["Group"]])["SecurityGroups"][0]
    assert len(group["IpPermissions"]) == 2
    assert lab.delete(stack["StackId"])["StackStatus"] == "DELETE_COMPLETE"


def test_a_launch_template_keeps_all_that_it_is_given(lab: Lab) -> None:
    stack = lab.created(
        """
        Parameters: {Size: {Type: Number, Default: 20}, Express: {Type: String, Default: "true"}}
        Resources:
          Template:
            Type: AWS::EC2::LaunchTemplate
            Properties:
              LaunchTemplateData:
                InstanceType: c5n.large
                UserData: {"Fn::Base64": "Content-Type: text/plain"}
                MetadataOptions: {HttpTokens: required, HttpPutResponseHopLimit: 1}
                CapacityReservationSpecification:
                  CapacityReservationTarget: {CapacityReservationId: cr-0123456789abcdef0}
                BlockDeviceMappings:
                  - DeviceName: /dev/xvda
                    Ebs: {VolumeSize: !Ref Size, VolumeType: gp3, Encrypted: true}
                NetworkInterfaces:
                  - DeviceIndex: 0
                    Groups: [sg-1]
                    EnaSrdSpecification:
                      EnaSrdEnabled: !Ref Express
                      EnaSrdUdpSpecification: {EnaSrdUdpEnabled: true}
                TagSpecifications:
                  - {ResourceType: instance, Tags: [{Key: a, Value: "1"}]}
                  - {ResourceType: volume, Tags: [{Key: a, Value: "1"}]}
        Outputs:
          Id: {Value: !Ref Template}
        """,
    )
    ec2 = lab.client("ec2")
    data = ec2.describe_launch_template_versions(
        LaunchTemplateId=stack["Id"], Versions=["$Latest"]
    )["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    assert data["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] == 20
    express = data["NetworkInterfaces"][0]["EnaSrdSpecification"]
    assert express == {
        "EnaSrdEnabled": True,
        "EnaSrdUdpSpecification": {"EnaSrdUdpEnabled": True},
    }
    target = data["CapacityReservationSpecification"]["CapacityReservationTarget"]
    assert target["CapacityReservationId"] == "cr-0123456789abcdef0"


def test_what_an_api_did_not_keep_is_found() -> None:
    sent = {"A": {"B": 1, "C": [{"D": 1}]}}
    assert lost(sent, {"A": {"B": 1, "C": [{"D": 2, "E": 3}]}}) == []
    assert lost(sent, {"A": {"B": 1, "C": [{}]}}) == ["#/A/C/0/D"]
    assert lost(sent, {"A": {"C": []}}) == ["#/A/B", "#/A/C"]


KEY = """
  Key:
    Type: AWS::KMS::Key
    Properties:
      Description: results
      EnableKeyRotation: true
      PendingWindowInDays: 7
      KeyPolicy:
        Version: "2012-10-17"
        Statement:
          - {Effect: Allow, Principal: {AWS: !Sub "arn:aws:iam::${AWS::AccountId}:root"},
             Action: "kms:*", Resource: "*"}
          - Effect: Allow
            Principal: {Service: !Sub "logs.${AWS::Region}.amazonaws.com"}
            Action: [kms:Encrypt, kms:Decrypt, "kms:ReEncrypt*", "kms:GenerateDataKey*",
                     kms:DescribeKey]
            Resource: "*"
            Condition:
              ArnLike:
                kms:EncryptionContext:aws:logs:arn:
                  !Sub "arn:aws:logs:${AWS::Region}:${AWS::AccountId}:log-group:/mine/*"
"""


def test_a_customers_key_encrypts_results_and_logs(lab: Lab) -> None:
    stack = lab.created(
        f"""
        Resources:
        {KEY.replace(chr(10), chr(10) + "        ")}
          Alias:
            Type: AWS::KMS::Alias
            Properties: {{AliasName: !Sub "alias/${{AWS::StackName}}", TargetKeyId: !Ref Key}}
          Log:
            Type: AWS::Logs::LogGroup
            Properties:
              LogGroupName: !Sub /mine/${{AWS::StackName}}
              KmsKeyId: !GetAtt Key.Arn
          Bucket:
            Type: AWS::S3::Bucket
            Properties:
              BucketEncryption:
                ServerSideEncryptionConfiguration:
                  - BucketKeyEnabled: true
                    ServerSideEncryptionByDefault:
                      SSEAlgorithm: aws:kms
                      KMSMasterKeyID: !GetAtt Key.Arn
              LifecycleConfiguration:
                Rules:
                  - Id: abort
                    Status: Enabled
                    AbortIncompleteMultipartUpload: {{DaysAfterInitiation: 1}}
          Table:
            Type: AWS::DynamoDB::Table
            Properties:
              BillingMode: PAY_PER_REQUEST
              AttributeDefinitions: [{{AttributeName: pk, AttributeType: S}}]
              KeySchema: [{{AttributeName: pk, KeyType: HASH}}]
              SSESpecification:
                SSEEnabled: "true"
                SSEType: KMS
                KMSMasterKeyId: !Ref Key
        Outputs:
          Key: {{Value: !GetAtt Key.Arn}}
          Bucket: {{Value: !Ref Bucket}}
          Table: {{Value: !Ref Table}}
          Log: {{Value: !Ref Log}}
        """,
    )
    kms = lab.client("kms")
    assert kms.get_key_rotation_status(KeyId=stack["Key"])["KeyRotationEnabled"]
    aliases = kms.list_aliases(KeyId=stack["Key"])["Aliases"]
    assert [alias["AliasName"] for alias in aliases] == [f"alias/{stack['StackName']}"]
    encryption = lab.client("s3").get_bucket_encryption(Bucket=stack["Bucket"])
    rule = encryption["ServerSideEncryptionConfiguration"]["Rules"][0]
    assert rule["BucketKeyEnabled"] is True
    assert rule["ApplyServerSideEncryptionByDefault"]["KMSMasterKeyID"] == stack["Key"]
    rules = lab.client("s3").get_bucket_lifecycle_configuration(Bucket=stack["Bucket"])["Rules"]
    assert rules[0]["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 1}
    table = lab.client("dynamodb").describe_table(TableName=stack["Table"])["Table"]
    assert table["SSEDescription"]["SSEType"] == "KMS"
    groups = lab.client("logs").describe_log_groups(logGroupNamePrefix=stack["Log"])["logGroups"]
    assert groups[0]["kmsKeyId"] == stack["Key"]
    assert lab.delete(stack["StackId"])["StackStatus"] == "DELETE_COMPLETE"
    state = kms.describe_key(KeyId=stack["Key"])["KeyMetadata"]["KeyState"]
    assert state == "PendingDeletion"


def test_a_log_group_is_refused_a_key_that_its_service_may_not_use(lab: Lab) -> None:
    reasons = refused(
        lab,
        f"""
        Resources:
        {KEY.replace(chr(10), chr(10) + "        ")}
          Log:
            Type: AWS::Logs::LogGroup
            Properties: {{LogGroupName: /another/group, KmsKeyId: !GetAtt Key.Arn}}
        """,
    )
    assert "logs.us-east-1.amazonaws.com kms:Encrypt" in reasons["Log"]


def test_alarms_reach_a_topic(lab: Lab) -> None:
    stack = lab.created(
        """
        Resources:
          Topic:
            Type: AWS::SNS::Topic
            Properties: {KmsMasterKeyId: alias/aws/sns}
          Policy:
            Type: AWS::SNS::TopicPolicy
            Properties:
              Topics: [!Ref Topic]
              PolicyDocument:
                Version: "2012-10-17"
                Statement:
                  - {Effect: Allow, Principal: {Service: cloudwatch.amazonaws.com},
                     Action: sns:Publish, Resource: !Ref Topic}
          More:
            Type: AWS::SNS::Subscription
            Properties: {TopicArn: !Ref Topic, Protocol: email, Endpoint: someone@example.com}
          Alarm:
            Type: AWS::CloudWatch::Alarm
            Properties:
              Namespace: rackrate
              MetricName: RunsFailed
              Dimensions: [{Name: service, Value: x}]
              Statistic: Sum
              Period: "300"
              EvaluationPeriods: "1"
              Threshold: "0"
              ComparisonOperator: GreaterThanThreshold
              TreatMissingData: notBreaching
              AlarmActions: [!Ref Topic]
          Dashboard:
            Type: AWS::CloudWatch::Dashboard
            Properties: {DashboardBody: '{"widgets": []}'}
        Outputs:
          Topic: {Value: !Ref Topic}
          Alarm: {Value: !Ref Alarm}
          Dashboard: {Value: !Ref Dashboard}
        """,
    )
    sns, cloudwatch = lab.client("sns"), lab.client("cloudwatch")
    attributes = sns.get_topic_attributes(TopicArn=stack["Topic"])["Attributes"]
    assert "cloudwatch.amazonaws.com" in attributes["Policy"]
    assert attributes["KmsMasterKeyId"] == "alias/aws/sns"
    subscriptions = sns.list_subscriptions_by_topic(TopicArn=stack["Topic"])["Subscriptions"]
    assert [item["Endpoint"] for item in subscriptions] == ["someone@example.com"]
    alarm = cloudwatch.describe_alarms(AlarmNames=[stack["Alarm"]])["MetricAlarms"][0]
    assert (alarm["Threshold"], alarm["AlarmActions"]) == (0.0, [stack["Topic"]])
    body = cloudwatch.get_dashboard(DashboardName=stack["Dashboard"])["DashboardBody"]
    assert json.loads(body) == {"widgets": []}
    assert lab.delete(stack["StackId"])["StackStatus"] == "DELETE_COMPLETE"


CATALOGUE = """
Resources:
  Database:
    Type: AWS::Glue::Database
    Properties:
      CatalogId: !Ref AWS::AccountId
      DatabaseInput:
        Name: !Sub
          - Runs_${Id}
          - Id: !Select [0, !Split ["-", !Select [2, !Split ["/", !Ref AWS::StackId]]]]
  Table:
    Type: AWS::Glue::Table
    Properties:
      CatalogId: !Ref AWS::AccountId
      DatabaseName: !Ref Database
      TableInput:
        Name: trials
        TableType: EXTERNAL_TABLE
        Parameters:
          storage.location.template: !Sub s3://${AWS::StackName}/day=${!day}/
        PartitionKeys: [{Name: day, Type: string}]
        StorageDescriptor:
          Columns: [{Name: run_id, Type: string}]
Outputs:
  Database: {Value: !Ref Database}
"""


def test_a_catalogue_of_tables_is_made_changed_and_deleted(lab: Lab) -> None:
    stack = lab.created(CATALOGUE)
    # Glue changes names to lower case.
    assert re.fullmatch("runs_[0-9a-f]{8}", stack["Database"])
    glue = lab.client("glue")
    place = {"DatabaseName": stack["Database"], "Name": "trials"}
    table = glue.get_table(**place)["Table"]
    template = table["Parameters"]["storage.location.template"]
    assert template == f"s3://{stack['StackName']}/day=${{day}}/"
    assert table["PartitionKeys"] == [{"Name": "day", "Type": "string"}]
    more = CATALOGUE.replace("[{Name: run_id,", "[{Name: block, Type: bigint}, {Name: run_id,")
    assert lab.update(stack["StackId"], more) == "UPDATE_COMPLETE"
    columns = glue.get_table(**place)["Table"]["StorageDescriptor"]["Columns"]
    assert [column["Name"] for column in columns] == ["block", "run_id"]
    assert lab.delete(stack["StackId"])["StackStatus"] == "DELETE_COMPLETE"
    names = [database["Name"] for database in glue.get_databases()["DatabaseList"]]
    assert stack["Database"] not in names


def test_a_role_keeps_its_boundary_and_must_have_one_that_exists(lab: Lab) -> None:
    template = """
        Parameters: {{Boundary: {{Type: String, Default: "{arn}"}}}}
        Resources:
          Role:
            Type: AWS::IAM::Role
            Properties:
              PermissionsBoundary: !Ref Boundary
              AssumeRolePolicyDocument:
                Version: "2012-10-17"
                Statement: [{{Effect: Allow, Action: sts:AssumeRole,
                             Principal: {{Service: lambda.amazonaws.com}}}}]
        Outputs:
          Role: {{Value: !Ref Role}}
    """
    iam = lab.client("iam")
    boundary = lab.policy(allow("*", "*"))
    stack = lab.created(template.format(arn=boundary))
    role = iam.get_role(RoleName=stack["Role"])["Role"]
    assert role["PermissionsBoundary"]["PermissionsBoundaryArn"] == boundary
    reasons = refused(lab, template.format(arn="arn:aws:iam::123456789012:policy/none"))
    assert "NoSuchEntity" in reasons["Role"]


def test_tracing_of_functions_and_state_machines_is_kept(lab: Lab) -> None:
    stack = lab.created(
        f"""
        Resources:
          Work:
            Type: AWS::Lambda::Function
            Properties:
              Handler: index.handler
              Runtime: python3.13
              Role: {lab.role()}
              Code: {{ZipFile: "def handler(event, context): pass"}}
              TracingConfig: {{Mode: Active}}
          Machine:
            Type: AWS::StepFunctions::StateMachine
            Properties:
              RoleArn: {lab.role("states.amazonaws.com")}
              TracingConfiguration: {{Enabled: "true"}}
              Definition: {{StartAt: A, States: {{A: {{Type: Succeed}}}}}}
        Outputs:
          Work: {{Value: !Ref Work}}
          Machine: {{Value: !Ref Machine}}
        """,
    )
    work = lab.client("lambda").get_function_configuration(FunctionName=stack["Work"])
    assert work["TracingConfig"]["Mode"] == "Active"
    machine = lab.client("stepfunctions").describe_state_machine(stateMachineArn=stack["Machine"])
    assert machine["tracingConfiguration"] == {"enabled": True}


def test_a_bucket_that_is_not_empty_stays(lab: Lab) -> None:
    stack = lab.created(
        """
        Resources:
          Bucket:
            Type: AWS::S3::Bucket
            Properties: {VersioningConfiguration: {Status: Enabled}}
          Kept: {Type: AWS::Logs::LogGroup, DeletionPolicy: Retain}
          Other: {Type: AWS::Logs::LogGroup}
        Outputs: {Bucket: {Value: !Ref Bucket}}
        """,
    )
    s3, bucket = lab.client("s3"), stack["Bucket"]
    s3.put_object(Bucket=bucket, Key="runs/1", Body=b"x")
    s3.delete_object(Bucket=bucket, Key="runs/1")  # a version and a delete marker remain
    deleted = lab.delete(stack["StackId"])
    assert deleted["StackStatus"] == "DELETE_FAILED"
    assert "[Bucket]" in deleted["StackStatusReason"]
    reasons = lab.reasons(stack["StackId"], "DELETE_FAILED")
    assert "The bucket you tried to delete is not empty" in reasons["Bucket"]
    assert "Kept" in lab.reasons(stack["StackId"], "DELETE_SKIPPED")
    assert "Other" in lab.reasons(stack["StackId"], "DELETE_COMPLETE")
    versions = s3.list_object_versions(Bucket=bucket)
    for version in versions["Versions"] + versions["DeleteMarkers"]:
        s3.delete_object(Bucket=bucket, Key=version["Key"], VersionId=version["VersionId"])
    assert lab.delete(stack["StackId"])["StackStatus"] == "DELETE_COMPLETE"
    with pytest.raises(ClientError):
        s3.head_bucket(Bucket=bucket)


def test_a_network_stays_while_a_guest_is_in_it(lab: Lab) -> None:
    outputs = "Outputs: {Vpc: {Value: !Ref Vpc}, Subnet: {Value: !Ref SubnetA}}"
    stack = lab.created(f"Resources:{NETWORK}{outputs}")
    ec2, vpc, subnet = lab.client("ec2"), stack["Vpc"], stack["Subnet"]
    group = ec2.create_security_group(VpcId=vpc, GroupName="guest", Description="A guest's.")
    group_id = group["GroupId"]
    guest = ec2.create_network_interface(SubnetId=subnet, Groups=[group_id])["NetworkInterface"]
    with pytest.raises(ClientError, match=f"resource {group_id} has a dependent object"):
        ec2.delete_security_group(GroupId=group_id)
    assert lab.delete(stack["StackId"])["StackStatus"] == "DELETE_FAILED"
    reasons = lab.reasons(stack["StackId"], "DELETE_FAILED")
    assert f"The subnet '{subnet}' has dependencies and cannot be deleted" in reasons["SubnetA"]
    ec2.delete_network_interface(NetworkInterfaceId=guest["NetworkInterfaceId"])
    assert lab.delete(stack["StackId"])["StackStatus"] == "DELETE_FAILED"
    reasons = lab.reasons(stack["StackId"], "DELETE_FAILED")
    assert f"The vpc '{vpc}' has dependencies and cannot be deleted" in reasons["Vpc"]
    ec2.delete_security_group(GroupId=group_id)
    assert lab.delete(stack["StackId"])["StackStatus"] == "DELETE_COMPLETE"


def test_an_interface_endpoint_holds_its_security_group_until_it_is_deleted(lab: Lab) -> None:
    outputs = "Outputs: {Vpc: {Value: !Ref Vpc}, Subnet: {Value: !Ref SubnetA}}"
    stack = lab.created(f"Resources:{NETWORK}{outputs}")
    ec2, vpc = lab.client("ec2"), stack["Vpc"]
    group = ec2.create_security_group(VpcId=vpc, GroupName="guest", Description="A guest's.")
    endpoint = ec2.create_vpc_endpoint(
        VpcId=vpc,
        VpcEndpointType="Interface",
        ServiceName="com.amazonaws.us-east-1.guardduty-data",
        SubnetIds=[stack["Subnet"]],
        SecurityGroupIds=[group["GroupId"]],
    )["VpcEndpoint"]["VpcEndpointId"]
    with pytest.raises(ClientError, match="has a dependent object"):
        ec2.delete_security_group(GroupId=group["GroupId"])
    ec2.delete_vpc_endpoints(VpcEndpointIds=[endpoint])
    eventually(
        lambda: ec2.describe_vpc_endpoints(VpcEndpointIds=[endpoint])["VpcEndpoints"][0]["State"],
        lambda state: state == "deleted",
    )
    ec2.delete_security_group(GroupId=group["GroupId"])
    assert lab.delete(stack["StackId"])["StackStatus"] == "DELETE_COMPLETE"
