"""The base of everything that is kept or handed on as JSON, read and written in one way."""

from __future__ import annotations

import json
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

Json = dict[str, Any]


class Document(BaseModel):
    """A value with named fields. What is written is what is read, and nothing else is accepted."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,  # the references in docs/ tell what they say
    )

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Reads what `to_json` gave, or its text.

        Raises:
            pydantic.ValidationError: it is something else.
        """
        # As text, for only there a list is as good as a tuple.
        text = value if isinstance(value, str | bytes) else json.dumps(value)
        return cls.model_validate_json(text)

    def to_json(self) -> Json:
        """The value as JSON has it."""
        return self.model_dump(mode="json", by_alias=True)
