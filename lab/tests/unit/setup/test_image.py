"""The container images are a valid OCI layout with matching digests and sizes."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from lab.setup import image


@pytest.fixture
def layout(tmp_path: Path) -> dict[str, bytes]:
    """The files of an archive with two images."""
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF and so on")
    tools = image._layer({"/usr/bin/tool": program}, directories=("/tmp", "/etc"))
    pause = image._layer({"/pause": program})
    path = tmp_path / "images.tar"
    image._write_archive(
        path,
        {
            "example/tools:1": (tools, {"Cmd": ["tool"]}),
            "example/pause:1": (pause, {"Entrypoint": ["/pause"]}),
        },
    )
    with tarfile.open(path) as archive:
        return {
            member.name: content.read()
            for member in archive
            if (content := archive.extractfile(member)) is not None
        }


def blob(layout: dict[str, bytes], descriptor: dict[str, Any]) -> bytes:
    """The content of a descriptor, checked against its digest and size."""
    content = layout["blobs/" + descriptor["digest"].replace(":", "/")]
    assert len(content) == descriptor["size"]
    assert "sha256:" + hashlib.sha256(content).hexdigest() == descriptor["digest"]
    return content


def members(layer: bytes) -> list[tarfile.TarInfo]:
    """The files of a layer."""
    with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
        return archive.getmembers()


def test_every_descriptor_leads_to_a_blob_of_its_digest_and_size(layout: dict[str, bytes]) -> None:
    assert json.loads(layout["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    index = json.loads(layout["index.json"])
    names = [m["annotations"]["io.containerd.image.name"] for m in index["manifests"]]
    digests = {
        m["annotations"]["io.containerd.image.name"]: m["digest"] for m in index["manifests"]
    }
    tools, pause = (digests[f"example/{each}:1"] for each in ("tools", "pause"))
    assert set(names) == {
        *("example/tools:1", f"example/tools@{tools}"),
        *("example/pause:1", f"example/pause@{pause}"),
    }
    seen = {"oci-layout", "index.json"}
    for descriptor in index["manifests"]:
        manifest = json.loads(blob(layout, descriptor))
        config = json.loads(blob(layout, manifest["config"]))
        (layer,) = manifest["layers"]
        content = blob(layout, layer)
        # The layer is not compressed, so its digest is also its diff ID.
        assert config["rootfs"]["diff_ids"] == [layer["digest"]]
        assert config["os"] == "linux"
        assert members(content)
        for reference in (descriptor, manifest["config"], layer):
            seen.add("blobs/" + reference["digest"].replace(":", "/"))
    assert seen == set(layout), "there is nothing else in the archive"


def test_images_run_as_somebody_who_is_not_root(layout: dict[str, bytes]) -> None:
    for descriptor in json.loads(layout["index.json"])["manifests"]:
        manifest = json.loads(blob(layout, descriptor))
        config = json.loads(blob(layout, manifest["config"]))["config"]
        user, _, group = config["User"].partition(":")
        assert int(user) > 0
        assert int(group) > 0


def test_a_layer_has_its_directories_before_its_files_and_a_tmp_for_everybody(
    tmp_path: Path,
) -> None:
    program = tmp_path / "program"
    program.write_text("content")
    layer = image._layer({"/usr/bin/tool": program}, directories=("/tmp",))
    entries = members(layer)
    assert [member.name for member in entries] == ["tmp", "usr", "usr/bin", "usr/bin/tool"]
    by_name = {member.name: member for member in entries}
    assert by_name["tmp"].mode == 0o1777
    assert by_name["usr/bin/tool"].mode == 0o755


def test_the_same_content_gives_the_same_layer(tmp_path: Path) -> None:
    """The files' times and order must not matter, because the cache's key is for the content."""
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text("content")
    second.write_text("content")
    assert image._layer({"/one": first, "/two": first}) == image._layer(
        {"/two": second, "/one": second}
    )
