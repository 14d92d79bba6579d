"""AWS::S3::*"""

from __future__ import annotations

import json
from typing import Any

from lab.aws.account import REGION
from lab.aws.cloudformation.coercion import extraneous, is_true
from lab.aws.cloudformation.resource_type import Created, Properties, ResourceContext, ResourceType


class Bucket(ResourceType):
    """A bucket with its encryption, versions, lifecycle and public access block."""

    type = "AWS::S3::Bucket"
    deletion = ("s3", "DeleteBucket", "Bucket")
    properties = frozenset(
        {
            "BucketEncryption",
            "BucketName",
            "LifecycleConfiguration",
            "OwnershipControls",
            "PublicAccessBlockConfiguration",
            "Tags",
            "VersioningConfiguration",
        }
    )

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        s3 = context.client("s3")
        name = properties.get("BucketName") or context.physical_name(63, lower=True)
        s3.create_bucket(Bucket=name)
        context.begin(name)
        self._configure(context, name, properties)
        return Created(
            name,
            {
                "Arn": f"arn:aws:s3:::{name}",
                "DomainName": f"{name}.s3.amazonaws.com",
                "RegionalDomainName": f"{name}.s3.{REGION}.amazonaws.com",
            },
        )

    def _configure(self, context: ResourceContext, name: str, properties: Properties) -> None:
        s3 = context.client("s3")
        # S3 lets only CloudFormation itself set tags with the aws: prefix.
        tags = [
            {"Key": key, "Value": value}
            for key, value in context.tags(properties.get("Tags")).items()
            if not key.startswith("aws:")
        ]
        if tags:
            s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": tags})
        if "VersioningConfiguration" in properties:
            s3.put_bucket_versioning(
                Bucket=name, VersioningConfiguration=properties["VersioningConfiguration"]
            )
        if "PublicAccessBlockConfiguration" in properties:
            s3.put_public_access_block(
                Bucket=name,
                PublicAccessBlockConfiguration={
                    key: is_true(value)
                    for key, value in properties["PublicAccessBlockConfiguration"].items()
                },
            )
        if "BucketEncryption" in properties:
            s3.put_bucket_encryption(
                Bucket=name,
                ServerSideEncryptionConfiguration={
                    "Rules": [
                        {
                            (
                                "ApplyServerSideEncryptionByDefault"
                                if key == "ServerSideEncryptionByDefault"
                                else key
                            ): value
                            for key, value in rule.items()
                        }
                        for rule in properties["BucketEncryption"][
                            "ServerSideEncryptionConfiguration"
                        ]
                    ]
                },
            )
        if "OwnershipControls" in properties:
            s3.put_bucket_ownership_controls(
                Bucket=name, OwnershipControls=properties["OwnershipControls"]
            )
        if "LifecycleConfiguration" in properties:
            s3.put_bucket_lifecycle_configuration(
                Bucket=name,
                LifecycleConfiguration={
                    "Rules": [
                        _lifecycle_rule(rule)
                        for rule in properties["LifecycleConfiguration"]["Rules"]
                    ]
                },
            )

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> None:
        self._configure(context, str(context.state.physical_id), new)


_RULE = {"AbortIncompleteMultipartUpload", "Id", "Status", "Transitions"}


def _lifecycle_rule(rule: dict[str, Any]) -> dict[str, Any]:
    """Convert a lifecycle rule from CloudFormation's form to the API's."""
    for key in rule:
        if key not in _RULE:
            raise extraneous("#/LifecycleConfiguration/Rules", key)
    made: dict[str, Any] = {
        "ID": rule["Id"],
        "Status": rule["Status"],
        "Filter": {"Prefix": ""},
    }
    if "AbortIncompleteMultipartUpload" in rule:
        made["AbortIncompleteMultipartUpload"] = {
            key: int(value) for key, value in rule["AbortIncompleteMultipartUpload"].items()
        }
    if "Transitions" in rule:
        made["Transitions"] = [
            {"Days": int(each["TransitionInDays"]), "StorageClass": each["StorageClass"]}
            for each in rule["Transitions"]
        ]
    return made


class BucketPolicy(ResourceType):
    """A bucket's policy."""

    type = "AWS::S3::BucketPolicy"
    deletion = ("s3", "DeleteBucketPolicy", "Bucket")
    properties = frozenset({"Bucket", "PolicyDocument"})

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        self._put(context, properties)
        return Created(properties["Bucket"])

    @staticmethod
    def _put(context: ResourceContext, properties: Properties) -> None:
        context.client("s3").put_bucket_policy(
            Bucket=properties["Bucket"], Policy=json.dumps(properties["PolicyDocument"])
        )

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> None:
        self._put(context, new)
