"""The resources that a test gives to the code under test."""

from __future__ import annotations

import functools
from typing import Any

from rackrate.resources import Resources

PARTS = {n for n, part in vars(Resources).items() if isinstance(part, functools.cached_property)}


class Given(Resources):
    """Resources with only the parts that a test gives. Access to another part fails the test.

    Access to a part that is an exception raises it.
    """

    def __init__(self, **parts: Any) -> None:
        assert parts.keys() <= PARTS
        self._parts = parts

    def __getattribute__(self, name: str) -> Any:
        if name not in PARTS:
            return super().__getattribute__(name)
        part = self._parts.get(name, AssertionError(f"nobody gave {name}"))
        if isinstance(part, Exception):
            raise part
        return part

    def but(self, **parts: Any) -> Given:
        """A copy with other or additional parts."""
        return type(self)(**{**self._parts, **parts})
