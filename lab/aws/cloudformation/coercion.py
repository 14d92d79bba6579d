"""Converts template values to an API's types: text to numbers and booleans, by its own model."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from botocore.model import ListShape, MapShape, Shape, StructureShape

from lab.aws.cloudformation.failures import ResourceFailure


def request(client: Any, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """`parameters` with the types that a client's operation (such as CreateTable) declares.

    Raises ResourceFailure for a member that the operation does not have, naming its path, so
    that no property of a template is silently dropped.
    """
    shape = client.meta.service_model.operation_model(operation).input_shape
    return dict(_typed(parameters, shape, "#"))


def _typed(value: Any, shape: Shape, path: str) -> Any:
    if isinstance(shape, StructureShape):
        return _structure(value, shape, path)
    if isinstance(shape, ListShape):
        items = value if isinstance(value, list) else [value]
        return [_typed(item, shape.member, f"{path}/{n}") for n, item in enumerate(items)]
    if isinstance(shape, MapShape):
        return {key: _typed(item, shape.value, f"{path}/{key}") for key, item in value.items()}
    return _scalar(value, shape.type_name, path)


def _structure(value: Any, shape: StructureShape, path: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ResourceFailure(f"Properties validation failed: {path}: expected an object")
    typed = {}
    for key, item in value.items():
        if key not in shape.members:
            raise extraneous(path, key)
        typed[key] = _typed(item, shape.members[key], f"{path}/{key}")
    return typed


def camel_case(value: Any, *, verbatim: Collection[str] = ()) -> Any:
    """CloudFormation's PascalCase names in camelCase, which some APIs use.

    Members named in `verbatim` hold the user's own keys, which keep their spelling.
    """
    if isinstance(value, list):
        return [camel_case(item, verbatim=verbatim) for item in value]
    if isinstance(value, dict):
        return {
            name[0].lower() + name[1:]: (
                item if name in verbatim else camel_case(item, verbatim=verbatim)
            )
            for name, item in value.items()
        }
    return value


def text(value: Any) -> str:
    """A template's value as text: a boolean as `true` or `false`, a list with commas."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(map(text, value))
    return str(value)


def is_true(value: Any) -> bool:
    """The value of a boolean property, which a template may write as text."""
    return str(value).lower() == "true"


def extraneous(path: str, key: str) -> ResourceFailure:
    """CloudFormation's error for a property that a type does not have."""
    return ResourceFailure(
        f"Properties validation failed with message: {path}: extraneous key [{key}] is not"
        " permitted"
    )


def _scalar(value: Any, kind: str, path: str) -> Any:
    try:
        match kind:
            case "integer" | "long":
                return int(str(value))
            case "float" | "double":
                return float(str(value))
            case "boolean":
                return {"true": True, "false": False}[str(value).lower()]
            case "string":
                return json.dumps(value) if isinstance(value, Mapping | list) else text(value)
    except (ValueError, KeyError):
        raise ResourceFailure(
            f"Properties validation failed with message: {path}: {value!r} is no {kind}"
        ) from None
    return value


def lost(sent: Any, stored: Any, path: str = "#") -> list[str]:
    """The paths of members that an API was given and did not keep."""
    if isinstance(sent, Mapping):
        if not isinstance(stored, Mapping):
            return [path]
        return [
            where
            for key, item in sent.items()
            for where in (
                lost(item, stored[key], f"{path}/{key}") if key in stored else [f"{path}/{key}"]
            )
        ]
    if isinstance(sent, list):
        if not isinstance(stored, list) or len(stored) < len(sent):
            return [path]
        return [
            where
            for number, (item, copy) in enumerate(zip(sent, stored, strict=False))
            for where in lost(item, copy, f"{path}/{number}")
        ]
    return []
