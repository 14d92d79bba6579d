"""Replaces what identifies an account or lets somebody in: ids, addresses, keys, names."""

from __future__ import annotations

import datetime
import hashlib
import hmac
import ipaddress
import re
from collections.abc import Mapping
from typing import Any

from botocore.model import Shape

ACCOUNT = "0" * 12
HIDDEN = "(hidden)"
#: Templates and packages are the repository's own.
_LONGEST = 4000
_IPV6 = re.compile(r"(?<![\w:])[0-9a-fA-F:]{4,39}(?![\w:])")
_IPV4 = re.compile(r"\b(?<!\.)(\d{1,3})([.-])(\d{1,3})\2(\d{1,3})\2(\d{1,3})\b(?!\.\d)")
#: Everywhere, so that a range without a host, as in a rule for all addresses, stays what it is.
_EVERYWHERE = "0.0.0.0"
_PATTERNS = (
    (re.compile(r"(?<!\d)\d{12}(?!\d)"), ACCOUNT),
    (re.compile(r"\b(A[KS]IA|AIDA|AROA)[A-Z0-9]{12,}\b"), r"\g<1>" + "0" * 16),
    (re.compile(r"(X-Amz-[\w-]+|Signature)=[^&\s\"']+"), r"\g<1>=" + HIDDEN),
    (re.compile(r"-----BEGIN [\s\S]+?-----END [A-Z ]+-----"), HIDDEN),
    (re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"), "someone@example.com"),
    # Certificates and tokens. No name at AWS is as long.
    (re.compile(r"[A-Za-z0-9+/=_-]{160,}"), HIDDEN),
)
_SECRET_NAMES = re.compile(r"secret|sessiontoken|password|credential|certificateauthority", re.I)


class Redaction:
    """Replaces secrets in answers. Equal addresses stay equal; without `salt` nobody finds them.

    `names` are those of the caller, such as a user's or a session's.
    """

    def __init__(self, salt: str, names: tuple[str, ...] = ()) -> None:
        self._salt = salt.encode()
        # A name as short as a word of AWS's would be taken out of other words.
        self._names = [re.compile(rf"(?<![\w-]){re.escape(n)}(?![\w-])") for n in names if n]

    def text(self, text: str) -> str:
        """A text without account ids, addresses, keys, e-mail addresses and the caller's names."""
        for pattern, replacement in _PATTERNS:
            text = pattern.sub(replacement, text)
        for name in self._names:
            text = name.sub("caller", text)
        return _IPV4.sub(self._address, _IPV6.sub(_address_6, text))

    def value(self, value: Any, shape: Shape | None = None) -> Any:
        """A parameter or an answer, as JSON. `shape` is that of the service's model."""
        if shape is not None and shape.metadata.get("sensitive"):
            return HIDDEN
        if isinstance(value, Mapping):
            return {
                str(key): HIDDEN
                if isinstance(each, str) and _SECRET_NAMES.search(str(key))
                else self.value(each, _member(shape, str(key)))
                for key, each in value.items()
                if key != "ResponseMetadata"
            }
        if isinstance(value, list | tuple):
            return [self.value(each, getattr(shape, "member", None)) for each in value]
        if isinstance(value, datetime.datetime):
            return value.astimezone(datetime.UTC).isoformat()
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, str):
            return self.text(value) if len(value) <= _LONGEST else f"(over {_LONGEST} characters)"
        return f"({type(value).__name__})"  # a stream, or bytes

    def _address(self, match: re.Match[str]) -> str:
        octets = [match[1], match[3], match[4], match[5]]
        if ".".join(octets) == _EVERYWHERE or any(int(octet) > 255 for octet in octets):
            return match[0]
        digest = hmac.digest(self._salt, ".".join(octets).encode(), hashlib.sha256)
        # The block for benchmarks of networks (RFC 2544), which no network routes.
        return match[2].join(("198", str(18 + digest[0] % 2), str(digest[1]), str(digest[2])))


def _address_6(match: re.Match[str]) -> str:
    """The block for documentation (RFC 3849) in place of an address; a time is none."""
    try:
        ipaddress.IPv6Address(match[0])
    except ValueError:
        return match[0]
    return "2001:db8::1"


def _member(shape: Shape | None, name: str) -> Shape | None:
    members = getattr(shape, "members", None)
    return members.get(name) if members else getattr(shape, "value", None)
