"""Lambda's API: functions that run, and what else moto lacks."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from moto.awslambda.models import LambdaBackend, LambdaFunction, LayerVersion
from moto.awslambda_simple.models import LambdaSimpleBackend

from lab.aws.awslambda.archives import Archives
from lab.aws.awslambda.runtime import LambdaRuntime

_LOG_TAIL_BYTES = 4096


_moto_init = LambdaFunction.__init__
_moto_update_configuration = LambdaFunction.update_configuration
_moto_get_configuration = LambdaFunction.get_configuration
_moto_set_function_code = LambdaFunction._set_function_code
_moto_delete_function = LambdaBackend.delete_function
_moto_publish_layer_version = LambdaBackend.publish_layer_version


def invoke(
    self: LambdaSimpleBackend,
    runtime: LambdaRuntime,
    function_name: str,
    qualifier: str | None,
    body: Any,
    headers: Mapping[str, Any],
    response_headers: dict[str, str],
) -> bytes:
    """Invoke, by the runtime."""
    function = self.get_function(function_name, qualifier)
    payload = body.encode() if isinstance(body, str) else bytes(body or b"")
    kind = headers.get("X-Amz-Invocation-Type") or headers.get("x-amz-invocation-type")
    if kind == "DryRun":
        return b""
    if kind == "Event":
        runtime.invoke_event(function.function_arn, payload)
        return b""
    context = base64.b64decode(headers.get("X-Amz-Client-Context") or "").decode()
    outcome = runtime.invoke(function, payload, client_context=context)
    response_headers["x-amz-executed-version"] = "$LATEST"
    tail = outcome.log.encode()[-_LOG_TAIL_BYTES:]
    response_headers["x-amz-log-result"] = base64.b64encode(tail).decode()
    if outcome.failed:
        response_headers["x-amz-function-error"] = "Unhandled"
    return outcome.payload


def create(self: LambdaFunction, runtime: LambdaRuntime, *args: Any, **kwargs: Any) -> None:
    """A new function, whose role may use its network."""
    spec = kwargs["spec"] if "spec" in kwargs else args[1]
    runtime.check_network(spec["Role"], spec)
    _moto_init(self, *args, **kwargs)
    _keep_logging(self, spec)


def update_configuration(
    self: LambdaFunction, runtime: LambdaRuntime, config_updates: dict[str, Any]
) -> dict[str, Any]:
    """A function's new configuration, if its role may use its network."""
    runtime.check_network(config_updates.get("Role", self.role), config_updates)
    _keep_logging(self, config_updates)
    return _moto_update_configuration(self, config_updates)


def get_configuration(self: LambdaFunction, on_create: bool = False) -> dict[str, Any]:
    """A function's configuration, with its log settings."""
    configuration = _moto_get_configuration(self, on_create)
    configuration["LoggingConfig"] = {
        "LogFormat": "Text",
        **self.logging_config,  # type: ignore[attr-defined]
        "LogGroup": self.logs_group_name,
    }
    return configuration


def set_function_code(
    self: LambdaFunction, archives: Archives, updated_spec: dict[str, Any]
) -> None:
    """A function's new code, which is unpacked before a worker needs it."""
    _moto_set_function_code(self, updated_spec)
    archives.keep(self)


def publish_layer_version(
    self: LambdaBackend, archives: Archives, spec: dict[str, Any]
) -> LayerVersion:
    """PublishLayerVersion, whose content is unpacked before a worker needs it."""
    version = _moto_publish_layer_version(self, spec)
    archives.keep_layer(version)
    return version


def delete_function(
    self: LambdaBackend, runtime: LambdaRuntime, function_name: str, qualifier: str | None = None
) -> None:
    """DeleteFunction, which also ends the function's workers."""
    _moto_delete_function(self, function_name, qualifier)
    if qualifier is None:
        runtime.forget(function_name)


def _keep_logging(function: LambdaFunction, spec: Mapping[str, Any]) -> None:
    """Keep a function's log group and log settings; moto knows only the defaults."""
    logging_config = dict(spec.get("LoggingConfig") or {})
    if logging_config.get("LogGroup"):
        function.logs_group_name = logging_config["LogGroup"]
    if logging_config or not hasattr(function, "logging_config"):
        function.logging_config = logging_config  # type: ignore[attr-defined]
