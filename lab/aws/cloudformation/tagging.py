"""Sets a stack's new tags on the resources that it already has."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from lab.aws.cloudformation.resource_type import ResourceContext

LOG = logging.getLogger(__name__)

Tags = dict[str, str]


def retag(context: ResourceContext, properties: dict[str, Any]) -> bool:
    """Set the stack's current tags on a resource. Returns whether the lab can retag its type."""
    state = context.state
    put = _BY_TYPE.get(state.type)
    if state.type in _EC2_TYPES:
        put = _ec2
    if put is None:
        LOG.info("%s %s keeps the tags it has", state.type, state.logical_id)
        return False
    tags = context.tags(properties.get("Tags"))
    put(context, {key: value for key, value in tags.items() if not key.startswith("aws:")})
    return True


def _pairs(tags: Tags, key: str = "Key", value: str = "Value") -> list[dict[str, str]]:
    return [{key: name, value: content} for name, content in tags.items()]


def _ec2(context: ResourceContext, tags: Tags) -> None:
    attributes, physical_id = context.state.attributes, str(context.state.physical_id)
    identity = attributes["AllocationId"] if context.state.type == "AWS::EC2::EIP" else physical_id
    context.client("ec2").create_tags(Resources=[identity], Tags=_pairs(tags))


def _logs(context: ResourceContext, tags: Tags) -> None:
    context.client("logs").tag_log_group(logGroupName=context.state.physical_id, tags=tags)


def _role(context: ResourceContext, tags: Tags) -> None:
    context.client("iam").tag_role(RoleName=context.state.physical_id, Tags=_pairs(tags))


def _bucket(context: ResourceContext, tags: Tags) -> None:
    context.client("s3").put_bucket_tagging(
        Bucket=context.state.physical_id, Tagging={"TagSet": _pairs(tags)}
    )


def _queue(context: ResourceContext, tags: Tags) -> None:
    context.client("sqs").tag_queue(QueueUrl=context.state.physical_id, Tags=tags)


def _eks(context: ResourceContext, tags: Tags) -> None:
    attributes = context.state.attributes
    arn = attributes.get("Arn") or attributes["AccessEntryArn"]
    context.client("eks").tag_resource(resourceArn=arn, tags=tags)


def _by_arn(
    service: str, parameter: str, form: Callable[[Tags], Any], tags_parameter: str = "Tags"
) -> Callable[[ResourceContext, Tags], None]:
    def put(context: ResourceContext, tags: Tags) -> None:
        arn = context.state.attributes.get("Arn") or context.state.physical_id
        context.client(service).tag_resource(**{parameter: arn, tags_parameter: form(tags)})

    return put


# CloudFormation cannot change the tags of a placement group (tagUpdatable in its schema).
_EC2_TYPES = {
    f"AWS::EC2::{name}"
    for name in (
        "EIP",
        "InternetGateway",
        "LaunchTemplate",
        "NatGateway",
        "RouteTable",
        "SecurityGroup",
        "Subnet",
        "VPC",
        "VPCEndpoint",
    )
}
_BY_TYPE: dict[str, Callable[[ResourceContext, Tags], None]] = {
    "AWS::CloudWatch::Alarm": _by_arn("cloudwatch", "ResourceARN", _pairs),
    "AWS::DynamoDB::Table": _by_arn("dynamodb", "ResourceArn", _pairs),
    "AWS::ECR::Repository": _by_arn("ecr", "resourceArn", _pairs, "tags"),
    "AWS::EKS::AccessEntry": _eks,
    "AWS::EKS::Addon": _eks,
    "AWS::EKS::Cluster": _eks,
    "AWS::EKS::Nodegroup": _eks,
    "AWS::Events::Rule": _by_arn("events", "ResourceARN", _pairs),
    "AWS::IAM::Role": _role,
    "AWS::KMS::Key": _by_arn("kms", "KeyId", lambda tags: _pairs(tags, "TagKey", "TagValue")),
    "AWS::Lambda::Function": _by_arn("lambda", "Resource", dict),
    "AWS::Logs::LogGroup": _logs,
    "AWS::S3::Bucket": _bucket,
    "AWS::SNS::Topic": _by_arn("sns", "ResourceArn", _pairs),
    "AWS::SQS::Queue": _queue,
    "AWS::StepFunctions::StateMachine": _by_arn(
        "stepfunctions", "resourceArn", lambda tags: _pairs(tags, "key", "value"), "tags"
    ),
}
