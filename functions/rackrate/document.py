"""The base class of every value that is stored or passed on as JSON."""

from __future__ import annotations

import json
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

Json = dict[str, Any]


class Document(BaseModel):
    """A value with named fields. Reading accepts exactly the fields that writing produces."""

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
    def from_fields(cls, source: object, **others: Any) -> Self:
        """Make it from what another value has under the names of its fields.

        `others` are the fields that the source lacks or has in another form.
        """
        names = [name for name in cls.model_fields if name not in others and hasattr(source, name)]
        return cls(**{name: getattr(source, name) for name in names}, **others)

    def to_json(self) -> Json:
        """The document as a JSON value."""
        return self.model_dump(mode="json", by_alias=True)
