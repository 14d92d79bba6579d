"""ECR: makes pushed images known to the nodes, and pushes the images of builds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from moto.ecr.models import ECRBackend, Image

_MANIFEST_TYPE = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG_TYPE = "application/vnd.docker.container.image.v1+json"
_LAYER_TYPE = "application/vnd.docker.image.rootfs.diff.tar.gzip"
_LAYER = b"This layer stands for an image: the lab's nodes run the lab's own image of the tools."

_moto_put_image: Callable[..., Image] = ECRBackend.put_image


def put_image(
    self: ECRBackend,
    publish_image: Callable[[str], None],
    repository_name: str,
    image_manifest: str,
    image_tag: str,
    image_manifest_mediatype: str | None = None,
    digest: str | None = None,
) -> Image:
    """PutImage that lets nodes run every image that is pushed, by tag and by digest."""
    # moto's own digest comes from the layers' names, and is random for a list of images.
    digest = digest or _digest(image_manifest.encode())
    image = _moto_put_image(
        self, repository_name, image_manifest, image_tag, image_manifest_mediatype, digest
    )
    uri = self.repositories[repository_name].uri
    publish_image(f"{uri}:{image.image_tag}")
    publish_image(f"{uri}@{image.get_image_digest()}")
    return image


def push_image(ecr: Any, repository: str, tag: str, architecture: str) -> str:
    """Push an image of one layer with the calls of `docker push`. Returns its digest.

    A newer Docker first asks whether the registry has the manifest, which needs `ecr:BatchGetImage`
    (Amazon ECR user guide, "IAM permissions for pushing an image to an Amazon ECR private
    repository").
    """
    ecr.get_authorization_token()
    ecr.batch_get_image(repositoryName=repository, imageIds=[{"imageTag": tag}])
    config = json.dumps({"architecture": architecture, "os": "linux", "rootfs": {"type": "layers"}})
    blobs = {_digest(blob): blob for blob in (config.encode(), _LAYER)}
    ecr.batch_check_layer_availability(repositoryName=repository, layerDigests=list(blobs))
    for digest, blob in blobs.items():
        upload = ecr.initiate_layer_upload(repositoryName=repository)["uploadId"]
        ecr.upload_layer_part(
            repositoryName=repository,
            uploadId=upload,
            partFirstByte=0,
            partLastByte=len(blob) - 1,
            layerPartBlob=blob,
        )
        ecr.complete_layer_upload(repositoryName=repository, uploadId=upload, layerDigests=[digest])
    (config_digest, config_blob), (layer_digest, layer_blob) = blobs.items()
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST_TYPE,
        "config": {
            "mediaType": _CONFIG_TYPE,
            "size": len(config_blob),
            "digest": config_digest,
        },
        "layers": [
            {"mediaType": _LAYER_TYPE, "size": len(layer_blob), "digest": layer_digest},
        ],
    }
    put = ecr.put_image(
        repositoryName=repository,
        imageManifest=json.dumps(manifest),
        imageManifestMediaType=_MANIFEST_TYPE,
        imageTag=tag,
    )
    return str(put["image"]["imageId"]["imageDigest"])


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"
