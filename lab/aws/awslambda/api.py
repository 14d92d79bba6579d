"""Lambda's API: functions that run, and what else moto lacks."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
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


def invoking(runtime: LambdaRuntime) -> Callable[..., bytes]:
    """Invoke, by the runtime."""

    def invoke(
        self: LambdaSimpleBackend,
        function_name: str,
        qualifier: str | None,
        body: Any,
        headers: Mapping[str, Any],
        response_headers: dict[str, str],
    ) -> bytes:
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

    return invoke


def creating(runtime: LambdaRuntime) -> Callable[..., None]:
    """A new function, whose role may use its network."""

    def init(self: LambdaFunction, *args: Any, **kwargs: Any) -> None:
        spec = kwargs["spec"] if "spec" in kwargs else args[1]
        runtime.check_network(spec["Role"], spec)
        _moto_init(self, *args, **kwargs)
        _keep_logging(self, spec)

    return init


def updating(runtime: LambdaRuntime) -> Callable[..., dict[str, Any]]:
    """A function's new configuration, if its role may use its network."""

    def update_configuration(
        self: LambdaFunction, config_updates: dict[str, Any]
    ) -> dict[str, Any]:
        runtime.check_network(config_updates.get("Role", self.role), config_updates)
        _keep_logging(self, config_updates)
        return _moto_update_configuration(self, config_updates)

    return update_configuration


def get_configuration(self: LambdaFunction, on_create: bool = False) -> dict[str, Any]:
    """A function's configuration, with its log settings."""
    configuration = _moto_get_configuration(self, on_create)
    configuration["LoggingConfig"] = {
        "LogFormat": "Text",
        **self.logging_config,  # type: ignore[attr-defined]
        "LogGroup": self.logs_group_name,
    }
    return configuration


def storing(archives: Archives) -> Callable[[LambdaFunction, dict[str, Any]], None]:
    """A function's new code, which is unpacked before a worker needs it."""

    def set_function_code(self: LambdaFunction, updated_spec: dict[str, Any]) -> None:
        _moto_set_function_code(self, updated_spec)
        archives.keep(self)

    return set_function_code


def publishing(archives: Archives) -> Callable[[LambdaBackend, dict[str, Any]], LayerVersion]:
    """PublishLayerVersion, whose content is unpacked before a worker needs it."""

    def publish_layer_version(self: LambdaBackend, spec: dict[str, Any]) -> LayerVersion:
        version = _moto_publish_layer_version(self, spec)
        archives.keep_layer(version)
        return version

    return publish_layer_version


def deleting(runtime: LambdaRuntime) -> Callable[..., None]:
    """DeleteFunction, which also ends the function's workers."""

    def delete_function(
        self: LambdaBackend, function_name: str, qualifier: str | None = None
    ) -> None:
        _moto_delete_function(self, function_name, qualifier)
        if qualifier is None:
            runtime.forget(function_name)

    return delete_function


def _keep_logging(function: LambdaFunction, spec: Mapping[str, Any]) -> None:
    """Keep a function's log group and log settings; moto knows only the defaults."""
    logging_config = dict(spec.get("LoggingConfig") or {})
    if logging_config.get("LogGroup"):
        function.logs_group_name = logging_config["LogGroup"]
    if logging_config or not hasattr(function, "logging_config"):
        function.logging_config = logging_config  # type: ignore[attr-defined]
