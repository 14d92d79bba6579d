"""Lambda's API: functions that run, and what else moto lacks."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from moto.awslambda import models
from moto.awslambda.models import LambdaBackend, LambdaFunction
from moto.awslambda_simple.models import LambdaSimpleBackend

from lab.aws.awslambda.archives import Archives
from lab.aws.awslambda.runtime import LambdaRuntime

_LOG_TAIL_BYTES = 4096


def install(runtime: LambdaRuntime, archives: Archives) -> None:
    """Make moto's Lambda API use the runtime."""

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

    create, configure = _moto_init, _moto_update_configuration

    def init(self: LambdaFunction, *args: Any, **kwargs: Any) -> None:
        spec = kwargs["spec"] if "spec" in kwargs else args[1]
        runtime.check_network(spec["Role"], spec)
        create(self, *args, **kwargs)
        _keep_logging(self, spec)

    def update_configuration(
        self: LambdaFunction, config_updates: dict[str, Any]
    ) -> dict[str, Any]:
        runtime.check_network(config_updates.get("Role", self.role), config_updates)
        _keep_logging(self, config_updates)
        return configure(self, config_updates)

    def get_configuration(self: LambdaFunction, on_create: bool = False) -> dict[str, Any]:
        told = _moto_get_configuration(self, on_create)
        told["LoggingConfig"] = {
            "LogFormat": "Text",
            **self.logging_config,  # type: ignore[attr-defined]
            "LogGroup": self.logs_group_name,
        }
        return told

    set_code = _moto_set_function_code

    def set_function_code(self: LambdaFunction, updated_spec: dict[str, Any]) -> None:
        set_code(self, updated_spec)
        archives.keep(self)

    def delete_function(
        self: LambdaBackend, function_name: str, qualifier: str | None = None
    ) -> None:
        _moto_delete_function(self, function_name, qualifier)
        if qualifier is None:
            runtime.forget(function_name)

    replacements: list[tuple[type, str, Any]] = [
        (LambdaSimpleBackend, "invoke", invoke),
        (LambdaFunction, "__init__", init),
        (LambdaFunction, "update_configuration", update_configuration),
        (LambdaFunction, "get_configuration", get_configuration),
        (LambdaFunction, "_set_function_code", set_function_code),
        (LambdaBackend, "delete_function", delete_function),
    ]
    for owner, name, method in replacements:
        setattr(owner, name, method)
    models._s3_content = archives.of_object


def _keep_logging(function: LambdaFunction, spec: Mapping[str, Any]) -> None:
    """Keep a function's log group and log settings; moto knows only the defaults."""
    logging_config = dict(spec.get("LoggingConfig") or {})
    if logging_config.get("LogGroup"):
        function.logs_group_name = logging_config["LogGroup"]
    if logging_config or not hasattr(function, "logging_config"):
        function.logging_config = logging_config  # type: ignore[attr-defined]


_moto_init = LambdaFunction.__init__
_moto_update_configuration = LambdaFunction.update_configuration
_moto_get_configuration = LambdaFunction.get_configuration
_moto_set_function_code = LambdaFunction._set_function_code
_moto_delete_function = LambdaBackend.delete_function
