"""Authorization by use: each call of a role is checked against its policies, and recorded.

The deployer's user is not checked, nor is what AWS does for itself here: CloudFormation and
EventBridge call the other services with the deployer's key. What AWS does with a role's
permissions, and the lab does too, is checked where it happens: delivery of a function's log, the
child executions of a Distributed Map, keys that S3 and DynamoDB use for the caller.
"""

from __future__ import annotations

import json
import logging
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import xmltodict  # type: ignore[import-untyped]
from moto.awslambda.exceptions import UnknownFunctionException
from moto.awslambda_simple.models import lambda_simple_backends
from moto.core.parse import PROTOCOL_PARSERS
from moto.core.request import determine_request_protocol
from moto.core.responses import ActionResult, BaseResponse
from moto.core.utils import get_service_model
from moto.dynamodb.models import dynamodb_backends
from moto.iam.exceptions import NotFoundException
from moto.iam.models import Role
from moto.kms.models import kms_backends
from moto.s3.exceptions import BucketAccessDeniedError, S3ClientError
from moto.s3.models import s3_backends
from moto.s3.responses import S3Response

from .authorization_record import RECORD_FILE, Call, write_call
from .errors import ApiError
from .iam_policies import (
    Context,
    Policies,
    Statement,
    UnknownOperator,
    as_list,
    holds,
    pattern,
    statements,
)
from .identity import iam, sts
from .request_actions import Need, Request, arn, needs
from .s3_links import require_signature
from .services import ACCOUNT_ID, REGION

if TYPE_CHECKING:
    from .cloudformation.engine import StackBackend
    from .services import Services

LOG = logging.getLogger(__name__)
# A refusal is in no service's model of its errors.
warnings.filterwarnings("ignore", message=r"Exception\(ApiError\) with code (AccessD|Unauth)")

_READING_IAM = ("Get", "List", "Generate", "Simulate")
# DynamoDB asks the caller for the table's key when it reads or writes items.
_ITEM_OPERATIONS = ("Item", "Items", "Query", "Scan")
# Operations whose action has another name; moto names the rest as IAM does.
_S3_ACTIONS = {"HeadBucket": "ListBucket", "SelectObject": "GetObject"}
_S3_SUBRESOURCES = {
    "encryption": "EncryptionConfiguration",
    "ownershipControls": "BucketOwnershipControls",
    "publicAccessBlock": "BucketPublicAccessBlock",
    "object-lock": "BucketObjectLockConfiguration",
}


class AccessDenied(Exception):
    """A role may not do what it tried; the message is AWS's."""


