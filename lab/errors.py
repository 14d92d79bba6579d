"""What the lab says when it cannot go on: one sentence that tells what is wrong and what to do."""

from __future__ import annotations


class LabError(Exception):
    """A condition the user can mend; the message is printed as it is, without a traceback."""
