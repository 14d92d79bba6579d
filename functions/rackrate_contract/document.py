"""The base class of every value that is stored or passed on as JSON."""

from __future__ import annotations

import json
import sys
from itertools import product
from types import NoneType
from typing import Any, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict

Json = dict[str, Any]


class Document(BaseModel):
    """A value with named fields. `from_json` accepts exactly the fields that `to_json` produces."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,  # the references in docs/ are generated from them
    )

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Read what `to_json` returned, as a value or as JSON text.

        Raises:
            pydantic.ValidationError: the value does not match the model.
        """
        # Strict validation accepts a list for a tuple only in JSON text.
        text = value if isinstance(value, str | bytes) else json.dumps(value)
        return cls.model_validate_json(text)

    @classmethod
    def read(cls, text: str | bytes) -> Self:
        """Read what another version may have written.

        Fields that this version does not know are ignored. A missing one has its default, or it is
        null, or empty where it is a list or an object by name.

        Raises:
            ValueError: the text is no JSON, has a number larger than any figure, or does not match
                the model otherwise.
            RecursionError: it is nested too deeply.
        """
        value = json.loads(text, parse_int=_whole)
        _fill(cls, value)
        return cls.model_validate_json(json.dumps(value), extra="ignore")

    @classmethod
    def from_fields(cls, source: object, **others: Any) -> Self:
        """Make it from what another value has under the names of its fields.

        `others` are the fields that the source lacks or has in another form.
        """
        names = [name for name in cls.model_fields if name not in others and hasattr(source, name)]
        return cls(**{name: getattr(source, name) for name in names}, **others)

    def to_json(self) -> Json:
        """The document as a JSON value."""
        return self.model_dump(mode="json", by_alias=True)


def _whole(digits: str) -> int:
    """A whole number, if a figure of it can be computed, which floats do."""
    number = int(digits)
    if abs(number) > sys.float_info.max:
        raise ValueError("a number is larger than any figure")
    return number


def _fill(kind: Any, value: object) -> None:
    """Add the fields that a JSON value lacks of a type and that can be null or empty.

    A field's annotation may name as `written` what JSON has instead of the field's type.
    """
    parts = get_args(kind)
    if isinstance(value, list):
        for each, part in product(value, parts):
            _fill(part, each)
    elif isinstance(value, dict) and get_origin(kind) is dict:
        for each in value.values():
            _fill(parts[1], each)
    elif isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, Document):
        for name, field in kind.model_fields.items():
            key, written = field.alias or name, field.annotation
            for each in field.metadata:
                written = getattr(each, "written", written)
            if key in value:
                _fill(written, value[key])
            elif field.is_required():
                value.update(_nothing(key, written))
    else:
        for part in parts:
            _fill(part, value)


def _nothing(key: str, kind: Any) -> Json:
    """A field that holds nothing, if its type has such a value."""
    if NoneType in get_args(kind):
        return {key: None}
    origin = get_origin(kind)
    return {key: {} if origin is dict else []} if origin in (dict, tuple) else {}
