"""The releases of EKS's node images: what they are called, and which of them EC2 has.

Sources: EKS user guide, "Retrieve Amazon Linux AMI version information": a release version is the
version of Kubernetes with all three parts, and a date; and the names and descriptions of the images
that Amazon publishes, https://github.com/awslabs/amazon-eks-ami and
https://github.com/bottlerocket-os/bottlerocket.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from rackrate.errors import translated

_AMAZON_LINUX = re.compile(r"-v(?P<date>\d{8})$", re.ASCII)
_KUBERNETES = re.compile(r"\bk8s: (?P<version>\d+\.\d+\.\d+)\b", re.ASCII)
_BOTTLEROCKET = re.compile(r"-v(?P<release>\d+\.\d+\.\d+-[0-9a-f]{8})$", re.ASCII)


@dataclass(frozen=True)
class Images:
    """Images for the nodes of a cluster.

    Attributes:
        ami_type: EKS's name of the kind of image, such as AL2023_x86_64_STANDARD.
        kubernetes: the minor version of the nodes' Kubernetes, such as `1.36`.
    """

    ami_type: str
    kubernetes: str

    @property
    def is_bottlerocket(self) -> bool:
        """Whether they are of Bottlerocket; otherwise they are of Amazon Linux."""
        return self.ami_type.startswith("BOTTLEROCKET_")

    @property
    def names(self) -> str:
        """The pattern of their names, as a filter of EC2 takes it."""
        is_arm = "_ARM_64" in self.ami_type
        if self.is_bottlerocket:
            architecture = "aarch64" if is_arm else "x86_64"
            return f"bottlerocket-aws-k8s-{self.kubernetes}-{architecture}-v*"
        architecture = "arm64" if is_arm else "x86_64"
        return f"amazon-eks-node-al2023-{architecture}-standard-{self.kubernetes}-v*"

    @property
    def example(self) -> str:
        """A release version in their form."""
        return "1.29.0-c55d099a" if self.is_bottlerocket else f"{self.kubernetes}.2-20260714"

    def release_of(self, name: str, description: str) -> str | None:
        """The release version of an image; None if its name or description has none."""
        if self.is_bottlerocket:
            match = _BOTTLEROCKET.search(name)
            return None if match is None else match["release"]
        date, kubernetes = _AMAZON_LINUX.search(name), _KUBERNETES.search(description)
        return None if date is None or kubernetes is None else f"{kubernetes['version']}-{date[1]}"


def releases(ec2: Any, images: Images) -> list[str]:
    """The release versions that EC2 has in this Region, the newest first.

    Raises:
        Throttled: EC2 throttled the request.
    """
    named = [{"Name": "name", "Values": [images.names]}]
    with translated():
        response = ec2.describe_images(Owners=["amazon"], Filters=named)
    newest_first = sorted(
        response["Images"], key=lambda image: image.get("CreationDate") or "", reverse=True
    )
    versions = (images.release_of(i["Name"], i.get("Description") or "") for i in newest_first)
    return list(dict.fromkeys(filter(None, versions)))
