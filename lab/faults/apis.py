"""Faults of the emulated AWS's APIs: errors, lost connections and answers, expired credentials.

They strike the calls of roles, as functions and state machines make them, and not the user's;
`--option callers=all` strikes those too, `callers=user` those alone, and any other word the roles
whose name contains it. What is wrong with a caller, its clock or its credentials, strikes no calls
that AWS's services make with a role, such as Step Functions' invocations.
"""

from __future__ import annotations

import contextlib
import fnmatch
import io
import socket
import struct
import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from moto.core.exceptions import ServiceException
from moto.core.request import determine_request_protocol
from moto.core.routing import get_service_router
from moto.core.serialize import SerializationContext, get_serializer_class
from moto.core.utils import get_service_model
from moto.moto_server.werkzeug_app import BackendRequest
from werkzeug.exceptions import NotFound

from lab.errors import LabError
from lab.faults.leases import Injector, Order, Orders

Environ = dict[str, Any]
Application = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]

#: moto's names of services whose calls are signed with another.
_MODELS = {"states": "stepfunctions", "monitoring": "cloudwatch", "servicequotas": "service-quotas"}
#: IAM's names of services whose calls are signed with another.
_PREFIXES = {"monitoring": "cloudwatch"}

# What each service answers, from its API reference: code and HTTP status.
_THROTTLED = {
    "dynamodb": ("ProvisionedThroughputExceededException", 400),
    "s3": ("SlowDown", 503),
    "ec2": ("RequestLimitExceeded", 503),
    "lambda": ("TooManyRequestsException", 429),
    "query": ("Throttling", 400),
    "": ("ThrottlingException", 400),
}
_FAILING = {
    "dynamodb": ("InternalServerError", 500),
    "s3": ("InternalError", 500),
    "ec2": ("InternalError", 500),
    "lambda": ("ServiceException", 500),
    "eks": ("ServerException", 500),
    "kms": ("KMSInternalException", 500),
    "query": ("InternalFailure", 500),
    "": ("InternalServerException", 500),
}
_EXPIRED = {
    "s3": ("ExpiredToken", 400),
    "ec2": ("RequestExpired", 400),
    "query": ("ExpiredToken", 403),
    "rest-json": ("ExpiredTokenException", 403),
    "": ("ExpiredTokenException", 400),
}
_SKEWED = {
    "s3": ("RequestTimeTooSkewed", 403),
    "ec2": ("RequestExpired", 400),
    "dynamodb": ("InvalidSignatureException", 400),
    "query": ("SignatureDoesNotMatch", 403),
    "": ("InvalidSignatureException", 403),
}
# S3 names KMS's error in its code, DynamoDB in its message.
_DISABLED = {"s3": ("KMS.DisabledException", 400), "dynamodb": ("AccessDeniedException", 400)}
_KEY = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
_MESSAGES = {
    "api-throttled": "Rate exceeded",
    "api-failing": "We encountered an internal error. Please try again.",
    "token-expired": "The security token included in the request is expired",
    "clock-moved": "Signature expired: the request's time differs too much from the current time.",
    "key-disabled": f"{_KEY} is disabled.",
}
# Codes that are not the default, and the status with which they come.
_STATUS_OF_CODE = {
    "ServiceUnavailable": 503,
    "ServiceUnavailableException": 503,
    "InternalServerError": 500,
    "InternalFailure": 500,
    "InternalError": 500,
    "SlowDown": 503,
    "AccessDenied": 403,
    "TooManyRequestsException": 429,
}
KUBERNETES = "kubernetes"

# No service's error model has every error that can be injected, and moto warns of that.
warnings.filterwarnings("ignore", message=r"Exception\(InjectedError\)")


#: What is wrong with the caller itself.
_OF_CALLERS = ("token-expired", "clock-moved")


class InjectedError(ServiceException):
    """An error, by its code and message, that a fault lets a service answer with."""


@dataclass(frozen=True)
class Call:
    """A call of one of AWS's APIs. `protocol` is botocore's name of its form."""

    service: str
    operation: str
    protocol: str
    access_key_id: str
    method: str = "POST"

    def matches(self, pattern: str) -> bool:
        """Does `service:Operation`, with wildcards, or a service alone name this call?"""
        service, _, operation = pattern.partition(":")
        return fnmatch.fnmatchcase(self.service, service) and fnmatch.fnmatchcase(
            self.operation, operation or "*"
        )


