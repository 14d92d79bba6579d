"""The VPC CNI of a node: which pods it connects how, and whose settings an update keeps."""

from __future__ import annotations

import copy
import io
import ipaddress
import json
import urllib.error
from email.message import Message
from pathlib import Path
from typing import Any, cast

import pytest

from lab.aws.eks.infrastructure import AddonConflict
from lab.nodes import cni
from lab.nodes.control_plane import ControlPlane

BLOCK = ipaddress.IPv4Network("10.0.1.0/26")
ENVIRONMENT = {"WARM_IP_TARGET": "2", "ENABLE_PREFIX_DELEGATION": "true"}
FIELD = '.spec.template.spec.containers[name="aws-node"].env[name="WARM_IP_TARGET"].value'


def plugins(version: str | None, pods: int = 99, block: Any = BLOCK) -> list[dict[str, Any]]:
    written = cni.configuration(
        block,
        pods=pods,
        directory=Path("/n"),
        mtu_bytes=9001,
        version=version,
        node_bits_per_second=1e9,
    )
    return list(written["plugins"])


@pytest.mark.parametrize("version", ["v1.15.0-eksbuild.1", "v1.21.1-eksbuild.1", "mine", None])
def test_pods_of_new_and_unknown_versions_have_their_nodes_bandwidth(version: str | None) -> None:
    assert [plugin["type"] for plugin in plugins(version)] == ["ptp"]


@pytest.mark.parametrize("version", ["v1.14.1-eksbuild.1", "v1.9.3-eksbuild.1", "v0.20.0"])
def test_pods_of_old_versions_have_nine_tenths_in_both_directions(version: str) -> None:
    limit = plugins(version)[1]
    assert (limit["type"], limit["ingressRate"], limit["egressRate"]) == (
        "bandwidth",
        900_000_000,
        900_000_000,
    )


def test_pods_get_the_blocks_addresses_but_the_nodes_own_and_the_gateway() -> None:
    ((addresses,),) = plugins(None)[0]["ipam"]["ranges"]
    assert (addresses["rangeStart"], addresses["rangeEnd"]) == ("10.0.1.3", "10.0.1.62")
    assert addresses["gateway"] == "10.0.1.2"


def test_no_more_pods_get_an_address_than_the_interfaces_have() -> None:
    ((addresses,),) = plugins(None, pods=29)[0]["ipam"]["ranges"]
    assert (addresses["rangeStart"], addresses["rangeEnd"]) == ("10.0.1.3", "10.0.1.31")
    block = ipaddress.IPv6Network("fd00::/96")
    ((addresses,),) = plugins(None, pods=29, block=block)[0]["ipam"]["ranges"]
    assert addresses["rangeEnd"] == str(block[-2]), "an IPv6 prefix is enough for all"


class Cluster:
    """An API server that refuses fields which somebody else has, unless it is forced."""

    def __init__(self, taken: list[str]) -> None:
        self.taken, self.applied = taken, dict[str, Any]()

    def request(
        self, path: str, method: str = "GET", body: bytes = b"", content_type: str = ""
    ) -> bytes:
        assert (method, content_type) == ("PATCH", "application/apply-patch+yaml")
        manifest = json.loads(body)
        (container,) = manifest["spec"]["template"]["spec"]["containers"]
        fields = {f'.env[name="{e["name"]}"].value' for e in container["env"] if "value" in e}
        fields |= {".image"} if "image" in container else set()
        meant = [field for field in self.taken if any(field.endswith(each) for each in fields)]
        if meant and "force=false" in path:
            causes = [{"reason": "FieldManagerConflict", "field": field} for field in meant]
            document = io.BytesIO(json.dumps({"details": {"causes": causes}}).encode())
            raise urllib.error.HTTPError(path, 409, "Conflict", Message(), document)
        self.applied = copy.deepcopy(manifest)
        container.setdefault("image", "their/own:tag")
        return json.dumps(manifest).encode()


def apply(cluster: Cluster, conflicts: str) -> str:
    manifest = cni.daemon_set("v1.15.4-eksbuild.1", ENVIRONMENT)
    return cni.apply(cast(ControlPlane, cluster), manifest, conflicts)


def environment(cluster: Cluster) -> dict[str, str | None]:
    (container,) = cluster.applied["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each.get("value") for each in container["env"]}


def test_conflict_is_refused_with_its_fields() -> None:
    with pytest.raises(AddonConflict) as raised:
        apply(Cluster([FIELD]), "NONE")
    assert raised.value.fields == [FIELD]


def test_overwrite_takes_every_field() -> None:
    cluster = Cluster([FIELD])
    assert apply(cluster, "OVERWRITE").endswith("amazon-k8s-cni:v1.15.4-eksbuild.1")
    assert environment(cluster) == ENVIRONMENT


def test_preserve_leaves_only_the_fields_of_others_alone() -> None:
    cluster = Cluster([FIELD])
    assert apply(cluster, "PRESERVE").endswith(":v1.15.4-eksbuild.1")
    assert environment(cluster) == {**ENVIRONMENT, "WARM_IP_TARGET": None}


def test_preserved_image_is_the_one_that_runs() -> None:
    cluster = Cluster(['.spec.template.spec.containers[name="aws-node"].image'])
    assert apply(cluster, "PRESERVE") == "their/own:tag"


def test_other_errors_of_the_api_server_stay_errors() -> None:
    class Failing(Cluster):
        def request(self, path: str, *_: Any) -> bytes:
            raise urllib.error.HTTPError(path, 500, "Internal", Message(), io.BytesIO())

    with pytest.raises(urllib.error.HTTPError):
        apply(Failing([]), "OVERWRITE")
