"""Merging of nested settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the values of `over`; mappings in both are merged, anything else is replaced."""
    result = dict(base)
    for key, value in over.items():
        present = result.get(key)
        if isinstance(value, Mapping) and isinstance(present, Mapping):
            result[key] = merged(present, value)
        else:
            result[key] = value
    return result
