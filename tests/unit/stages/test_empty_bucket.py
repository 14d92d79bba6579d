"""The bucket that is deleted with the stack is emptied first, with any content."""

from __future__ import annotations

import functools

import pytest

from rackrate.stages.stack import empty_bucket
from tests.unit.stack.custom_resources import Context, listener, only, request

BUCKET = "results-to-drop"
PROPERTIES = {"BucketName": BUCKET}


@pytest.fixture
def s3(aws):
    client = aws.client("s3")
    client.create_bucket(Bucket=BUCKET)
    yield client
    if BUCKET in [bucket["Name"] for bucket in client.list_buckets()["Buckets"]]:
        empty_bucket.empty(BUCKET, client, seconds=60)
        client.delete_bucket(Bucket=BUCKET)


class Paging:
    """S3 with pages of ten objects instead of a thousand, which are quicker to make."""

    def __init__(self, s3):
        self.list_object_versions = functools.partial(s3.list_object_versions, MaxKeys=10)
        self.delete_objects = s3.delete_objects


def test_a_deletion_leaves_a_bucket_that_s3_deletes(s3):
    for number in range(25):
        s3.put_object(Bucket=BUCKET, Key=f"runs/r/raw/{number}", Body=b"x")
    assert empty_bucket.empty(BUCKET, Paging(s3), seconds=60) == 25
    s3.delete_bucket(Bucket=BUCKET)


def test_old_versions_and_delete_markers_go_too(s3):
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    for body in (b"1", b"2"):
        s3.put_object(Bucket=BUCKET, Key="a", Body=body)
    s3.delete_object(Bucket=BUCKET, Key="a")
    assert empty_bucket.empty(BUCKET, s3, seconds=60) == 3
    s3.delete_bucket(Bucket=BUCKET)


def test_nothing_is_deleted_before_the_stack_is(s3):
    s3.put_object(Bucket=BUCKET, Key="a", Body=b"1")
    for kind in ("Create", "Update"):
        answer = empty_bucket.serve_request(request(kind, PROPERTIES), s3, seconds=60)
        assert answer.physical_id == BUCKET
    assert s3.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 1


def test_a_bucket_that_is_empty_or_gone_is_fine(s3):
    assert empty_bucket.empty(BUCKET, s3, seconds=60) == 0
    s3.delete_bucket(Bucket=BUCKET)
    assert empty_bucket.empty(BUCKET, s3, seconds=60) == 0


def test_it_stops_in_time_and_says_what_to_do(s3):
    s3.put_object(Bucket=BUCKET, Key="a", Body=b"1")
    with pytest.raises(empty_bucket.NotEmpty, match="no time for the rest; delete the stack again"):
        empty_bucket.empty(BUCKET, s3, seconds=-1)


def test_what_s3_refuses_to_delete_is_reported(s3):
    s3.put_object(Bucket=BUCKET, Key="a", Body=b"1")

    class Refusing:
        def list_object_versions(self, **more):
            return s3.list_object_versions(**more)

        def delete_objects(self, **_):
            return {"Errors": [{"Key": "a", "Code": "AccessDenied", "Message": "locked"}]}

    with pytest.raises(empty_bucket.NotEmpty, match="the first is a: AccessDenied, locked"):
        empty_bucket.empty(BUCKET, Refusing(), seconds=60)


def test_the_handler_empties_and_answers(s3, monkeypatch):
    from handlers import empty_bucket as handler

    monkeypatch.setattr(handler.aws.session(), "client", lambda name: s3)
    s3.put_object(Bucket=BUCKET, Key="a", Body=b"1")
    with listener() as (url, responses):
        event = request("Delete", PROPERTIES, ResponseURL=url, PhysicalResourceId=BUCKET)
        handler.handler(event, Context(seconds=900))
    assert (only(responses)["Status"], only(responses)["PhysicalResourceId"]) == ("SUCCESS", BUCKET)
    s3.delete_bucket(Bucket=BUCKET)
