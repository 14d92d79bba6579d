"""Checks each call of a role against the role's policies, and records it.

The deployer's user is not checked. CloudFormation and EventBridge call the other services with the
deployer's key, so their calls are not checked either. AWS also uses a role's permissions by itself.
Where the lab does the same, the code that does it makes the check: delivery of a function's log,
the child executions of a Distributed Map, the keys that S3 and DynamoDB use for the caller.
"""

from __future__ import annotations

import datetime
import logging
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from moto.awslambda.exceptions import UnknownFunctionException
from moto.awslambda_simple.models import lambda_simple_backends
from moto.core.responses import ActionResult, BaseResponse
from moto.core.utils import get_service_model

from lab.aws import cloud_trail
from lab.aws.account import ACCOUNT_ID, REGION, arn
from lab.aws.api_errors import ApiError
from lab.aws.authorization.actions import Need, Request, launch_needs, needs, parts_of
from lab.aws.authorization.audit import RECORD_FILE, Call, write_call
from lab.aws.authorization.requests import context_of, key_needs, request_of
from lab.aws.iam.identity import role_of, sts
from lab.aws.iam.policies import Context, Policies, UnknownOperator
from lab.aws.iam.role_policies import policies_of
from lab.aws.kms import key_refusal

LOG = logging.getLogger(__name__)
# No service's error model has these refusals, and moto warns of that.
warnings.filterwarnings("ignore", message=r"Exception\(ApiError\) with code (AccessD|Unauth)")

#: How long EC2 does not know the policies of a new role. On a quick machine a guest's stack is
#: complete 2 s after its roles, and a run that somebody starts then has no patience with it.
EC2_LAG_SECONDS = 1.0

#: EKS's words, in an error of its own, if the caller may not launch by a node group's template.
_NO_LAUNCH = "You are not authorized to launch instances with this launch template."

_READING_IAM = ("Get", "List", "Generate", "Simulate")


class AccessDenied(Exception):
    """A role may not make its call; the message is AWS's."""


class Authorizer:
    """Checks the calls of roles against their policies.

    `path_of_role` takes a role's name and returns the role's place in its root stack, or None
    outside of stacks. `node_group` takes the names of a cluster and of a node group and returns the
    node group's description, or raises ApiError while there is no such group.
    """

    def __init__(
        self,
        state_directory: Path,
        *,
        path_of_role: Callable[[str], str | None],
        node_group: Callable[[str, str], Mapping[str, Any]],
    ) -> None:
        self._path_of_role, self._node_group = path_of_role, node_group
        self._record = (state_directory / RECORD_FILE).open("a", buffering=1)
        self._lock = threading.Lock()
        self._roles_of_keys: dict[str, tuple[str, str] | None] = {}
        self._policies: dict[str, Policies] = {}
        self._seen: set[tuple[str, str, str, bool]] = set()
        self._logical_ids: dict[str, str] = {}

    def close(self) -> None:
        """Close the record of calls."""
        with self._lock:
            self._record.close()

    def forget_policies(self) -> None:
        """Drop the cached policies, as after a write to IAM; the next check reads them again."""
        self._policies = {}

    # -- principals

    def session(self, access_key_id: str) -> tuple[str, str] | None:
        """Role ARN and session ARN of an access key; None for users and unknown keys."""
        if access_key_id not in self._roles_of_keys:
            role = sts().get_assumed_role_from_access_key(access_key_id)
            if role is None and not access_key_id.startswith("AKIA"):
                return None  # not cached: a session may get this key later
            self._roles_of_keys[access_key_id] = (role.role_arn, role.arn) if role else None
        return self._roles_of_keys[access_key_id]

    # -- checks

    def require(
        self, role_arn: str, needed: Iterable[Need], context: Context, *, caller: str = ""
    ) -> None:
        """Check and record every need of a role. Raises AccessDenied for the first one refused."""
        policies = self._policies_of(role_arn)
        context = {
            "aws:requestedregion": [REGION],
            "aws:securetransport": ["true"],
            "aws:principalarn": [role_arn],
            "aws:principalaccount": [ACCOUNT_ID],
            "aws:principaltype": ["AssumedRole"],
            **_function_of(role_arn, caller),
            **context,
        }
        for action, resource in needed:
            try:
                refusal = policies.refusal(action, resource, context)
                if refusal is None and action.startswith("kms:"):
                    refusal = key_refusal(action, resource, role_arn, context)
            except UnknownOperator as error:
                refusal = f"because a {error}"
            if refusal is None or _has_policies(role_arn):
                self._note(role_arn, action, resource, refusal is None)
            if refusal is not None:
                raise AccessDenied(
                    f"User: {caller or role_arn} is not authorized to perform: {action}"
                    f" on resource: {resource} {refusal}"
                )

    def _policies_of(self, role_arn: str) -> Policies:
        name = role_arn.rsplit("/", 1)[-1]
        cached = self._policies
        if name not in cached:
            role = role_of(role_arn)
            if role is None:
                return Policies(())
            cached[name] = policies_of(role)
        return cached[name]

    def _note(self, role_arn: str, action: str, resource: str, allowed: bool) -> None:
        name = role_arn.rsplit("/", 1)[-1]
        seen = (name, action, resource, allowed)
        if seen in self._seen:
            return
        with self._lock:
            if seen in self._seen or self._record.closed:
                return
            self._seen.add(seen)
            call = Call(name, self._logical_id(name), action, resource, allowed)
            write_call(self._record, call)
        if not allowed:
            LOG.warning("%s may not %s on %s", call.logical_id, action, resource)

    def _logical_id(self, role_name: str) -> str:
        """The role's place in its root stack, such as Benchmark/PlanRole; else its name."""
        cached = self._logical_ids
        if role_name not in cached:
            path = self._path_of_role(role_name)
            if path is None:
                return role_name
            cached[role_name] = path
        return cached[role_name]

    # -- requests

    def authorize(self, response: BaseResponse) -> str | None:
        """Why a request to any service but S3 is refused; None when it is allowed."""
        session = self.session(response.access_key)
        if session is None:
            return None
        request = request_of(response)
        if request is None:
            return None
        role_arn, caller = session
        if request.service == "ec2" and _is_unknown_yet(role_arn):
            return (
                f"You are not authorized to perform this operation. User: {caller} is not"
                f" authorized to perform: ec2:{request.operation} because no identity-based policy"
                f" allows the ec2:{request.operation} action"
            )
        try:
            group = self._group_of(request)
            for part in parts_of(request):
                self.require(role_arn, _located(part, group), context_of(part), caller=caller)
            if request.operation == "UpdateNodegroupVersion" and "launchTemplate" in group:
                self._require_launch(role_arn, group["launchTemplate"]["id"], caller)
            needed, context = key_needs(request)
            self.require(role_arn, needed, context, caller=caller)
        except AccessDenied as denied:
            return str(denied)
        return None

    def _group_of(self, request: Request) -> Mapping[str, Any]:
        """The description of the node group that a request to EKS is about; empty without one."""
        parameters = request.parameters
        if request.service != "eks" or request.operation == "CreateNodegroup":
            return {}
        # DescribeUpdate names the cluster in another parameter.
        cluster = parameters.get("clusterName") or parameters.get("name", "")
        try:
            return self._node_group(cluster, parameters.get("nodegroupName") or "")
        except ApiError:
            return {}

    def _require_launch(self, role_arn: str, template_id: str, caller: str) -> None:
        context = {
            "ec2:launchtemplate": [arn("ec2", f"launch-template/{template_id}")],
            "ec2:createaction": ["RunInstances"],
        }
        try:
            self.require(role_arn, launch_needs(template_id), context, caller=caller)
        except AccessDenied as denied:
            raise AccessDenied(
                f"{_NO_LAUNCH} Encoded authorization failure message: {denied}"
            ) from None


