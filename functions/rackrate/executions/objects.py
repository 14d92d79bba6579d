"""The objects of a stack's bucket."""

from __future__ import annotations

import functools
import json
from typing import Any

from botocore.config import Config

from rackrate.errors import suppress_codes, translated

#: The requested lifetime of a link to an object. A link expires earlier when the credentials that
#: signed it do, and those of a function last at most twelve hours (Amazon S3 user guide, "Download
#: and upload objects with presigned URLs").
LINK_SECONDS = 12 * 3600


class Objects:
    """A bucket.

    Args:
        session: makes the client that signs links.
        s3: a client of S3.
        bucket_name: the bucket.

    Raises, from every method:
        Throttled: too many requests.
    """

    def __init__(self, session: Any, s3: Any, bucket_name: str) -> None:
        self._session, self._s3 = session, s3
        self.bucket_name = bucket_name

    def put(self, key: str, text: str, content_type: str) -> str:
        """Write text, and return the key."""
        return self.put_bytes(key, text.encode(), f"{content_type}; charset=utf-8")

    def put_json(self, key: str, value: Any) -> str:
        """Write JSON, and return the key."""
        return self.put(key, json.dumps(value, indent=1), "application/json")

    def put_bytes(self, key: str, body: bytes, content_type: str) -> str:
        """Write bytes, and return the key."""
        with translated():
            self._s3.put_object(
                Bucket=self.bucket_name, Key=key, Body=body, ContentType=content_type
            )
        return key

    def read(self, key: str) -> bytes:
        """Read an object.

        Raises:
            botocore.exceptions.ClientError: there is none.
        """
        with translated():
            response = self._s3.get_object(Bucket=self.bucket_name, Key=key)
            body: bytes = response["Body"].read()
            return body

    def find(self, key: str) -> bytes | None:
        """An object, or None where there is none."""
        # S3 answers AccessDenied for a missing key when the caller may not list the bucket.
        with suppress_codes("NoSuchKey", "404", "AccessDenied", "403"):
            return self.read(key)
        return None

    def delete(self, key: str) -> None:
        """Delete an object; it is no error when there is none."""
        with translated():
            self._s3.delete_object(Bucket=self.bucket_name, Key=key)

    def link(self, key: str) -> str:
        """A presigned link to one object; the reader needs no credentials.

        This process's credentials sign it. The link expires when they do, or after `LINK_SECONDS`.
        Signing makes no call, and the object need not exist yet.
        """
        url: str = self._signer.generate_presigned_url(
            "get_object", Params={"Bucket": self.bucket_name, "Key": key}, ExpiresIn=LINK_SECONDS
        )
        return url

    def link_validity(self, key: str) -> str:
        """What such a link to a page is, how long it is valid, and what to do afterwards."""
        return (
            "The link opens the page with all figures and charts for anyone who has it, without an"
            f" AWS account. It works for at most {LINK_SECONDS // 3600} hours, often less: it ends"
            " with the credentials of the function that signed it, and Lambda does not tell when"
            f" that is. Afterwards, `aws s3 cp s3://{self.bucket_name}/{key} .` fetches the page."
        )

    @functools.cached_property
    def _signer(self) -> Any:
        # S3 serves objects encrypted with KMS only to requests signed with version 4. A signature
        # is valid for one host, and the global host redirects readers to the Region's host.
        config = Config(
            signature_version="s3v4",
            s3={"us_east_1_regional_endpoint": "regional", "addressing_style": "virtual"},
        )
        return self._session.client("s3", config=config)