class Authorizer:
    """Knows each role's policies and judges its calls."""

    def __init__(self, services: Services, state_directory: Path) -> None:
        self._services = services
        self._record = (state_directory / RECORD_FILE).open("a", buffering=1)
        self._lock = threading.Lock()
        self._roles_of_keys: dict[str, tuple[str, str] | None] = {}
        self._policies: dict[str, Policies] = {}
        self._seen: set[tuple[str, str, str, bool]] = set()
        self._logical_ids: dict[str, str] = {}
        self.stacks: StackBackend | None = None

    def close(self) -> None:
        """Record no more."""
        with self._lock:
            self._record.close()

    def forget_policies(self) -> None:
        """IAM was written to: read policies again when they are needed."""
        self._policies = {}

    # -- principals

    def session(self, access_key_id: str) -> tuple[str, str] | None:
        """Role ARN and session ARN of an access key; None for users and unknown keys."""
        if access_key_id not in self._roles_of_keys:
            found = sts().get_assumed_role_from_access_key(access_key_id)
            if found is None and not access_key_id.startswith("AKIA"):
                return None  # it may yet become a session's
            self._roles_of_keys[access_key_id] = (found.role_arn, found.arn) if found else None
        return self._roles_of_keys[access_key_id]

    # -- judging

    def require(
        self, role_arn: str, needed: Iterable[Need], context: Context, *, caller: str = ""
    ) -> None:
        """Check and record every need of a role. Raises AccessDenied for the first refused."""
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
                    refusal = _key_refusal(action, resource, role_arn, context)
            except UnknownOperator as error:
                refusal = f"because a {error}"
            self._note(role_arn, action, resource, refusal is None)
            if refusal is not None:
                raise AccessDenied(
                    f"User: {caller or role_arn} is not authorized to perform: {action}"
                    f" on resource: {resource} {refusal}"
                )

    def _policies_of(self, role_arn: str) -> Policies:
        name = role_arn.rsplit("/", 1)[-1]
        known = self._policies
        if name not in known:
            try:
                role = iam().get_role(name)
            except NotFoundException:
                return Policies(())
            known[name] = policies_of(role)
        return known[name]

    def _note(self, role_arn: str, action: str, resource: str, allowed: bool) -> None:
        name = role_arn.rsplit("/", 1)[-1]
        seen = (name, action, resource, allowed)
        if seen in self._seen:
            return
        with self._lock:
            if seen in self._seen or self._record.closed:
                return
            self._seen.add(seen)
            call = Call(name, self.logical_id(name), action, resource, allowed)
            write_call(self._record, call)
        if not allowed:
            LOG.warning("%s may not %s on %s", call.logical_id, action, resource)

    def logical_id(self, role_name: str) -> str:
        """The role's place in its root stack, such as Benchmark/PlanRole; else its name."""
        if role_name not in self._logical_ids:
            for stack in self.stacks.live() if self.stacks else ():
                for state in list(stack.resources.values()):
                    if state.type == "AWS::IAM::Role" and state.physical_id == role_name:
                        path = [*self._path(stack.stack_id), state.logical_id]
                        self._logical_ids[role_name] = "/".join(path)
        return self._logical_ids.get(role_name, role_name)

    def _path(self, stack_id: str) -> list[str]:
        stack = self.stacks.stacks[stack_id] if self.stacks else None
        if stack is None or stack.parent_id is None or self.stacks is None:
            return []
        parent = self.stacks.stacks[stack.parent_id]
        own = next(
            (s.logical_id for s in list(parent.resources.values()) if s.physical_id == stack_id),
            stack.name,
        )
        return [*self._path(parent.stack_id), own]

    # -- requests

    def authorize(self, response: BaseResponse) -> str | None:
        """Why a request to any service but S3 is refused; None when it may go on."""
        session = self.session(response.access_key)
        if session is None:
            return None
        request = _request(response)
        if request is None:
            return None
        role_arn, caller = session
        try:
            self.require(role_arn, self._located(request), _context(request), caller=caller)
            key = _table_key(request)
            if key is not None:
                table, key_arn = key
                context = {
                    "kms:viaservice": [f"dynamodb.{REGION}.amazonaws.com"],
                    "kms:calleraccount": [ACCOUNT_ID],
                    "kms:encryptioncontext:aws:dynamodb:tablename": [table],
                }
                self.require(role_arn, [("kms:Decrypt", key_arn)], context, caller=caller)
        except AccessDenied as denied:
            return str(denied)
        return None

    def _located(self, request: Request) -> list[Need]:
        """The request's needs, with the ids that only EKS knows filled in."""
        found = needs(request)
        name = request.parameters.get("nodegroupName")
        if request.service != "eks" or not name:
            return found
        cluster = self._services.eks.clusters.get(request.parameters.get("clusterName", ""))
        group = cluster.node_groups.get(name) if cluster else None
        if group is None or request.operation == "CreateNodegroup":
            return found
        return [(action, group.description["nodegroupArn"]) for action, _ in found]

    def authorize_s3(self, response: S3Response, bucket: str | None, key: str | None) -> None:
        """Refuse a request to S3. Raises S3's own error."""
        require_signature(response)
        session = self.session(_s3_access_key(response))
        if session is None:
            return
        role_arn, caller = session
        query = response.querystring
        prefix = query.get("prefix", [None])[0]
        context: dict[str, list[str]] = {"s3:prefix": [str(prefix)]} if prefix else {}
        try:
            self.require(role_arn, _s3_needs(response, bucket, key), context, caller=caller)
            self._require_s3_key(role_arn, caller, response, bucket, key)
            self._require_listing(role_arn, caller, response, bucket, key)
        except AccessDenied as denied:
            if bucket and "delete" in query:
                raise BucketAccessDeniedError(bucket) from denied  # answered per object
            raise S3ClientError("AccessDenied", str(denied)) from denied

    def _require_s3_key(
        self,
        role_arn: str,
        caller: str,
        response: S3Response,
        bucket_name: str | None,
        key_name: str | None,
    ) -> None:
        """What S3 does with a customer-managed key, it does with the caller's permissions."""
        bucket = s3_backends[ACCOUNT_ID]["aws"].buckets.get(bucket_name or "")
        if bucket is None or key_name is None:
            return
        action = response.data["Action"]
        if action in ("GetObject", "GetObjectVersion") and response.method == "GET":
            stored = bucket.keys.get(key_name)
            key_id = stored.kms_key_id if stored and stored.encryption == "aws:kms" else None
            wanted = ["kms:Decrypt"]
        elif action == "PutObject":
            rule = (bucket.encryption or {}).get("Rule") or {}
            default = rule.get("ApplyServerSideEncryptionByDefault") or {}
            key_id = response.headers.get(
                "x-amz-server-side-encryption-aws-kms-key-id", default.get("KMSMasterKeyID")
            )
            multipart = {"uploads", "uploadId"} & set(response.querystring)
            wanted = ["kms:GenerateDataKey", *(["kms:Decrypt"] if multipart else [])]
        else:
            return
        key_arn = _customer_key(key_id)
        if key_arn is not None:
            context = {
                "kms:viaservice": [f"s3.{REGION}.amazonaws.com"],
                "kms:calleraccount": [ACCOUNT_ID],
            }
            self.require(role_arn, [(name, key_arn) for name in wanted], context, caller=caller)

    def _require_listing(
        self,
        role_arn: str,
        caller: str,
        response: S3Response,
        bucket_name: str | None,
        key_name: str | None,
    ) -> None:
        """Only who may list a bucket is told that an object is not there."""
        bucket = s3_backends[ACCOUNT_ID]["aws"].buckets.get(bucket_name or "")
        if bucket is None or key_name is None or key_name in bucket.keys:
            return
        if response.data["Action"] == "GetObject":
            listing = [("s3:ListBucket", f"arn:aws:s3:::{bucket_name}")]
            self.require(role_arn, listing, {}, caller=caller)