def _located(request: Request, group: Mapping[str, Any]) -> list[Need]:
    """The request's needs, with the id of a node group that only EKS knows filled in."""
    return [
        (action, group["nodegroupArn"] if group and ":nodegroup/" in resource else resource)
        for action, resource in needs(request)
    ]


def _has_policies(role_arn: str) -> bool:
    """Whether a role has policies (yet). A function may outlive those of a deleted stack."""
    role = role_of(role_arn)
    return role is not None and bool(role.policies or role.managed_policies)


def _is_unknown_yet(role_arn: str) -> bool:
    """Whether the role is so new that its policies have not reached EC2.

    IAM is eventually consistent (IAM user guide, "Troubleshoot IAM"); how late a change arrives is
    the lab's choice.
    """
    role = role_of(role_arn)
    if role is None:
        return False
    age = datetime.datetime.now(datetime.UTC).replace(tzinfo=None) - role.create_date
    return age.total_seconds() < EC2_LAG_SECONDS


def _function_of(role_arn: str, caller: str) -> dict[str, list[str]]:
    """The condition key of the calling function, when the session is a function's.

    As on AWS, the key is absent when Lambda itself acts with the role.
    """
    name = caller.rpartition("/")[2]
    functions = lambda_simple_backends[ACCOUNT_ID][REGION]
    try:
        function = functions.get_function(name) if name else None
    except UnknownFunctionException:
        return {}
    if function is None or function.role != role_arn:
        return {}
    return {"lambda:sourcefunctionarn": [arn("lambda", f"function:{name}")]}


# -- answering requests


_moto_call_action: Callable[[BaseResponse], Any] = BaseResponse.call_action
_CODES = {"ec2": "UnauthorizedOperation"}


def call_action(self: BaseResponse, authorizer: Authorizer) -> Any:
    """Answers a request to any service but S3, if its caller may make it."""
    refusal = authorizer.authorize(self)
    response = _moto_call_action(self) if refusal is None else _refused(self, refusal)
    session = authorizer.session(self.access_key)
    if session is not None:
        cloud_trail.note(self, *session, response)
    if self.service_name == "iam" and not str(self._get_action()).startswith(_READING_IAM):
        authorizer.forget_policies()
    return response


def _refused(response: BaseResponse, message: str) -> Any:
    """The refusal in the service's own shape: JSON protocols answer 400, the others 403."""
    model = get_service_model(response.boto3_service_name)
    protocol = response.determine_response_protocol(model)
    code = _CODES.get(
        response.boto3_service_name,
        "AccessDenied" if protocol.startswith("query") else "AccessDeniedException",
    )
    if message.startswith(_NO_LAUNCH):
        code = "InvalidRequestException"
    status, headers, body = response.serialized(ActionResult(ApiError(code, message)))
    if protocol != "json":
        status = 403
    headers, body = response._enrich_response({**headers, "status": str(status)}, body)
    return status, headers, body
