"""The images that EKS has for nodes: their releases, and how they are called. moto has none.

Names, descriptions and release versions have AWS's forms; see `rackrate.measure.releases` for their
sources. As on AWS, Amazon owns the images, and a node group without a release gets the newest.
"""

from __future__ import annotations

import datetime
import threading
from dataclasses import dataclass

from moto.ec2.models import ec2_backends

from lab.aws.account import ACCOUNT_ID, REGION
from lab.aws.clients import ClientFactory
from lab.aws.eks.validation import invalid

#: The dates of the lab's releases, and the version of Bottlerocket of that date; the newest last.
_RELEASES = {"20260625": "1.61.0-3f5a2c1d", "20260714": "1.62.0-9b7e4d2a"}
#: The patch version of Kubernetes in every release of Amazon Linux.
_PATCH = 2


@dataclass(frozen=True)
class _Image:
    release: str
    name: str
    description: str
    architecture: str
    created_at: datetime.datetime


class Releases:
    """Registers the images of a kind when a node group first asks for one of them."""

    def __init__(self, clients: ClientFactory) -> None:
        self._clients = clients
        self._registered: dict[tuple[str, str], dict[str, str]] = {}
        self._lock = threading.Lock()

    def images(self, version: str, ami_type: str) -> dict[str, str]:
        """The ids of the images for a Kubernetes version and an AMI type, by their release."""
        with self._lock:
            if (version, ami_type) not in self._registered:
                self._registered[version, ami_type] = {
                    image.release: self._register(image) for image in _images(version, ami_type)
                }
            return self._registered[version, ami_type]

    def chosen(self, version: str, ami_type: str, requested: str | None) -> str:
        """The release of a node group. Raises ApiError for one that there is not."""
        existing = list(self.images(version, ami_type))
        if requested is None:
            return existing[-1]
        if requested not in existing:
            raise invalid(
                f"Requested Nodegroup release version {requested} is invalid. Allowed release"
                f" versions are {', '.join(existing)}"
            )
        return requested

    def _register(self, image: _Image) -> str:
        id_: str = self._clients.get("ec2").register_image(
            Name=image.name, Description=image.description, Architecture=image.architecture
        )["ImageId"]
        registered = ec2_backends[ACCOUNT_ID][REGION].amis[id_]
        registered.owner_alias = "amazon"
        registered.creation_date = image.created_at
        return id_


def _images(version: str, ami_type: str) -> list[_Image]:
    is_arm = "ARM" in ami_type
    parameters = []
    for date, bottlerocket in _RELEASES.items():
        if ami_type.startswith("BOTTLEROCKET"):
            release, description = bottlerocket, ""
            architecture = "aarch64" if is_arm else "x86_64"
            name = f"bottlerocket-aws-k8s-{version}-{architecture}-v{bottlerocket}"
        else:
            kubernetes = f"{version}.{_PATCH}"
            release = f"{kubernetes}-{date}"
            architecture = "arm64" if is_arm else "x86_64"
            name = f"amazon-eks-node-al2023-{architecture}-standard-{version}-v{date}"
            description = (
                "EKS-optimized Kubernetes node based on Amazon Linux 2023,"
                f" (k8s: {kubernetes}, containerd: 2.1.*)"
            )
        parameters.append(
            _Image(
                release,
                name,
                description,
                "arm64" if is_arm else "x86_64",
                datetime.datetime.strptime(date, "%Y%m%d").replace(tzinfo=datetime.UTC),
            )
        )
    return parameters
