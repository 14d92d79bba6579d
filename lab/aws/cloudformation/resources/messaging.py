"""AWS::SQS::* and AWS::SNS::*"""

from __future__ import annotations

import json
from typing import Any

from ..model import Created, ResourceContext, ResourceType


class Queue(ResourceType):
    """A queue, as dead letters go to."""

    type = "AWS::SQS::Queue"

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

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        sns = context.client("sns")
        name = properties.get("TopicName") or context.physical_name(256)
        attributes = {
            key: _text(value)
            for key, value in properties.items()
            if key not in ("TopicName", "Tags", "Subscription")
        }
        arn = sns.create_topic(Name=name, Attributes=attributes)["TopicArn"]
        context.begin(arn)
        for subscription in properties.get("Subscription", []):
            sns.subscribe(TopicArn=arn, **subscription)
        return Created(arn, {"TopicArn": arn, "TopicName": name})

    def delete(self, context: ResourceContext) -> None:
        context.client("sns").delete_topic(TopicArn=context.state.physical_id)


class Subscription(ResourceType):
    """A subscription to a topic."""

    type = "AWS::SNS::Subscription"

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        arn = context.client("sns").subscribe(ReturnSubscriptionArn=True, **properties)
        return Created(arn["SubscriptionArn"])

    def delete(self, context: ResourceContext) -> None:
        context.client("sns").unsubscribe(SubscriptionArn=context.state.physical_id)