class ApiFaults:
    """The faults that are active, and the layer around AWS's APIs that applies them.

    `role_of` takes an access key's id and returns the ARN of its role, None for a user's key.
    `is_of_function` says whether a role is one of functions, by its ARN.
    """

    def __init__(
        self,
        role_of: Callable[[str], str | None],
        is_of_function: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._role_of = role_of
        self._is_of_function = is_of_function
        self._orders = Orders()

    @property
    def injectors(self) -> Mapping[str, Injector]:
        """The faults by name."""
        names = ("throttled", "failing", "hanging", "cut", "answer-lost")
        others = (*_OF_CALLERS, "key-disabled")
        return dict.fromkeys((*(f"api-{name}" for name in names), *others), self._inject)

    def _inject(self, order: Order) -> AbstractContextManager[None]:
        service = order.on.partition(":")[0]
        if order.on == KUBERNETES:
            if order.name not in _OF_CALLERS:
                raise LabError(f"{order.name} has no target {KUBERNETES!r}: faults of tokens have.")
        elif "*" not in service and not _is_known(service):
            raise LabError(
                f"{order.on!r} is no call: name it as service:Operation, such as dynamodb:PutItem."
            )
        return self._orders.obeying(order)

    def refuses_eks_token(self) -> bool:
        """Does a fault want the EKS token that is reviewed now to have expired?"""
        return any(order.on == KUBERNETES and order.strikes() for order in self._orders)

    def around(self, application: Application) -> Application:
        """The application, changed to apply the faults to AWS's calls."""

        def faulty(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
            if not [*self._orders] or environ.get("PATH_INFO", "").startswith("/_lab/"):
                return application(environ, start_response)
            call = call_of(environ)
            order = self._order_for(call) if call else None
            if call is None or order is None:
                return application(environ, start_response)
            if order.name == "api-hanging":
                order.over.wait()
            elif order.name == "api-answer-lost":
                for _ in application(environ, _ignore_start):
                    pass
            elif order.name != "api-cut":
                return _refuse(order, call, environ, start_response)
            return _cut(environ)

        return faulty

    def _order_for(self, call: Call) -> Order | None:
        for order in self._orders:
            if order.on == KUBERNETES or not call.matches(order.on):
                continue
            if order.name == "key-disabled" and call.service not in _DISABLED:
                continue
            callers = order.options.get("callers", ":")  # which every role's ARN contains
            role = self._role_of(call.access_key_id)
            if callers != "all" and callers not in (role or "user"):
                continue
            if order.name in _OF_CALLERS and role and not self._is_of_function(role):
                continue
            if order.strikes():
                return order
        return None


def call_of(environ: Environ) -> Call | None:
    """The call that a request makes; None for one that is not signed or that no model has."""
    query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    header = environ.get("HTTP_AUTHORIZATION", "")
    credential = header.partition("Credential=")[2].split(",")[0]
    credential = credential or query.get("X-Amz-Credential", [""])[0]
    parts = credential.split("/")
    if len(parts) < 4 or not _is_known(parts[3]):
        return None
    signed = parts[3]
    _keep_body(environ)
    model = _MODELS.get(signed, signed)
    try:
        operation, _ = get_service_router(model).match(BackendRequest(environ))
        described = get_service_model(model)
        protocol = determine_request_protocol(described, environ.get("CONTENT_TYPE"))
    except (NotFound, NotImplementedError):
        return None
    finally:
        environ["wsgi.input"].seek(0)
    return Call(
        service=_PREFIXES.get(signed, signed),
        operation=operation.name,
        protocol=protocol,
        access_key_id=parts[0],
        method=environ["REQUEST_METHOD"],
    )


def _is_known(service: str) -> bool:
    service = next((key for key, prefix in _PREFIXES.items() if prefix == service), service)
    try:
        get_service_model(_MODELS.get(service, service))
    except Exception:  # botocore's own, of a module that need not be imported for it
        return False
    return True


def _keep_body(environ: Environ) -> None:
    """Let the body be read twice."""
    length = int(environ.get("CONTENT_LENGTH") or 0)
    chunked = environ.get("wsgi.input_terminated", False) and not length
    body = environ["wsgi.input"].read() if chunked else environ["wsgi.input"].read(length)
    environ["wsgi.input"] = io.BytesIO(body)


def _refuse(
    order: Order, call: Call, environ: Environ, start_response: Callable[..., Any]
) -> Iterable[bytes]:
    table = {
        "api-throttled": _THROTTLED,
        "api-failing": _FAILING,
        "token-expired": _EXPIRED,
        "clock-moved": _SKEWED,
        "key-disabled": _DISABLED,
    }[order.name]
    code, status = table.get(call.service) or table.get(call.protocol) or table[""]
    if "error" in order.options:
        code = order.options["error"]
        default = 500 if order.name == "api-failing" else 400
        status = _STATUS_OF_CODE.get(code, default)
    message = _MESSAGES[order.name]
    if (order.name, call.service) == ("key-disabled", "dynamodb"):
        message = (
            f"KMS key access denied error: com.amazonaws.services.kms.model.DisabledException:"
            f" {message} (Service: AWSKMS; Status Code: 400; Error Code: DisabledException)"
        )
    body, headers = error_body(call, code, message)
    if call.method == "HEAD":
        body = b""
    start_response(f"{status} {code}", [*headers.items(), ("Content-Length", str(len(body)))])
    return [body]


def error_body(call: Call, code: str, message: str) -> tuple[bytes, dict[str, str]]:
    """An error in the form of the call's protocol, and its headers."""
    model = get_service_model(_MODELS.get(call.service, call.service))
    context = SerializationContext(str(uuid.uuid4()))
    serialize = get_serializer_class(model.service_name, call.protocol)
    error = serialize(model.operation_model(call.operation), context).serialize(
        InjectedError(code, message)
    )
    request_id = dict.fromkeys(("x-amzn-RequestId", "x-amz-request-id"), context.request_id)
    return str(error["body"]).encode(), {**error["headers"], **request_id}


class ConnectionCut(ConnectionError):
    """The connection is closed on purpose: the server must not answer on it."""


def _cut(environ: Environ) -> Iterable[bytes]:
    """Close the connection without an answer, as a host that has crashed does (RST)."""
    connection: socket.socket = environ["werkzeug.socket"]
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RDWR)
    raise ConnectionCut


def _ignore_start(*_: object) -> Callable[[bytes], object]:
    return lambda _: None
