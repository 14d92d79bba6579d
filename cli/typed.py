"""Check what was read from a file against the types that its dataclass states."""

from __future__ import annotations

import functools
import sys
from collections.abc import Hashable, Mapping
from dataclasses import is_dataclass
from types import UnionType
from typing import Any, TypeAliasType, Union, get_args, get_origin, get_type_hints

#: A whole number above it cannot be printed as a figure.
_MOST = sys.float_info.max


def typed[T: Hashable](value: T) -> T:
    """Return a dataclass unchanged.

    Raises TypeError when a field, or one of its parts, holds another kind of value than it states.
    """
    for name, hint in _hints(type(value)).items():
        _check(getattr(value, name), hint, name)
    return value


@functools.cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _check(value: object, hint: Any, name: str) -> None:
    if isinstance(hint, TypeAliasType):
        hint = hint.__value__
    if get_origin(hint) in (Union, UnionType):
        if value is None and type(None) in get_args(hint):
            return
        (hint,) = (each for each in get_args(hint) if each is not type(None))
        _check(value, hint, name)
        return
    if not _is_of(value, hint):
        raise TypeError(f"{name} is {str(value)[:40]!r}")
    if is_dataclass(hint):
        typed(value)
    elif isinstance(value, tuple):
        kinds = get_args(hint)
        for at, each in enumerate(value):
            _check(each, kinds[0] if kinds[-1] is ... else kinds[at], name)
    elif isinstance(value, dict):
        for key, each in value.items():
            _check(key, get_args(hint)[0], name)
            _check(each, get_args(hint)[1], name)


def _is_of(value: object, hint: Any) -> bool:
    """Whether a value is of a kind, apart from what it holds."""
    kind = get_origin(hint) or hint
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return abs(value) <= _MOST  # which is false for NaN, too
    if kind is int and isinstance(value, int):
        return not isinstance(value, bool) and abs(value) <= _MOST
    return isinstance(value, kind)
