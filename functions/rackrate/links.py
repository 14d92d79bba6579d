"""What an execution's output says of the page: a link that anybody can open for a while."""

from __future__ import annotations

from rackrate.store import Store

#: What is asked for. What is signed with a function's credentials ends with them, at the latest
#: after twelve hours (Amazon S3 user guide, "Download and upload objects with presigned URLs").
LINK_SECONDS = 12 * 3600


def link(key: str, store: Store) -> str:
    """A presigned link to an object."""
    return store.link(key, seconds=LINK_SECONDS)


def validity(key: str, store: Store) -> str:
    """How long such a link holds, and what to do then, in words."""
    return (
        f"at most {LINK_SECONDS // 3600} hours, often less: it ends with the credentials of the"
        " function that signed it, and Lambda does not tell when that is. Then: aws s3 cp"
        f" s3://{store.bucket_name}/{key} ."
    )
