"""The error of a resource, with CloudFormation's message."""

from __future__ import annotations


class ResourceFailure(Exception):
    """A resource could not be created, updated or deleted; the message is the event's reason."""
