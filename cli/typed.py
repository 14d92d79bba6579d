"""Read dataclasses from the documents of the stack, and check them against the types they state."""

from __future__ import annotations

import functools
import json
import math
import sys
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import Any, TypeAliasType, Union, get_args, get_origin, get_type_hints

from .errors import EXIT_FAILED, UNREADABLE, Refusal

#: A whole number above it cannot be printed as a figure.
_MOST = sys.float_info.max


def document_of(content: bytes | None) -> Any:
    """Read a JSON document to print it again. What JSON cannot express becomes null.

    Python's JSON reads NaN and the infinities, also out of `1e999`.
    """
    if content is None:
        return None
    return json.loads(content, parse_constant=_finite, parse_float=_finite)


def _finite(text: str) -> float | None:
    return value if math.isfinite(value := float(text)) else None


@contextmanager
def complete(claim: str) -> Iterator[None]:
    """Refuse a document of the stack of which a part is missing or of another kind.

    `claim` says which document it is and what it would not be, as the start of a sentence.
    """
    try:
        yield
    except UNREADABLE as error:
        why = f"{type(error).__name__}: {error}"
        raise Refusal(f"{claim} ({why}); read it in the bucket.", EXIT_FAILED) from error


def check_schema(document: Mapping[str, Any], schema: str, name: str) -> None:
    """Raise Refusal when the results of a run or a campaign have another schema."""
    if document["schema"] != schema:
        raise Refusal(
            f'The results of {name} are "{document["schema"]}" and this command reads'
            f' "{schema}"; use the rackrate that belongs to the stack.'
        )


def read_fields[T: Hashable](kind: type[T], document: Mapping[str, Any], **others: Any) -> T:
    """Make a dataclass from the fields of a JSON document that are named as its own.

    `others` are the fields that the document has elsewhere or in another form. What the document
    lacks has the dataclass's default; KeyError is raised where it has none. The kinds of the values
    are for `typed` to check.
    """
    values = {
        name: others[name] if name in others else document[name]
        for name in _hints(kind)
        if name in others or name in document or not hasattr(kind, name)
    }
    return kind(**{name: _part(value, _hints(kind)[name]) for name, value in values.items()})


def _part(value: Any, hint: Any) -> Any:
    """A value of a JSON document in the form that a type hint states, as far as it has one."""
    hint = _not_none(hint)
    kind = get_origin(hint) or hint
    if isinstance(value, Mapping):
        if is_dataclass(hint):
            return read_fields(hint, value)  # type: ignore[arg-type, type-var]
        if kind is Mapping:
            return {key: _part(each, get_args(hint)[1]) for key, each in value.items()}
    if isinstance(value, list) and kind is tuple:
        return tuple(_part(each, get_args(hint)[0]) for each in value)
    return value


def typed[T: Hashable](value: T) -> T:
    """Return a dataclass unchanged.

    Raises TypeError when a field, or one of its parts, holds another kind of value than it states,
    and ValueError when it holds another number of them.
    """
    for name, hint in _hints(type(value)).items():
        _check(getattr(value, name), hint, name)
    return value


@functools.cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _not_none(hint: Any) -> Any:
    """What a type hint states besides None, without an alias."""
    if isinstance(hint, TypeAliasType):
        return _not_none(hint.__value__)
    if get_origin(hint) in (Union, UnionType):
        return _not_none(next(each for each in get_args(hint) if each is not NoneType))
    return hint


def _check(value: object, hint: Any, name: str) -> None:
    if value is None and NoneType in get_args(hint):
        return
    hint = _not_none(hint)
    if not _is_of(value, hint):
        raise TypeError(f"{name} is {str(value)[:40]!r}")
    if is_dataclass(hint):
        typed(value)
    elif isinstance(value, tuple):
        kinds = get_args(hint)
        each_kind = kinds[:1] * len(value) if kinds[-1] is ... else kinds
        for each, kind in zip(value, each_kind, strict=True):
            _check(each, kind, name)
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
