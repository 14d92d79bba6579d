"""AWS::SQS::* and AWS::SNS::*"""

from __future__ import annotations

import json
from typing import Any

from ..model import Created, ResourceContext, ResourceType


class Queue(ResourceType):
    """A queue, as dead letters go to."""

    type = "AWS::SQS::Queue"
    properties = frozenset(
        {
            "DelaySeconds",
            "KmsMasterKeyId",
            "MessageRetentionPeriod",
            "QueueName",
            "RedrivePolicy",
            "SqsManagedSseEnabled",
            "Tags",
            "VisibilityTimeout",
        }
    )

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        sqs = context.client("sqs")
        name = properties.get("QueueName") or context.physical_name(80)
        attributes = {
            key: json.dumps(value) if isinstance(value, dict) else _text(value)
            for key, value in properties.items()
            if key not in ("QueueName", "Tags")
        }
        url = sqs.create_queue(
            QueueName=name, Attributes=attributes, tags=context.tags(properties.get("Tags"))
        )["QueueUrl"]
        services = context.services
        return Created(
            url,
            {
                "Arn": f"arn:aws:sqs:{services.region}:{services.account_id}:{name}",
                "QueueName": name,
                "QueueUrl": url,
            },
        )

    def delete(self, context: ResourceContext) -> None:
        context.client("sqs").delete_queue(QueueUrl=context.state.physical_id)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Topic(ResourceType):
    """A topic with its subscriptions."""

    type = "AWS::SNS::Topic"
    properties = frozenset(
        {
            "DisplayName",
            "FifoTopic",
            "KmsMasterKeyId",
            "SignatureVersion",
            "Subscription",
            "Tags",
            "TopicName",
            "TracingConfig",
        }
    )
    _attributes = (
        "DisplayName",
        "FifoTopic",
        "KmsMasterKeyId",
        "SignatureVersion",
        "TracingConfig",
    )

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        sns = context.client("sns")
        name = properties.get("TopicName") or context.physical_name(256)
        attributes = {key: _text(properties[key]) for key in self._attributes if key in properties}
        arn = sns.create_topic(
            Name=name, Attributes=attributes, Tags=context.tag_list(properties.get("Tags"))
        )["TopicArn"]
        context.begin(arn)
        for subscription in properties.get("Subscription", []):
            sns.subscribe(TopicArn=arn, **subscription)
        return Created(arn, {"TopicArn": arn, "TopicName": name})

    def update(
        self, context: ResourceContext, old: dict[str, Any], new: dict[str, Any]
    ) -> Created | None:
        changed = {key for key in {*old, *new} if old.get(key) != new.get(key)}
        if changed - {*self._attributes, "Tags"}:
            return None
        for key in changed - {"Tags"}:
            context.client("sns").set_topic_attributes(
                TopicArn=context.state.physical_id,
                AttributeName=key,
                AttributeValue=_text(new.get(key, "")),
            )
        return Created(str(context.state.physical_id), context.state.attributes)

    def delete(self, context: ResourceContext) -> None:
        context.client("sns").delete_topic(TopicArn=context.state.physical_id)


class TopicPolicy(ResourceType):
    """Who may publish to topics."""

    type = "AWS::SNS::TopicPolicy"
    properties = frozenset({"PolicyDocument", "Topics"})

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        self._put(context, properties)
        identity = context.physical_name(100)
        return Created(identity, {"Id": identity})

    @staticmethod
    def _put(context: ResourceContext, properties: dict[str, Any]) -> None:
        for topic in properties["Topics"]:
            context.client("sns").set_topic_attributes(
                TopicArn=topic,
                AttributeName="Policy",
                AttributeValue=json.dumps(properties["PolicyDocument"]),
            )

    def update(
        self, context: ResourceContext, old: dict[str, Any], new: dict[str, Any]
    ) -> Created | None:
        if old["Topics"] != new["Topics"]:
            return None
        self._put(context, new)
        return Created(str(context.state.physical_id), context.state.attributes)

    def delete(self, context: ResourceContext) -> None:
        services = context.services
        for topic in context.state.properties["Topics"]:
            # A topic has always a policy: SNS's own lets its owner do everything.
            owner = {
                "Version": "2008-10-17",
                "Statement": [
                    {
                        "Effect": "Allow",
                        "Principal": {"AWS": "*"},
                        "Action": ["SNS:Publish", "SNS:Subscribe"],
                        "Resource": topic,
                        "Condition": {"StringEquals": {"AWS:SourceOwner": services.account_id}},
                    }
                ],
            }
            context.client("sns").set_topic_attributes(
                TopicArn=topic, AttributeName="Policy", AttributeValue=json.dumps(owner)
            )


class Subscription(ResourceType):
    """A subscription to a topic."""

    type = "AWS::SNS::Subscription"
    properties = frozenset(
        {
            "DeliveryPolicy",
            "Endpoint",
            "FilterPolicy",
            "FilterPolicyScope",
            "Protocol",
            "RawMessageDelivery",
            "RedrivePolicy",
            "TopicArn",
        }
    )
    _direct = ("Endpoint", "Protocol", "TopicArn")

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        attributes = {
            key: json.dumps(value) if isinstance(value, dict) else _text(value)
            for key, value in properties.items()
            if key not in self._direct
        }
        made = context.client("sns").subscribe(
            ReturnSubscriptionArn=True,
            Attributes=attributes,
            **{key: properties[key] for key in self._direct if key in properties},
        )
        return Created(made["SubscriptionArn"], {"Arn": made["SubscriptionArn"]})

    def delete(self, context: ResourceContext) -> None:
        context.client("sns").unsubscribe(SubscriptionArn=context.state.physical_id)
