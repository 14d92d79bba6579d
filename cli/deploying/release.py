"""A release: the packaged templates and functions of one version.

`make release` writes it as a directory, which names the bucket that it was packaged for. It is
copied into a bucket of one's own account, from the directory or from that bucket by its URL.
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

from rackrate_text.units import quantity

from ..errors import UNREADABLE, Refusal, unless_missing
from ..reading.stack import client_of, paginated

DESCRIPTION = "release.json"
HASHES = "SHA256SUMS"
_SCHEMA = "rackrate.release.v2"
_TEMPLATES = ".template"
#: The most keys that one call deletes.
_BATCH = 1000
#: The hash of the list of hashes of a release, in the wheel that belongs to it.
OWN_HASH = Path(__file__).parents[1] / "release.sha256"


@dataclass(frozen=True)
class Release:
    """A directory with a release.

    `bucket` and `address` are what it was packaged for: `address` is the URL of that bucket.
    `prefix` is where it belongs in any bucket. `template` is the name of the root template, and
    `existing_cluster_template` that of the one for a cluster that exists.
    """

    schema: str
    version: str
    bucket: str
    address: str
    prefix: str
    template: str
    existing_cluster_template: str

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Read what a directory says of its release. Raises Refusal when there is none."""
        path = directory / DESCRIPTION
        try:
            fields = json.loads(path.read_text("utf-8"))
            release = cls(**fields)
            if not all(isinstance(value, str) for value in fields.values()):
                raise TypeError("a field is no text")
        except FileNotFoundError as error:
            raise Refusal(
                f"{directory} has no {DESCRIPTION}, so it is no release; name the directory of the"
                " version, such as build/release/rackrate/0.1.0, with --release."
            ) from error
        except (OSError, *UNREADABLE) as error:
            raise Refusal(f"{path} cannot be read ({error}); write the release again.") from error
        if release.schema != _SCHEMA:
            raise Refusal(
                f"{path} is of schema {release.schema!r} and not {_SCHEMA}; use the command of the"
                " release's version."
            )
        return release

    def elsewhere(self, text: str, bucket: str, address: str) -> str:
        """A template's text with another bucket in place of the one that it was packaged for."""
        text = text.replace(f"{self.address}/{self.prefix}/", f"{address}/{self.prefix}/")
        text = text.replace(f"s3://{self.bucket}/{self.prefix}/", f"s3://{bucket}/{self.prefix}/")
        named = rf"^(\s*(?:S3)?Bucket: ){re.escape(self.bucket)}$"
        return re.sub(named, rf"\g<1>{bucket}", text, flags=re.MULTILINE)


def check_hashes(directory: Path, sha256: str | None = None) -> list[Path]:
    """The files of a release. Raises Refusal unless all are there and as they were written.

    `sha256` is the hash that the list of their hashes must have, if it is known.
    """
    files = []
    for expected, name in _sums(directory / HASHES, sha256):
        file = directory / name
        if not file.is_file():
            raise Refusal(
                f"{directory} lacks {name!r}, which {HASHES} names; copy the whole release."
            )
        if _sha256(file) != expected:
            raise Refusal(f"{file} is not what {HASHES} says; copy the release again.")
        files.append(file)
    return files


def _sums(path: Path, sha256: str | None) -> list[tuple[str, str]]:
    """The hashes and names of a release's files. Raises Refusal."""
    try:
        lines = [line.partition("  ") for line in path.read_text("utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal(f"{path} cannot be read ({error}); write the release again.") from error
    if sha256 is not None and _sha256(path) != sha256.lower():
        raise Refusal(
            f"The {HASHES} of the release has the hash {_sha256(path)} and not {sha256}; correct"
            " --release or --sha256, and do not use a release that somebody changed."
        )
    if strange := [name for _, _, name in lines if Path(name).name != name]:
        raise Refusal(f"{path} names {strange[0]!r}, which is no file's name; use another release.")
    return [(sha, name) for sha, _, name in lines]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def download(url: str, sha256: str | None, session: boto3.Session, directory: Path) -> Path:
    """Copy a published release into an empty directory, which is returned.

    `sha256` is the hash of its list of hashes; by default that of the release to which this
    command's wheel belongs. Raises Refusal for another list, before it copies what that names.
    """
    if sha256 is None:
        if not OWN_HASH.is_file():
            raise Refusal(
                "A release by URL needs a hash to be checked with; add --sha256 with that of its"
                f" {HASHES}, or use the wheel of the release."
            )
        sha256 = OWN_HASH.read_text("ascii").strip()
    bucket, prefix, region = _place(url, client_of(session, "s3").meta.endpoint_url)
    s3 = client_of(session, "s3", region_name=region or session.region_name)
    s3.download_file(bucket, f"{prefix}/{HASHES}", str(directory / HASHES))
    for _, name in _sums(directory / HASHES, sha256):
        s3.download_file(bucket, f"{prefix}/{name}", str(directory / name))
    return directory


def _place(url: str, endpoint: str) -> tuple[str, str, str | None]:
    """The bucket, the prefix and perhaps the Region of a release's template. Raises Refusal."""
    parts = urlsplit(url)
    host = re.fullmatch(
        r"(?:(.+)\.)?s3(?:[.-]([a-z0-9-]+))?\.amazonaws\.com(?:\.cn)?", parts.netloc
    )
    path = f"{host[1]}{parts.path}" if host and host[1] else parts.path.lstrip("/")
    bucket, _, key = path.partition("/")
    prefix, _, name = key.rpartition("/")
    is_s3 = host or url.startswith(f"{endpoint}/")
    if not is_s3 or not prefix or not name.endswith(_TEMPLATES):
        raise Refusal(f"{url} is not the URL of a release's template in S3; correct --release.")
    return bucket, prefix, host and host[2]


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

    def upload(
        self,
        directory: Path,
        sha256: str | None,
        note: Callable[[str], None],
        *,
        for_existing_cluster: bool,
    ) -> str:
        """Copy a release into the bucket, if it has this hash. Returns the root template's URL."""
        release = Release.read(directory)
        files = check_hashes(directory, sha256)
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
            self._s3.upload_file(
                *(str(file), self.bucket, f"{release.prefix}/{file.name}"),
                ExtraArgs={"ExpectedBucketOwner": self._owner["ExpectedBucketOwner"]},
            )
        for file in templates:
            body = release.elsewhere(file.read_text("utf-8"), self.bucket, address)
            self._s3.put_object(
                **self._owner, Key=f"{release.prefix}/{file.name}", Body=body.encode()
            )
        of_existing = release.existing_cluster_template
        name = of_existing if for_existing_cluster else release.template
        return f"{address}/{release.prefix}/{name}"

    def _create(self) -> None:
        elsewhere = {"CreateBucketConfiguration": {"LocationConstraint": self._region}}
        if unless_missing(self._s3.head_bucket, "404", "NoSuchBucket", **self._owner) is None:
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
        request = {**self._owner, "Prefix": prefix}
        objects = paginated(self._s3, "list_objects_v2", "Contents", **request)
        return {each["Key"]: each["Size"] for each in objects}

    def remove(self) -> bool:
        """Delete the bucket and what is in it. Returns whether there was one."""
        sizes = unless_missing(self._sizes, "NoSuchBucket", prefix="")
        if sizes is None:
            return False
        keys = list(sizes)
        for at in range(0, len(keys), _BATCH):
            objects: Any = [{"Key": key} for key in keys[at : at + _BATCH]]
            self._s3.delete_objects(**self._owner, Delete={"Objects": objects, "Quiet": True})
        self._s3.delete_bucket(**self._owner)
        return True
