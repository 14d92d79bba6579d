"""What a template asks of a resource reaches the service, and what cannot reach it is refused."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

from lab.aws.authorization_record import RECORD_FILE, read_calls
from lab.aws.cloudformation.coercion import lost
from lab.aws.cloudformation.resources import resource_types

from .conftest import Lab, archive, eventually
from .templates import CLUSTER, NETWORK, node_group


def made(lab: Lab, template: str, **request: Any) -> dict[str, Any]:
    """The stack's outputs by name; the stack must succeed."""
    stack = lab.stack(template, **request)
    assert stack["StackStatus"] == "CREATE_COMPLETE", lab.reasons(stack["StackId"])
    found = {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}
    return {**found, "StackId": stack["StackId"], "StackName": stack["StackName"]}


def refused(lab: Lab, template: str) -> dict[str, str]:
    stack = lab.stack(template)
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    return lab.reasons(stack["StackId"], "CREATE_FAILED")


@pytest.mark.parametrize(
    ("kind", "known"),
    sorted(
        (kind, handler.properties)
        for kind, handler in resource_types().items()
        if handler.properties and kind.startswith("AWS::")
    ),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_property_carried_out_is_one_of_the_type(kind: str, known: frozenset[str]) -> None:
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", kind).schema
    assert known <= set(schema["properties"])


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
    found = made(
        lab,
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
          Out:
            Type: AWS::EC2::SecurityGroupEgress
            Properties:
              GroupId: !Ref Group
              IpProtocol: tcp
              FromPort: 53
              ToPort: "53"
              CidrIp: 10.0.0.0/8
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
    vpc = ec2.describe_vpcs(VpcIds=[found["Vpc"]])["Vpcs"][0]
    assert {item["CidrBlock"] for item in vpc["CidrBlockAssociationSet"]} == {
        "10.0.0.0/16",
        "100.64.0.0/16",
    }
    endpoints = {
        item["VpcEndpointId"]: item
        for item in ec2.describe_vpc_endpoints(
            VpcEndpointIds=[found["Interface"], found["Gateway"]]
        )["VpcEndpoints"]
    }
    interface = endpoints[found["Interface"]]
    assert interface["PrivateDnsEnabled"] is True
    assert [group["GroupId"] for group in interface["Groups"]] == [found["Group"]]
    assert {"Key": "what", "Value": "eks"} in interface["Tags"]
    assert "s3:*" in endpoints[found["Gateway"]]["PolicyDocument"]
    group = ec2.describe_security_groups(GroupIds=[found["Group"]])["SecurityGroups"][0]
    assert len(group["IpPermissions"]) == 2
    assert lab.delete(found["StackId"])["StackStatus"] == "DELETE_COMPLETE"


def test_a_launch_template_keeps_all_that_it_is_given(lab: Lab) -> None:
    found = made(
        lab,
        """
        Parameters: {Size: {Type: Number, Default: 20}, Express: {Type: String, Default: "true"}}
        Resources:
          Template:
            Type: AWS::EC2::LaunchTemplate
            Properties:
              TagSpecifications:
                - {ResourceType: launch-template, Tags: [{Key: own, Value: tag}]}
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
        LaunchTemplateId=found["Id"], Versions=["$Latest"]
    )["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    assert data["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] == 20
    express = data["NetworkInterfaces"][0]["EnaSrdSpecification"]
    assert express == {
        "EnaSrdEnabled": True,
        "EnaSrdUdpSpecification": {"EnaSrdUdpEnabled": True},
    }
    target = data["CapacityReservationSpecification"]["CapacityReservationTarget"]
    assert target["CapacityReservationId"] == "cr-0123456789abcdef0"
    template = ec2.describe_launch_templates(LaunchTemplateIds=[found["Id"]])["LaunchTemplates"][0]
    assert {"Key": "own", "Value": "tag"} in template["Tags"]


def test_what_an_api_did_not_keep_is_found() -> None:
    given = {"A": {"B": 1, "C": [{"D": 1}]}}
    assert lost(given, {"A": {"B": 1, "C": [{"D": 2, "E": 3}]}}) == []
    assert lost(given, {"A": {"B": 1, "C": [{}]}}) == ["#/A/C/0/D"]
    assert lost(given, {"A": {"C": []}}) == ["#/A/B", "#/A/C"]


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
    found = made(
        lab,
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
                  - {{Id: old, Status: Enabled, Prefix: runs/, ExpirationInDays: 30}}
                  - Status: Enabled
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
    assert kms.get_key_rotation_status(KeyId=found["Key"])["KeyRotationEnabled"]
    aliases = kms.list_aliases(KeyId=found["Key"])["Aliases"]
    assert [alias["AliasName"] for alias in aliases] == [f"alias/{found['StackName']}"]
    encryption = lab.client("s3").get_bucket_encryption(Bucket=found["Bucket"])
    rule = encryption["ServerSideEncryptionConfiguration"]["Rules"][0]
    assert rule["BucketKeyEnabled"] is True
    assert rule["ApplyServerSideEncryptionByDefault"]["KMSMasterKeyID"] == found["Key"]
    rules = lab.client("s3").get_bucket_lifecycle_configuration(Bucket=found["Bucket"])["Rules"]
    assert rules[0]["Expiration"]["Days"] == 30
    table = lab.client("dynamodb").describe_table(TableName=found["Table"])["Table"]
    assert table["SSEDescription"]["SSEType"] == "KMS"
    groups = lab.client("logs").describe_log_groups(logGroupNamePrefix=found["Log"])["logGroups"]
    assert groups[0]["kmsKeyId"] == found["Key"]
    assert lab.delete(found["StackId"])["StackStatus"] == "DELETE_COMPLETE"
    state = kms.describe_key(KeyId=found["Key"])["KeyMetadata"]["KeyState"]
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
    found = made(
        lab,
        """
        Resources:
          Topic:
            Type: AWS::SNS::Topic
            Properties:
              KmsMasterKeyId: alias/aws/sns
              Subscription: [{Protocol: email, Endpoint: someone@example.com}]
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
            Properties: {TopicArn: !Ref Topic, Protocol: email, Endpoint: other@example.com}
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
    attributes = sns.get_topic_attributes(TopicArn=found["Topic"])["Attributes"]
    assert "cloudwatch.amazonaws.com" in attributes["Policy"]
    assert attributes["KmsMasterKeyId"] == "alias/aws/sns"
    subscriptions = sns.list_subscriptions_by_topic(TopicArn=found["Topic"])["Subscriptions"]
    assert {item["Endpoint"] for item in subscriptions} == {
        "someone@example.com",
        "other@example.com",
    }
    alarm = cloudwatch.describe_alarms(AlarmNames=[found["Alarm"]])["MetricAlarms"][0]
    assert (alarm["Threshold"], alarm["AlarmActions"]) == (0.0, [found["Topic"]])
    body = cloudwatch.get_dashboard(DashboardName=found["Dashboard"])["DashboardBody"]
    assert json.loads(body) == {"widgets": []}
    assert lab.delete(found["StackId"])["StackStatus"] == "DELETE_COMPLETE"


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
    found = made(lab, CATALOGUE)
    # Glue folds names to lower case.
    assert re.fullmatch("runs_[0-9a-f]{8}", found["Database"])
    glue, cloudformation = lab.client("glue"), lab.client("cloudformation")
    place = {"DatabaseName": found["Database"], "Name": "trials"}
    table = glue.get_table(**place)["Table"]
    template = table["Parameters"]["storage.location.template"]
    assert template == f"s3://{found['StackName']}/day=${{day}}/"
    assert table["PartitionKeys"] == [{"Name": "day", "Type": "string"}]
    more = CATALOGUE.replace("[{Name: run_id,", "[{Name: block, Type: bigint}, {Name: run_id,")
    cloudformation.update_stack(StackName=found["StackId"], TemplateBody=more)
    assert lab.settled(found["StackId"])["StackStatus"] == "UPDATE_COMPLETE"
    columns = glue.get_table(**place)["Table"]["StorageDescriptor"]["Columns"]
    assert [column["Name"] for column in columns] == ["block", "run_id"]
    assert lab.delete(found["StackId"])["StackStatus"] == "DELETE_COMPLETE"
    names = [database["Name"] for database in glue.get_databases()["DatabaseList"]]
    assert found["Database"] not in names


def test_a_cluster_keeps_its_settings(lab: Lab) -> None:
    found = made(
        lab,
        f"""
        Resources:
        {KEY.replace(chr(10), chr(10) + "        ")}
        {NETWORK.replace(chr(10), chr(10) + "        ")}
        {CLUSTER.replace(chr(10), chr(10) + "        ")}
              EncryptionConfig: [{{Resources: [secrets], Provider: {{KeyArn: !GetAtt Key.Arn}}}}]
              Logging: {{ClusterLogging: {{EnabledTypes: [{{Type: audit}}]}}}}
          Addon:
            Type: AWS::EKS::Addon
            Properties:
              ClusterName: !Ref Cluster
              AddonName: vpc-cni
              AddonVersion: v1.20.0-eksbuild.1
              ConfigurationValues: '{{"env": {{"ENABLE_PREFIX_DELEGATION": "true"}}}}'
          Entry:
            Type: AWS::EKS::AccessEntry
            Properties:
              ClusterName: !Ref Cluster
              PrincipalArn: !GetAtt Role.Arn
              KubernetesGroups: [runners]
        Outputs:
          Cluster: {{Value: !Ref Cluster}}
          Key: {{Value: !GetAtt Key.Arn}}
        """,
    )
    eks = lab.client("eks")
    cluster = eks.describe_cluster(name=found["Cluster"])["cluster"]
    assert cluster["encryptionConfig"] == [
        {"resources": ["secrets"], "provider": {"keyArn": found["Key"]}}
    ]
    assert cluster["logging"]["clusterLogging"][0] == {"types": ["audit"], "enabled": True}
    assert cluster["accessConfig"]["authenticationMode"] == "API"
    addon = eks.describe_addon(clusterName=found["Cluster"], addonName="vpc-cni")["addon"]
    assert addon["addonVersion"] == "v1.20.0-eksbuild.1"
    assert "PREFIX" in addon["configurationValues"]


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
    boundary = iam.create_policy(
        PolicyName=f"boundary-{uuid.uuid4().hex[:8]}",
        PolicyDocument='{"Version": "2012-10-17", "Statement": [{"Effect": "Allow",'
        ' "Action": "*", "Resource": "*"}]}',
    )["Policy"]["Arn"]
    found = made(lab, template.format(arn=boundary))
    role = iam.get_role(RoleName=found["Role"])["Role"]
    assert role["PermissionsBoundary"]["PermissionsBoundaryArn"] == boundary
    reasons = refused(lab, template.format(arn="arn:aws:iam::123456789012:policy/none"))
    assert "NoSuchEntity" in reasons["Role"]


def test_tracing_and_keys_of_functions_and_state_machines_are_kept(lab: Lab) -> None:
    found = made(
        lab,
        f"""
        Resources:
        {KEY.replace(chr(10), chr(10) + "        ")}
          Work:
            Type: AWS::Lambda::Function
            Properties:
              Handler: index.handler
              Runtime: python3.13
              Role: {lab.role()}
              Code: {{ZipFile: "def handler(event, context): pass"}}
              KmsKeyArn: !GetAtt Key.Arn
              TracingConfig: {{Mode: Active}}
          Machine:
            Type: AWS::StepFunctions::StateMachine
            Properties:
              RoleArn: {lab.role("states.amazonaws.com")}
              TracingConfiguration: {{Enabled: "true"}}
              Definition: {{StartAt: A, States: {{A: {{Type: Succeed}}}}}}
        Outputs:
          Key: {{Value: !GetAtt Key.Arn}}
          Work: {{Value: !Ref Work}}
          Machine: {{Value: !Ref Machine}}
        """,
    )
    work = lab.client("lambda").get_function_configuration(FunctionName=found["Work"])
    assert work["TracingConfig"]["Mode"] == "Active"
    assert work["KMSKeyArn"] == found["Key"]
    machine = lab.client("stepfunctions").describe_state_machine(stateMachineArn=found["Machine"])
    assert machine["tracingConfiguration"] == {"enabled": True}


BUILDSPEC = "version: 0.2\nphases:\n  build:\n    commands: [docker build .]\n"

BUILD = """
Resources:
  Repository:
    Type: AWS::ECR::Repository
    Properties:
      EmptyOnDelete: true
      ImageTagMutability: IMMUTABLE
      EncryptionConfiguration: {EncryptionType: AES256}
      ImageScanningConfiguration: {ScanOnPush: true}
  Role:
    Type: AWS::IAM::Role
    Properties:
      AssumeRolePolicyDocument:
        Version: "2012-10-17"
        Statement: [{Effect: Allow, Action: sts:AssumeRole,
                     Principal: {Service: codebuild.amazonaws.com}}]
      Policies:
        - PolicyName: build
          PolicyDocument:
            Version: "2012-10-17"
            Statement:
              - {Effect: Allow, Action: ecr:GetAuthorizationToken, Resource: "*"}
              - {Effect: Allow, Action: s3:GetObject, Resource: "arn:aws:s3:::BUCKET/*"}
              - Effect: Allow
                Action: [ecr:BatchCheckLayerAvailability, ecr:InitiateLayerUpload,
                         ecr:UploadLayerPart, ecr:CompleteLayerUpload, ecr:PutImage]
                Resource: !GetAtt Repository.Arn
  Project:
    Type: AWS::CodeBuild::Project
    Properties:
      ServiceRole: !GetAtt Role.Arn
      Artifacts: {Type: NO_ARTIFACTS}
      Source: {Type: S3, Location: BUCKET/source.zip, BuildSpec: buildspec.yaml}
      TimeoutInMinutes: 15
      LogsConfig: {CloudWatchLogs: {Status: DISABLED}}
      Environment:
        Type: LINUX_CONTAINER
        ComputeType: BUILD_GENERAL1_SMALL
        Image: aws/codebuild/amazonlinux-x86_64-standard:5.0
        PrivilegedMode: true
        EnvironmentVariables: [{Name: REPOSITORY_URI, Value: !GetAtt Repository.RepositoryUri}]
Outputs:
  Repository: {Value: !Ref Repository}
  Uri: {Value: !GetAtt Repository.RepositoryUri}
  Role: {Value: !Ref Role}
  Project: {Value: !Ref Project}
"""


def built(lab: Lab, project: str, tag: str) -> dict[str, Any]:
    codebuild = lab.client("codebuild")
    started = codebuild.start_build(
        projectName=project,
        environmentVariablesOverride=[{"name": "IMAGE_TAG", "value": tag}] if tag else [],
    )["build"]
    assert (started["buildStatus"], started["buildComplete"]) == ("IN_PROGRESS", False)
    builds: dict[str, Any] = eventually(
        lambda: codebuild.batch_get_builds(ids=[started["id"]])["builds"][0],
        lambda found: found["buildComplete"],
    )
    return builds


def test_a_build_puts_an_image_where_nodes_find_it(lab: Lab, tmp_path: Path) -> None:
    bucket = lab.bucket()
    source = archive("", **{"buildspec.yaml": BUILDSPEC, "Dockerfile": "FROM scratch\n"})
    lab.client("s3").put_object(Bucket=bucket, Key="source.zip", Body=source)
    found = made(lab, BUILD.replace("BUCKET", bucket))
    build = built(lab, found["Project"], "1")
    assert build["buildStatus"] == "SUCCEEDED", build["phases"]
    assert [phase["phaseType"] for phase in build["phases"]][-1] == "COMPLETED"
    image = lab.client("ecr").describe_images(repositoryName=found["Repository"])
    assert image["imageDetails"][0]["imageTags"] == ["1"]
    assert image["imageDetails"][0]["imageDigest"].startswith("sha256:")
    digest = image["imageDetails"][0]["imageDigest"]
    assert lab.backend.images[-2:] == [f"{found['Uri']}:1", f"{found['Uri']}@{digest}"]

    failed = built(lab, found["Project"], "")
    assert failed["buildStatus"] == "FAILED"
    contexts = [context for phase in failed["phases"] for context in phase.get("contexts", [])]
    assert contexts[0]["message"] == "the environment variable IMAGE_TAG is not set"

    lab.client("iam").delete_role_policy(RoleName=found["Role"], PolicyName="build")
    failed = built(lab, found["Project"], "2")
    contexts = [context for phase in failed["phases"] for context in phase.get("contexts", [])]
    assert "s3:GetObject" in contexts[0]["message"]
    assert lab.delete(found["StackId"])["StackStatus"] == "DELETE_COMPLETE"


def test_the_stacks_own_image_is_built_by_its_template(lab: Lab) -> None:
    """The template and the function of the house, in the emulated CodeBuild and registry."""
    root = Path(__file__).parents[2]
    source = {file.name: file.read_text() for file in (root / "image").iterdir() if file.is_file()}
    bucket = lab.bucket()
    lab.client("s3").put_object(Bucket=bucket, Key="image.zip", Body=archive("", **source))
    template = (root / "templates" / "image.yaml").read_text()
    template = template.replace("../image/", f"s3://{bucket}/image.zip")
    key = made(
        lab, f"Resources:\n{KEY.replace('/mine/', '')}\nOutputs: {{K: {{Value: !GetAtt Key.Arn}}}}"
    )
    values = {
        "StackName": "s",
        "BucketName": bucket,
        "BucketArn": f"arn:aws:s3:::{bucket}",
        "LogRetentionDays": "7",
        "KeyArn": key["K"],
        "PermissionsBoundaryArn": "",
    }
    found = made(
        lab,
        template,
        Parameters=[{"ParameterKey": k, "ParameterValue": v} for k, v in values.items()],
    )
    uri, _, digest = found["ImageUri"].partition("@")
    assert uri in lab.backend.images
    assert f"{uri.rpartition(':')[0]}@{digest}" in lab.backend.images
    calls = read_calls(lab.state_directory / RECORD_FILE)
    refusals = [c for c in calls if found["StackName"] in c.role and not c.allowed]
    assert refusals == []
    assert lab.delete(found["StackId"])["StackStatus"] == "DELETE_COMPLETE"


def test_a_repository_with_images_stays_unless_it_is_to_be_emptied(lab: Lab) -> None:
    bucket = lab.bucket()
    source = archive("", **{"buildspec.yaml": BUILDSPEC})
    lab.client("s3").put_object(Bucket=bucket, Key="source.zip", Body=source)
    template = BUILD.replace("BUCKET", bucket).replace(
        "EmptyOnDelete: true", "EmptyOnDelete: false"
    )
    found = made(lab, template)
    assert built(lab, found["Project"], "1")["buildStatus"] == "SUCCEEDED"
    assert lab.delete(found["StackId"])["StackStatus"] == "DELETE_FAILED"
    assert "Repository" in lab.reasons(found["StackId"], "DELETE_FAILED")


def test_a_bucket_that_is_not_empty_stays(lab: Lab) -> None:
    found = made(
        lab,
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
    s3, bucket = lab.client("s3"), found["Bucket"]
    s3.put_object(Bucket=bucket, Key="runs/1", Body=b"x")
    s3.delete_object(Bucket=bucket, Key="runs/1")  # its version and a marker remain
    gone = lab.delete(found["StackId"])
    assert gone["StackStatus"] == "DELETE_FAILED"
    assert "[Bucket]" in gone["StackStatusReason"]
    reasons = lab.reasons(found["StackId"], "DELETE_FAILED")
    assert "The bucket you tried to delete is not empty" in reasons["Bucket"]
    assert "Kept" in lab.reasons(found["StackId"], "DELETE_SKIPPED")
    assert "Other" in lab.reasons(found["StackId"], "DELETE_COMPLETE")
    versions = s3.list_object_versions(Bucket=bucket)
    for version in versions["Versions"] + versions["DeleteMarkers"]:
        s3.delete_object(Bucket=bucket, Key=version["Key"], VersionId=version["VersionId"])
    assert lab.delete(found["StackId"])["StackStatus"] == "DELETE_COMPLETE"
    with pytest.raises(ClientError):
        s3.head_bucket(Bucket=bucket)


def test_an_update_scales_a_node_group_to_none_and_back(lab: Lab) -> None:
    template = (
        f"Resources:\n{NETWORK}{CLUSTER}"
        + node_group("Nodes", placement=None, instance_type="c5.large")
        + "Outputs: {Cluster: {Value: !Ref Cluster}}\n"
    )
    found = made(lab, template)
    cluster = lab.backend.clusters[found["Cluster"]]
    assert len(cluster.nodes) == 2
    for size in (0, 2):
        changed = template.replace("{MinSize: 2, MaxSize: 2, DesiredSize: 2}", "SIZES").replace(
            "SIZES", f'{{MinSize: "{size}", MaxSize: 2, DesiredSize: "{size}"}}'
        )
        lab.client("cloudformation").update_stack(
            StackName=found["StackId"], TemplateBody=changed, Capabilities=["CAPABILITY_IAM"]
        )
        settled = lab.settled(found["StackId"])
        assert settled["StackStatus"] == "UPDATE_COMPLETE", lab.reasons(found["StackId"])
        assert len(cluster.nodes) == size
    assert lab.delete(found["StackId"])["StackStatus"] == "DELETE_COMPLETE"
