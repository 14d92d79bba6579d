"""A release: the packaged templates and functions of one version.

`make release` writes it as a directory, which names the bucket that it was packaged for. From that
bucket CloudFormation takes it by its URL. A directory can be copied to any other bucket.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import boto3
from botocore.exceptions import ClientError

from rackrate_text.units import quantity

from .errors import UNREADABLE, Refusal, error_code
from .stack import client_of
from .typed import typed

DESCRIPTION = "release.json"
HASHES = "SHA256SUMS"
_SCHEMA = "rackrate.release.v1"
_TEMPLATES = ".template"
#: The most keys that one call deletes.
_BATCH = 1000


@dataclass(frozen=True)
class Release:
    """A directory with a release.

    `bucket` and `address` are what it was packaged for: `address` is the URL of that bucket.
    `prefix` is where it belongs in any bucket, and `template` the name of the root template.
    """

    schema: str
    version: str
    bucket: str
    address: str
    prefix: str
    template: str

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Read what a directory says of its release. Raises Refusal when there is none."""
        path = directory / DESCRIPTION
        try:
            found = typed(cls(**json.loads(path.read_text("utf-8"))))
        except FileNotFoundError as error:
            raise Refusal(
                f"{directory} has no {DESCRIPTION}, so it is no release; name the directory of the"
                " version, such as build/release/rackrate/0.1.0, with --release."
            ) from error
        except (OSError, *UNREADABLE) as error:
            raise Refusal(f"{path} cannot be read ({error}); write the release anew.") from error
        if found.schema != _SCHEMA:
            raise Refusal(
                f"{path} is of schema {found.schema!r} and not {_SCHEMA}; use the command of the"
                " release's version."
            )
        return found

    def elsewhere(self, text: str, bucket: str, address: str) -> str:
        """A template's text with another bucket in place of the one that it was packaged for."""
        text = text.replace(f"{self.address}/{self.prefix}/", f"{address}/{self.prefix}/")
        text = text.replace(f"s3://{self.bucket}/{self.prefix}/", f"s3://{bucket}/{self.prefix}/")
        named = rf"^(\s*(?:S3)?Bucket: ){re.escape(self.bucket)}$"
        return re.sub(named, rf"\g<1>{bucket}", text, flags=re.MULTILINE)


def check_hashes(directory: Path) -> list[Path]:
    """The files of a release. Raises Refusal unless all are there and as they were written."""
    path = directory / HASHES
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal(f"{path} cannot be read ({error}); write the release anew.") from error
    files = []
    for line in lines:
        wanted, _, name = line.partition("  ")
        file = directory / name
        if Path(name).name != name or not file.is_file():
            raise Refusal(
                f"{directory} lacks {name!r}, which {HASHES} names; copy the whole release."
            )
        if _sha256(file) != wanted:
            raise Refusal(f"{file} is not what {HASHES} says; copy the release again.")
        files.append(file)
    return files


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def template_url(release: str, session: boto3.Session) -> str | None:
    """The URL that CloudFormation takes a release from; None for a directory.

    Raises Refusal for a URL of another Region, whose functions Lambda would refuse.
    """
    if "://" not in release:
        return None
    url = urlsplit(release)
    if not url.path.endswith(_TEMPLATES):
        raise Refusal(f"{release} is not the URL of a release's template; correct --release.")
    found = re.search(r"(?:^|\.)s3[.-]([a-z]{2}(?:-[a-z]+)+-\d)\.amazonaws\.", url.netloc)
    if found and found[1] != session.region_name:
        raise Refusal(
            f"{release} is in {found[1]}, and Lambda takes functions of its own Region"
            f" {session.region_name} alone; set AWS_REGION, or name a directory with --release."
        )
    return release


class Artifacts:
    """The bucket of the account from which one stack is deployed; private, and removed with it."""

    def __init__(self, stack: str, session: boto3.Session) -> None:
        account = client_of(session, "sts").get_caller_identity()["Account"]
        # A stack's name can be longer than a bucket's, and have capitals.
        of_stack = hashlib.sha256(stack.encode()).hexdigest()[:10]
        self.bucket = f"rackrate-{of_stack}-{account}-{session.region_name}"
        self._stack, self._region = stack, str(session.region_name)
        self._s3 = client_of(session, "s3")
        self._owner = {"Bucket": self.bucket, "ExpectedBucketOwner": account}

    def upload(self, directory: Path, note: Callable[[str], None]) -> str:
        """Copy a release into the bucket. Returns the URL of its root template."""
        release = Release.read(directory)
        files = check_hashes(directory)
        self._create()
        address = f"{self._s3.meta.endpoint_url}/{self.bucket}"
        there = self._sizes(f"{release.prefix}/")
        templates = [file for file in files if file.suffix == _TEMPLATES]
        # Their names are made of their content.
        others = [
            file
            for file in files
            if file.suffix == ""
            and file.name != HASHES
            and there.get(f"{release.prefix}/{file.name}") != file.stat().st_size
        ]
        if others:
            size = quantity(sum(file.stat().st_size for file in others), "B")
            note(f"uploading {size} to the bucket {self.bucket}")
        for file in others:
            self._s3.upload_file(str(file), self.bucket, f"{release.prefix}/{file.name}")
        for file in templates:
            body = release.elsewhere(file.read_text("utf-8"), self.bucket, address)
            self._s3.put_object(
                **self._owner, Key=f"{release.prefix}/{file.name}", Body=body.encode()
            )
        return f"{address}/{release.prefix}/{release.template}"

    def _create(self) -> None:
        elsewhere = {"CreateBucketConfiguration": {"LocationConstraint": self._region}}
        try:
            self._s3.head_bucket(**self._owner)
        except ClientError as error:
            if error_code(error) not in {"404", "NoSuchBucket"}:
                raise
            self._s3.create_bucket(
                Bucket=self.bucket, **({} if self._region == "us-east-1" else elsewhere)
            )
        self._s3.put_public_access_block(
            **self._owner,
            PublicAccessBlockConfiguration={
                "BlockPublicAcls": True,
                "IgnorePublicAcls": True,
                "BlockPublicPolicy": True,
                "RestrictPublicBuckets": True,
            },
        )
        tags = [{"Key": "rackrate:stack", "Value": self._stack}]
        self._s3.put_bucket_tagging(**self._owner, Tagging={"TagSet": tags})

    def _sizes(self, prefix: str) -> dict[str, int]:
        pages = self._s3.get_paginator("list_objects_v2").paginate(**self._owner, Prefix=prefix)
        return {each["Key"]: each["Size"] for page in pages for each in page.get("Contents", [])}

    def remove(self) -> bool:
        """Delete the bucket and what is in it. Returns whether there was one."""
        try:
            keys = list(self._sizes(""))
        except ClientError as error:
            if error_code(error) != "NoSuchBucket":
                raise
            return False
        for at in range(0, len(keys), _BATCH):
            objects: Any = [{"Key": key} for key in keys[at : at + _BATCH]]
            self._s3.delete_objects(**self._owner, Delete={"Objects": objects, "Quiet": True})
        self._s3.delete_bucket(**self._owner)
        return True
