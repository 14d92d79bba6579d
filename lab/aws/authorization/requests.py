"""Reads a request to the emulated AWS: its operation, its parameters, its condition keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moto.core.parse import PROTOCOL_PARSERS
from moto.core.request import determine_request_protocol
from moto.core.responses import BaseResponse
from moto.core.utils import get_service_model
from moto.dynamodb.models import dynamodb_backends
from moto.sns.models import sns_backends

from lab.aws.account import ACCOUNT_ID, REGION
from lab.aws.authorization.actions import Request
from lab.aws.kms import customer_key

# DynamoDB uses the table's key with the caller's permissions when it reads or writes items.
_ITEM_OPERATIONS = ("Item", "Items", "Query", "Scan")


def request_of(response: BaseResponse) -> Request | None:
    """The call that a service of moto is about to answer; None when it is no operation."""
    operation = response._get_action()
    if not operation:
        return None
    if response.automated_parameter_parsing:
        parameters: Mapping[str, Any] = {**dict(response.uri_match), **dict(response.params)}
    else:
        parameters = _parsed(response, operation)
    return Request(response.boto3_service_name, operation, parameters)


def _parsed(response: BaseResponse, operation: str) -> Mapping[str, Any]:
    """Parse the parameters by the service's model, for services that moto does not parse."""
    request = response.normalized_request
    model = get_service_model(response.boto3_service_name)
    protocol = determine_request_protocol(model, request.content_type)
    parser = PROTOCOL_PARSERS[protocol](model.operation_model(operation), map_type=dict)
    return dict(
        parser.parse(
            {
                "method": request.method,
                "values": request.values,
                "headers": request.headers,
                "body": request.data,
                "url_path": request.path,
                "url_params": response.uri_match,
            }
        )
    )


def context_of(request: Request) -> dict[str, list[str]]:
    """The condition keys that the request itself has."""
    tags = request.parameters.get("Tags") or request.parameters.get("tags") or {}
    if isinstance(tags, list):
        tags = {tag.get("Key", tag.get("key")): tag.get("Value", tag.get("value")) for tag in tags}
    context = {f"aws:requesttag/{key}".lower(): [str(value)] for key, value in tags.items()}
    if tags:
        context["aws:tagkeys"] = list(tags)
    # EKS tells which access policy is associated or taken away.
    if request.service == "eks" and request.parameters.get("policyArn"):
        context["eks:policyarn"] = [str(request.parameters["policyArn"])]
    return context


def topic_key(request: Request) -> tuple[str, str] | None:
    """ARN and key ARN of the topic of a message; None unless the key is customer-managed."""
    topic_arn = request.parameters.get("TopicArn")
    if request.service != "sns" or request.operation != "Publish" or not topic_arn:
        return None
    topic = sns_backends[ACCOUNT_ID][REGION].topics.get(topic_arn)
    key_arn = customer_key(topic.kms_master_key_id) if topic else None
    return (topic_arn, key_arn) if key_arn else None


def table_key(request: Request) -> tuple[str, str] | None:
    """Name and key ARN of an item operation's table; None unless the key is customer-managed."""
    name = request.parameters.get("TableName")
    if request.service != "dynamodb" or not name:
        return None
    if not request.operation.endswith(_ITEM_OPERATIONS):
        return None
    name = name.rsplit("/", 1)[-1]
    table = dynamodb_backends[ACCOUNT_ID][REGION].tables.get(name)
    settings = (table.sse_specification if table else None) or {}
    key_arn = customer_key(settings.get("KMSMasterKeyId")) if settings.get("Enabled") else None
    return (name, key_arn) if key_arn else None
