"""The error with which the lab stops: one sentence that says what is wrong and what to do."""

from __future__ import annotations


class LabError(Exception):
    """A condition the user can fix. The lab prints the message alone, without a traceback."""
