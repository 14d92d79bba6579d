"""AWS::S3::*"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lab.aws.cloudformation.api_resource import ApiResource, Call, names, renamed
from lab.aws.cloudformation.coercion import extraneous
from lab.aws.cloudformation.resource_type import Properties, ResourceContext, Tagging

_LIFECYCLE_RULE = {"AbortIncompleteMultipartUpload", "Id", "Status", "Transitions"}


def _lifecycle_rule(rule: dict[str, Any]) -> dict[str, Any]:
    """Convert a lifecycle rule from CloudFormation's form to the API's."""
    for key in rule:
        if key not in _LIFECYCLE_RULE:
            raise extraneous("#/LifecycleConfiguration/Rules", key)
    transitions = [
        {"Days": item["TransitionInDays"], "StorageClass": item["StorageClass"]}
        for item in rule.get("Transitions", [])
    ]
    copied = {key: value for key, value in rule.items() if key not in ("Id", "Transitions")}
    return {
        **copied,
        "ID": rule["Id"],
        "Filter": {"Prefix": ""},
        **({"Transitions": transitions} if transitions else {}),
    }


def _encryption(value: dict[str, Any]) -> dict[str, Any]:
    rules = [
        {
            key.replace("ServerSideEncryptionByDefault", "ApplyServerSideEncryptionByDefault"): item
            for key, item in rule.items()
        }
        for rule in value["ServerSideEncryptionConfiguration"]
    ]
    return {"Rules": rules}


def _same(value: dict[str, Any]) -> dict[str, Any]:
    return value


#: Properties that are an operation and a parameter each, and how the API writes their values.
_SETTINGS: dict[str, tuple[str, str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "BucketEncryption": (
        "PutBucketEncryption",
        "ServerSideEncryptionConfiguration",
        _encryption,
    ),
    "LifecycleConfiguration": (
        "PutBucketLifecycleConfiguration",
        "LifecycleConfiguration",
        lambda value: {"Rules": [_lifecycle_rule(rule) for rule in value["Rules"]]},
    ),
    "OwnershipControls": ("PutBucketOwnershipControls", "OwnershipControls", _same),
    "PublicAccessBlockConfiguration": (
        "PutPublicAccessBlock",
        "PublicAccessBlockConfiguration",
        _same,
    ),
    "VersioningConfiguration": ("PutBucketVersioning", "VersioningConfiguration", _same),
}


def _configure(context: ResourceContext, old: Properties, new: Properties) -> None:
    bucket = {"Bucket": context.state.physical_id}
    for name, (operation, parameter, written) in _SETTINGS.items():
        if name in new:
            context.call("s3", operation, {**bucket, parameter: written(new[name])})


class _BucketTagging(Tagging):
    """S3 takes tags in a member of their own, and lets only CloudFormation itself set its own."""

    def of(self, tags: Any) -> dict[str, Any]:
        return {"Tagging": {"TagSet": super().of(tags)["Tags"]}}


RESOURCES = (
    ApiResource(
        type="AWS::S3::Bucket",
        properties=("BucketName", "Tags", *_SETTINGS),
        name=("BucketName", 63),
        lower_name=True,
        later=("BucketName", *_SETTINGS),
        creation=Call("CreateBucket", Bucket="{BucketName}"),
        id="{BucketName}",
        attributes={"Arn": "arn:aws:s3:::{id}"},
        configure=_configure,
        deletion=Call("DeleteBucket", Bucket="{id}"),
        tagging=_BucketTagging(
            "s3",
            "PutBucketTagging",
            "Bucket",
            identity="{id}",
            at_creation=False,
            takes_own=False,
        ),
    ),
    ApiResource(
        type="AWS::S3::BucketPolicy",
        properties=names("Bucket PolicyDocument"),
        prepare=renamed(PolicyDocument="Policy"),
        creation=Call("PutBucketPolicy"),
        id="{Bucket}",
        change=Call("PutBucketPolicy"),
        deletion=Call("DeleteBucketPolicy", Bucket="{id}"),
    ),
)
