"""Errors of the emulated APIs."""

from __future__ import annotations

from moto.core.exceptions import ServiceException


class ApiError(ServiceException):
    """An error with a code and a message, in the form of the service's protocol.

    moto looks for an exception's error model in the service of the module that defines the class.
    ServiceException belongs to no service, so the lab has a class of its own.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
