"""The resource types that this CloudFormation supports."""

from __future__ import annotations

from lab.aws.awslambda.runtime import LambdaRuntime
from lab.aws.cloudformation.engine import Engine
from lab.aws.cloudformation.resource_type import ResourceType
from lab.aws.cloudformation.resources import (
    awslambda,
    cloudwatch,
    codebuild,
    dynamodb,
    ec2,
    ecr,
    eks,
    event_bridge,
    glue,
    iam,
    kms,
    logs,
    s3,
    scheduler,
    sns,
    step_functions,
)
from lab.aws.cloudformation.resources.custom_resources import (
    CustomResource,
    CustomResourceResponses,
)
from lab.aws.cloudformation.resources.nested_stacks import NestedStack
from lab.aws.cloudformation.stacks import Stacks

#: The types that need only a resource's context.
_BY_API: tuple[type[ResourceType], ...] = (
    awslambda.Function,
    awslambda.LambdaAlias,
    awslambda.Permission,
    awslambda.Version,
    cloudwatch.Alarm,
    cloudwatch.Dashboard,
    codebuild.Project,
    dynamodb.DynamoDbTable,
    ec2.Ec2PlacementGroup,
    ec2.ElasticIp,
    ec2.InternetGateway,
    ec2.LaunchTemplate,
    ec2.NatGateway,
    ec2.Route,
    ec2.RouteTable,
    ec2.SecurityGroup,
    ec2.SecurityGroupIngress,
    ec2.Subnet,
    ec2.SubnetRouteTableAssociation,
    ec2.Vpc,
    ec2.VpcCidrBlock,
    ec2.VpcEndpoint,
    ec2.VpcGatewayAttachment,
    ecr.Repository,
    eks.Addon,
    eks.EksAccessEntry,
    eks.EksCluster,
    eks.Nodegroup,
    event_bridge.Rule,
    glue.GlueDatabase,
    glue.GlueTable,
    iam.ManagedPolicy,
    iam.OidcProvider,
    iam.RolePolicy,
    iam.Role,
    kms.Key,
    kms.KmsAlias,
    logs.LogGroup,
    s3.Bucket,
    s3.BucketPolicy,
    scheduler.Schedule,
    sns.Subscription,
    sns.Topic,
    sns.TopicPolicy,
    step_functions.StateMachine,
)

_ALL: tuple[type[ResourceType], ...] = (*_BY_API, CustomResource, NestedStack)
TYPES = {each.type: each for each in _ALL}


def resource_types(
    engine: Engine, *, stacks: Stacks, runtime: LambdaRuntime, responses: CustomResourceResponses
) -> dict[str, ResourceType]:
    """A handler for every type, by the type's name."""
    return {
        **{each.type: each() for each in _BY_API},
        CustomResource.type: CustomResource(runtime, responses),
        NestedStack.type: NestedStack(engine, stacks),
    }
