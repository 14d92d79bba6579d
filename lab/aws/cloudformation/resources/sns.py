"""AWS::SNS::*"""

from __future__ import annotations

import json
from typing import Any

from lab.aws.account import ACCOUNT_ID
from lab.aws.cloudformation.resource_type import Created, Properties, ResourceContext, ResourceType


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Topic(ResourceType):
    """A topic with its subscriptions."""

    type = "AWS::SNS::Topic"
    deletion = ("sns", "DeleteTopic", "TopicArn")
    properties = frozenset({"DisplayName", "KmsMasterKeyId", "Tags", "TopicName"})
    _attributes = ("DisplayName", "KmsMasterKeyId")

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        sns = context.client("sns")
        name = properties.get("TopicName") or context.physical_name(256)
        attributes = {key: _text(properties[key]) for key in self._attributes if key in properties}
        arn = sns.create_topic(
            Name=name, Attributes=attributes, Tags=context.tag_list(properties.get("Tags"))
        )["TopicArn"]
        context.begin(arn)
        return Created(arn, {"TopicArn": arn, "TopicName": name})

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> None:
        changed = {key for key in {*old, *new} if old.get(key) != new.get(key)}
        for key in changed - {"Tags"}:
            context.client("sns").set_topic_attributes(
                TopicArn=context.state.physical_id,
                AttributeName=key,
                AttributeValue=_text(new.get(key, "")),
            )


class TopicPolicy(ResourceType):
    """Who may publish to topics."""

    type = "AWS::SNS::TopicPolicy"
    properties = frozenset({"PolicyDocument", "Topics"})
    also_replacing = ("Topics",)

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        self._put(context, properties)
        identity = context.physical_name(100)
        return Created(identity, {"Id": identity})

    @staticmethod
    def _put(context: ResourceContext, properties: Properties) -> None:
        for topic in properties["Topics"]:
            context.client("sns").set_topic_attributes(
                TopicArn=topic,
                AttributeName="Policy",
                AttributeValue=json.dumps(properties["PolicyDocument"]),
            )

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> None:
        self._put(context, new)

    def delete(self, context: ResourceContext) -> None:
        for topic in context.state.properties["Topics"]:
            # A topic always has a policy, so restore SNS's own, which lets its owner do everything.
            owner = {
                "Version": "2008-10-17",
                "Statement": [
                    {
                        "Effect": "Allow",
                        "Principal": {"AWS": "*"},
                        "Action": ["SNS:Publish", "SNS:Subscribe"],
                        "Resource": topic,
                        "Condition": {"StringEquals": {"AWS:SourceOwner": ACCOUNT_ID}},
                    }
                ],
            }
            context.client("sns").set_topic_attributes(
                TopicArn=topic, AttributeName="Policy", AttributeValue=json.dumps(owner)
            )


class Subscription(ResourceType):
    """A subscription to a topic."""

    type = "AWS::SNS::Subscription"
    deletion = ("sns", "Unsubscribe", "SubscriptionArn")
    properties = frozenset({"Endpoint", "Protocol", "TopicArn"})

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        made = context.client("sns").subscribe(ReturnSubscriptionArn=True, **properties)
        return Created(made["SubscriptionArn"], {"Arn": made["SubscriptionArn"]})