def _function_of(role_arn: str, caller: str) -> dict[str, list[str]]:
    """The function whose code calls, where a session is one of a function's.

    Absent when Lambda itself acts with the role, as on AWS.
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


# -- policies as deployed


def policies_of(role: Role) -> Policies:
    """A role's inline and managed policies, and its boundary."""
    found: list[Statement] = []
    for document in role.policies.values():
        found += statements(_text(document))
    for managed in role.managed_policies.values():
        found += statements(_default_version(managed))
    boundary: tuple[Statement, ...] | None = None
    if role.permissions_boundary_arn:
        try:
            limit = iam().get_policy(role.permissions_boundary_arn)
            boundary = tuple(statements(_default_version(limit)))
        except NotFoundException:
            boundary = ()  # what cannot be read allows nothing
    return Policies(tuple(found), boundary)


def _text(document: str) -> str:
    return document if document.lstrip().startswith("{") else unquote(document)


def _default_version(policy: Any) -> str:
    versions = [version for version in policy.versions if version.is_default]
    return _text(versions[0].document)


def _key_refusal(action: str, key_arn: str, role_arn: str, context: Context) -> str | None:
    """A key's own policy must let the account's policies decide, or name the role."""
    backend = kms_backends[ACCOUNT_ID][REGION]
    key_id = key_arn.rsplit("/", 1)[-1]
    if key_id not in backend.keys:
        return None
    principals = {"*", ACCOUNT_ID, f"arn:aws:iam::{ACCOUNT_ID}:root", role_arn}
    if key_policy_allows(backend.get_key_policy(key_id), action, "AWS", principals, context):
        return None
    return f"because no key policy allows the {action} action"


