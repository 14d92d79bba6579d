"""AWS::SNS::*"""

from __future__ import annotations

import json
from typing import Any

from lab.aws.account import ACCOUNT_ID
from lab.aws.cloudformation.api_resource import ApiResource, Call, names
from lab.aws.cloudformation.resource_type import (
    Created,
    Properties,
    ResourceContext,
    ResourceType,
    Tagging,
)

_ATTRIBUTES = ("DisplayName", "KmsMasterKeyId")


def _set(context: ResourceContext, topic: str, name: str, value: Any) -> None:
    request = {"TopicArn": topic, "AttributeName": name, "AttributeValue": value}
    context.call("sns", "SetTopicAttributes", request)


def _configure(context: ResourceContext, old: Properties, new: Properties) -> None:
    for name in _ATTRIBUTES:
        if old.get(name) != new.get(name):
            _set(context, str(context.state.physical_id), name, new.get(name, ""))


class TopicPolicy(ResourceType):
    """Who may publish to topics."""

    type = "AWS::SNS::TopicPolicy"
    properties = names("PolicyDocument Topics")
    also_replacing = ("Topics",)

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        self.update(context, {}, properties)
        return Created(context.physical_name(100))

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> None:
        for topic in new["Topics"]:
            _set(context, topic, "Policy", json.dumps(new["PolicyDocument"]))

    def delete(self, context: ResourceContext) -> None:
        for topic in context.state.properties["Topics"]:
            # A topic always has a policy, so restore SNS's own, which lets its owner do everything.
            statement = {
                "Effect": "Allow",
                "Principal": {"AWS": "*"},
                "Action": ["SNS:Publish", "SNS:Subscribe"],
                "Resource": topic,
                "Condition": {"StringEquals": {"AWS:SourceOwner": ACCOUNT_ID}},
            }
            owner = {"Version": "2008-10-17", "Statement": [statement]}
            _set(context, topic, "Policy", json.dumps(owner))


RESOURCES: tuple[ResourceType, ...] = (
    ApiResource(
        type="AWS::SNS::Topic",
        properties=names("DisplayName KmsMasterKeyId Tags TopicName"),
        name=("TopicName", 256),
        later=(*_ATTRIBUTES, "TopicName"),
        creation=Call("CreateTopic", Name="{TopicName}"),
        id="{TopicArn}",
        attributes={"TopicName": "{TopicName}"},
        configure=_configure,
        deletion=Call("DeleteTopic", TopicArn="{id}"),
        tagging=Tagging("sns", "TagResource", "ResourceArn", identity="{id}"),
    ),
    ApiResource(
        type="AWS::SNS::Subscription",
        properties=names("Endpoint Protocol TopicArn"),
        creation=Call("Subscribe", ReturnSubscriptionArn="true"),
        id="{SubscriptionArn}",
        deletion=Call("Unsubscribe", SubscriptionArn="{id}"),
    ),
    TopicPolicy(),
)
