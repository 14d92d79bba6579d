"""Reads a request to the emulated AWS: its operation, its parameters, its condition keys."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from moto.core.parse import PROTOCOL_PARSERS
from moto.core.request import determine_request_protocol
from moto.core.responses import BaseResponse
from moto.core.utils import get_service_model
from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.parsing.key_condition_expression import parse_expression
from moto.sns.models import sns_backends
from werkzeug.exceptions import HTTPException

from lab.aws.account import ACCOUNT_ID, REGION
from lab.aws.authorization.actions import Need, Parameters, Request
from lab.aws.iam.policies import Context
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
    if request.service == "dynamodb":
        # moto refuses a request that it cannot read, or whose table does not exist, by itself.
        with contextlib.suppress(HTTPException):
            context |= _of_items(request.parameters)
    # EKS reports which access policy is associated or taken away.
    if request.service == "eks" and request.parameters.get("policyArn"):
        context["eks:policyarn"] = [str(request.parameters["policyArn"])]
    return context


def _of_items(parameters: Parameters) -> dict[str, list[str]]:
    """DynamoDB's keys on items: their partition keys, and the attributes of an item that is put.

    Of the attributes in expressions, only those that `ExpressionAttributeNames` names are known.
    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/specifying-conditions.html
    """
    names = parameters.get("ExpressionAttributeNames", {})
    values = parameters.get("ExpressionAttributeValues", {})
    partitions: list[str] = []
    for table, part in _of_tables(parameters):
        schema = dynamodb_backends[ACCOUNT_ID][REGION].get_schema(table, part.get("IndexName"))
        if condition := part.get("KeyConditionExpression"):
            keys = dict(parse_expression(condition, values, names, schema)[0])
        else:
            keys = part.get("Item") or part["Key"]
        partitions += keys.get(schema[0]["AttributeName"], {}).values()
    context = {"dynamodb:leadingkeys": partitions} if partitions else {}
    if "Item" in parameters:
        context["dynamodb:attributes"] = [*parameters["Item"], *names.values()]
    return context


def _of_tables(parameters: Parameters) -> Iterator[tuple[str, Parameters]]:
    """The parts of a request to DynamoDB that have an item, a key or a condition on one."""
    for table, request in parameters.get("RequestItems", {}).items():
        if "Keys" in request:  # BatchGetItem
            parts = [{"Key": key} for key in request["Keys"]]
        else:  # BatchWriteItem
            parts = [part for write in request for part in write.values()]
        yield from ((table, part) for part in parts)
    if not parameters.keys().isdisjoint(("Item", "Key", "KeyConditionExpression")):
        yield parameters["TableName"], parameters


def key_needs(request: Request) -> tuple[list[Need], Context]:
    """The uses of the customer-managed key of a table or a topic that a call needs, if any.

    Returns them with their condition keys.
    """
    service, operation, parameters = request.service, request.operation, request.parameters
    table_name, topic_arn = parameters.get("TableName"), parameters.get("TopicArn")
    if service == "dynamodb" and table_name and operation.endswith(_ITEM_OPERATIONS):
        table_name = table_name.rsplit("/", 1)[-1]
        table = dynamodb_backends[ACCOUNT_ID][REGION].tables.get(table_name)
        settings = (table.sse_specification if table else None) or {}
        key_id = settings.get("KMSMasterKeyId") if settings.get("Enabled") else None
        actions, encrypted = ["kms:Decrypt"], ("tablename", table_name)
    elif service == "sns" and topic_arn and operation == "Publish":
        topic = sns_backends[ACCOUNT_ID][REGION].topics.get(topic_arn)
        key_id = topic.kms_master_key_id if topic else None
        actions, encrypted = ["kms:GenerateDataKey", "kms:Decrypt"], ("topicarn", topic_arn)
    else:
        return [], {}
    key_arn = customer_key(key_id)
    context = {
        "kms:viaservice": [f"{service}.{REGION}.amazonaws.com"],
        "kms:calleraccount": [ACCOUNT_ID],
        f"kms:encryptioncontext:aws:{service}:{encrypted[0]}": [encrypted[1]],
    }
    return [(action, key_arn) for action in actions] if key_arn else [], context