def key_policy_allows(
    policy: str, action: str, kind: str, principals: set[str], context: Context
) -> bool:
    """Whether a key policy allows one of these principals of a kind (AWS, Service) an action."""
    allowed = False
    for statement in as_list(json.loads(policy).get("Statement")):
        named = statement.get("Principal", {})
        named = {"AWS": named} if isinstance(named, str) else named
        names = {str(item) for item in as_list(named.get(kind))}
        actions = as_list(statement.get("Action"))
        if (
            names & principals
            and any(pattern(item, ignore_case=True).fullmatch(action) for item in actions)
            and holds(statement.get("Condition") or {}, context)
        ):
            if statement["Effect"] == "Deny":
                return False
            allowed = True
    return allowed


# -- what a request is


def _request(response: BaseResponse) -> Request | None:
    operation = response._get_action()
    if not operation:
        return None
    if response.automated_parameter_parsing:
        parameters: Mapping[str, Any] = {**dict(response.uri_match), **dict(response.params)}
    else:
        parameters = _parsed(response, operation)
    return Request(response.boto3_service_name, operation, parameters)


def _parsed(response: BaseResponse, operation: str) -> Mapping[str, Any]:
    """The parameters by the service's model, for those of moto's services that do not parse."""
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


def _context(request: Request) -> dict[str, list[str]]:
    """Condition keys of the request's own: the tags it sets."""
    tags = request.parameters.get("Tags") or request.parameters.get("tags") or {}
    if isinstance(tags, list):
        tags = {tag.get("Key", tag.get("key")): tag.get("Value", tag.get("value")) for tag in tags}
    context = {f"aws:requesttag/{key}".lower(): [str(value)] for key, value in tags.items()}
    return {**context, "aws:tagkeys": list(tags)} if tags else {}


def _table_key(request: Request) -> tuple[str, str] | None:
    """Name and key ARN of the table an item operation is on, if the key is a customer's."""
    name = request.parameters.get("TableName")
    if request.service != "dynamodb" or not name:
        return None
    if not request.operation.endswith(_ITEM_OPERATIONS):
        return None
    name = name.rsplit("/", 1)[-1]
    table = dynamodb_backends[ACCOUNT_ID][REGION].tables.get(name)
    settings = (table.sse_specification if table else None) or {}
    key_arn = _customer_key(settings.get("KMSMasterKeyId")) if settings.get("Enabled") else None
    return (name, key_arn) if key_arn else None


def _customer_key(key_id: str | None) -> str | None:
    """The ARN of a customer-managed key given by id, ARN or alias; None for AWS's own."""
    if not key_id or "alias/aws/" in key_id:
        return None
    backend = kms_backends[ACCOUNT_ID][REGION]
    plain = key_id.rsplit(":", 1)[-1] if "alias/" in key_id else key_id.rsplit("/", 1)[-1]
    found = backend.get_key_id_from_alias(plain) if plain.startswith("alias/") else plain
    key = backend.keys.get(found or "")
    if key is None or getattr(key, "key_manager", "CUSTOMER") == "AWS":
        return None
    if (key.description or "").startswith("Default master key that protects my"):
        return None  # moto's own way to make AWS-managed keys
    return str(key.arn)


# -- S3


def _s3_access_key(response: S3Response) -> str:
    credential = response.querystring.get("X-Amz-Credential")
    if credential:  # a presigned URL
        return str(credential[0]).split("/", 1)[0]
    return response.access_key


