"""Custom resources: invokes the function and waits for its answer, as CloudFormation does.

https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/crpg-ref-requesttypes.html
"""

from __future__ import annotations

import contextlib
import json
import queue
import uuid
from collections.abc import Iterator
from typing import Any

from lab.aws.awslambda.runtime import LambdaRuntime
from lab.aws.cloudformation.coercion import text
from lab.aws.cloudformation.failures import ResourceFailure
from lab.aws.cloudformation.resource_type import Created, Properties, ResourceContext, ResourceType

# CloudFormation waits for one hour at most, which is also the default of ServiceTimeout.
_DEFAULT_TIMEOUT_SECONDS = 3600
# CloudFormation refuses larger answers.
_ANSWER_BYTES = 4096
# How often to look whether the function ended without an answer.
_POLL_SECONDS = 0.25


class CustomResourceResponses:
    """Receives functions' answers, at a path of the endpoint for each request."""

    PATH = "/_lab/cloudformation/responses"

    def __init__(self, endpoint_url: str) -> None:
        self._endpoint_url = endpoint_url
        self._expected: dict[str, queue.Queue[bytes]] = {}

    def url(self, request_id: str) -> str:
        """The URL to which a function sends the answer to a request."""
        return f"{self._endpoint_url}{self.PATH}/{request_id}"

    @contextlib.contextmanager
    def expected(self, request_id: str) -> Iterator[queue.Queue[bytes]]:
        """A queue of the answers to a request, which arrive while the context lasts."""
        answers = self._expected[request_id] = queue.Queue()
        try:
            yield answers
        finally:
            del self._expected[request_id]

    def deliver(self, request_id: str, body: bytes) -> bool:
        """Accept an answer. Returns False when nothing waits for it."""
        answers = self._expected.get(request_id)
        if answers is None:
            return False
        answers.put(body)
        return True


class CustomResource(ResourceType):
    """AWS::CloudFormation::CustomResource and every Custom::* type."""

    type = "AWS::CloudFormation::CustomResource"
    properties = None
    reverts_failed_update = True

    def __init__(self, runtime: LambdaRuntime, responses: CustomResourceResponses) -> None:
        self._runtime, self._responses = runtime, responses

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        return self._ask(context, "Create", properties)

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> Created:
        return self._ask(context, "Update", new, {"OldResourceProperties": _words(old)})

    def delete(self, context: ResourceContext) -> None:
        self._ask(context, "Delete", context.state.properties)

    def _ask(
        self,
        context: ResourceContext,
        request_type: str,
        properties: Properties,
        more: dict[str, Any] | None = None,
    ) -> Created:
        request_id = str(uuid.uuid4())
        event: dict[str, Any] = {
            "RequestType": request_type,
            "ServiceToken": properties["ServiceToken"],
            "ResponseURL": (f"{self._responses.url(request_id)}?X-Amz-Algorithm=AWS4-HMAC-SHA256"),
            "StackId": context.stack.stack_id,
            "RequestId": request_id,
            "LogicalResourceId": context.state.logical_id,
            "ResourceType": context.state.type,
            "ResourceProperties": _words(properties),
            **(more or {}),
        }
        if request_type != "Create":
            event["PhysicalResourceId"] = context.state.physical_id
        with self._responses.expected(request_id) as answers:
            response = self._answer(event, answers)
        physical_id = response.get("PhysicalResourceId") or context.state.physical_id
        if not physical_id:
            raise ResourceFailure("Invalid PhysicalResourceId")
        if response.get("Status") != "SUCCESS":
            if request_type == "Create":
                context.begin(str(physical_id))
            raise ResourceFailure(
                f"Received response status [FAILED] from custom resource. Message returned:"
                f" {response.get('Reason', '')} (RequestId: {request_id})"
            )
        return Created(str(physical_id), response.get("Data") or {})

    def _answer(self, event: dict[str, Any], answers: queue.Queue[bytes]) -> dict[str, Any]:
        properties = event["ResourceProperties"]
        remaining = _timeout_seconds(properties)
        arn = event["ServiceToken"]
        if ":lambda:" not in arn:
            raise ResourceFailure(f"ServiceToken {arn} is not the ARN of a Lambda function")
        invocation = self._runtime.invoke_event(arn, json.dumps(event).encode())
        while remaining > 0:
            # A function that failed after all its retries will not answer. CloudFormation would
            # still wait for the whole time-out; the lab reports the failure immediately.
            ended = invocation.ended.is_set()
            try:
                body = answers.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                remaining -= _POLL_SECONDS
                if ended and invocation.error is not None:
                    raise ResourceFailure(
                        f"The function failed and sent no response: {invocation.error}"
                    ) from None
                continue
            if len(body) > _ANSWER_BYTES:
                raise ResourceFailure("Response object is too long.")
            try:
                response = json.loads(body)
            except ValueError as error:
                raise ResourceFailure("Invalid response: not JSON") from error
            return dict(response)
        raise ResourceFailure(
            "CloudFormation did not receive a response from your Custom Resource. Please check"
            f" your logs for requestId [{event['RequestId']}]."
        )


def _timeout_seconds(properties: Properties) -> float:
    """How long the answer may take; a later invocation than the first may send it."""
    text = str(properties.get("ServiceTimeout", _DEFAULT_TIMEOUT_SECONDS))
    if not text.isdigit() or not 1 <= int(text) <= _DEFAULT_TIMEOUT_SECONDS:
        raise ResourceFailure(
            f"ServiceTimeout must be a whole number of seconds from 1 to"
            f" {_DEFAULT_TIMEOUT_SECONDS}, not {text}"
        )
    return float(text)


def _words(value: Any) -> Any:
    """Write every scalar as text, as custom resources receive it."""
    if isinstance(value, dict):
        return {key: _words(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_words(item) for item in value]
    return value if value is None else text(value)
