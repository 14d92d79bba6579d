"""The lab checks presigned links as S3 does: their signer, their object and their expiry."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from lab.tests.aws.region import Lab, allow
from tests.waiting import HUNG_SECONDS

#: A key with characters that have to be encoded in a URL and in the signed text.
KEY = "a b+c:1.html"


@pytest.fixture
def linked(lab: Lab) -> tuple[str, Any]:
    """A bucket with an object, and a client that may read the object and signs links to it."""
    bucket = lab.stored(KEY, b"the page")
    role = lab.role("lambda.amazonaws.com", allow("s3:GetObject", f"arn:aws:s3:::{bucket}/{KEY}"))
    # By default boto3 signs links with version 2.
    return bucket, lab.as_role(role, "s3", signature_version="s3v4")


def sign(linked: tuple[str, Any], key: str = KEY, seconds: int = 60) -> str:
    bucket, client = linked
    return str(
        client.generate_presigned_url(
            "get_object", Params={"Bucket": bucket, "Key": key}, ExpiresIn=seconds
        )
    )


def fetch(url: str) -> tuple[int, bytes]:
    """Fetch a link without credentials. Returns the status and the body."""
    try:
        with urllib.request.urlopen(url, timeout=HUNG_SECONDS) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_a_link_opens_what_its_signer_may_read_and_nothing_else(
    linked: tuple[str, Any],
) -> None:
    assert fetch(sign(linked)) == (200, b"the page")
    status, body = fetch(sign(linked, "other.html"))
    assert (status, b"AccessDenied" in body) == (403, True)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda url: url.partition("?")[0], b""),
        (lambda url: f"{url[:-4]}0000", b"SignatureDoesNotMatch"),
        (lambda url: url.replace("X-Amz-Expires=60", "X-Amz-Expires=6000"), b"DoesNotMatch"),
        (lambda url: url.replace("c%3A1.html", "c%3A2.html"), b"SignatureDoesNotMatch"),
        (lambda url: url.replace("X-Amz-Security-Token=", "X-Amz-Security-Token=A"), b"InvalidT"),
        (lambda url: re.sub("Date=....", "Date=2001", url), b"Request has expired"),
        (lambda url: url.replace("X-Amz-Expires=60", "X-Amz-Expires=999999"), b"less than a week"),
    ],
)
def test_a_link_that_was_changed_or_has_ended_is_refused(
    linked: tuple[str, Any], change: Callable[[str], str], code: bytes
) -> None:
    url = sign(linked)
    assert change(url) != url
    status, body = fetch(change(url))
    assert status in (400, 403)
    assert code in body