def _s3_needs(response: S3Response, bucket: str | None, key: str | None) -> list[Need]:
    action = str(response.data["Action"])
    if key is None:
        for name, subject in _S3_SUBRESOURCES.items():
            if name in response.querystring:
                action = f"{'Get' if response.method == 'GET' else 'Put'}{subject}"
    action = f"s3:{_S3_ACTIONS.get(action, action)}"
    if bucket is None:
        return [(action, "*")]
    resource = f"arn:aws:s3:::{bucket}"
    if key is None and "delete" in response.querystring:
        return [
            (
                "s3:DeleteObjectVersion" if item.get("VersionId") else "s3:DeleteObject",
                f"{resource}/{item['Key']}",
            )
            for item in _deleted_objects(response.body)
        ]
    found = [(action, f"{resource}/{key}" if key is not None else resource)]
    source = response.headers.get("x-amz-copy-source")
    if source:
        found.append(("s3:GetObject", f"arn:aws:s3:::{unquote(source).lstrip('/')}"))
    return found


def _deleted_objects(body: bytes | str) -> list[Mapping[str, Any]]:
    document = xmltodict.parse(body, strip_whitespace=False)
    return as_list(document["Delete"].get("Object"))


# -- taking moto's place


_moto_call_action: Callable[[BaseResponse], Any] = BaseResponse.call_action
_CODES = {"ec2": "UnauthorizedOperation"}


def install(authorizer: Authorizer) -> None:
    """Have every request to every service judged."""

    def call_action(self: BaseResponse) -> Any:
        refusal = authorizer.authorize(self)
        if refusal is not None:
            return _refused(self, refusal)
        answer = _moto_call_action(self)
        if self.service_name == "iam" and not str(self._get_action()).startswith(_READING_IAM):
            authorizer.forget_policies()
        return answer

    def authorize_s3(
        self: S3Response, bucket_name: str | None = None, key_name: str | None = None
    ) -> None:
        authorizer.authorize_s3(self, bucket_name, key_name)

    BaseResponse.call_action = call_action  # type: ignore[method-assign]
    setattr(S3Response, "_authenticate_and_authorize_s3_action", authorize_s3)  # noqa: B010


def _refused(response: BaseResponse, message: str) -> Any:
    """The refusal in the service's own shape: JSON protocols answer 400, the others 403."""
    model = get_service_model(response.boto3_service_name)
    protocol = response.determine_response_protocol(model)
    code = _CODES.get(
        response.boto3_service_name,
        "AccessDenied" if protocol.startswith("query") else "AccessDeniedException",
    )
    status, headers, body = response.serialized(ActionResult(ApiError(code, message)))
    if protocol != "json":
        status = 403
    headers, body = response._enrich_response({**headers, "status": str(status)}, body)
    return status, headers, body


def map_run_needs(state_machine_arn: str) -> list[Need]:
    """What Step Functions does with the state machine's role to begin a Distributed Map.

    https://docs.aws.amazon.com/step-functions/latest/dg/iam-policies-eg-dist-map.html
    """
    return [("states:StartExecution", state_machine_arn)]


def network_needs() -> list[Need]:
    """What Lambda does with a function's role to reach a VPC, and checks when it is told to.

    https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html
    """
    interface = arn("ec2", "network-interface/eni-lambda")
    return [
        ("ec2:CreateNetworkInterface", interface),
        ("ec2:DescribeNetworkInterfaces", "*"),
        ("ec2:DeleteNetworkInterface", interface),
    ]


def log_needs(group: str, stream: str) -> list[Need]:
    """What Lambda does with a function's role to deliver its log."""
    return [
        ("logs:CreateLogStream", arn("logs", f"log-group:{group}:*")),
        ("logs:PutLogEvents", arn("logs", f"log-group:{group}:log-stream:{stream}")),
    ]
