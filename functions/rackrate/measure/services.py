"""Services in front of a run's servers, for arms whose clients reach them through kube-proxy.

A pair is one client and one server node, so each server node has a Service of its own. Its only
endpoint is in an EndpointSlice that is written here. A selector would not do: the pods of a
DaemonSet have the same labels, and a DaemonSet for each node would make the controller look at each
node for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from rackrate.measure import manifests
from rackrate.measure.cluster import Cluster
from rackrate.measure.manifests import Owner
from rackrate.tools.base import TestBase
from rackrate_contract.document import Json

#: Requests to the API at the same time.
WORKERS = 16


class Reached(NamedTuple):
    """The Services of servers.

    Attributes:
        addresses: their cluster IP addresses by place.
        is_new: whether something was created now, so that kube-proxy has to learn of it first.
    """

    addresses: Mapping[str, str]
    is_new: bool


def serve(
    *,
    owner: Owner,
    namespace: str,
    addresses: Mapping[str, str],
    tests: Sequence[TestBase],
    cluster: Cluster,
) -> Reached:
    """Create a Service in front of each server; the call can be repeated.

    Missing objects are created again, and the endpoint of a server with a new address is replaced.

    Args:
        owner: the run's owner object in the namespace.
        namespace: the servers' namespace.
        addresses: the servers' own addresses by place.
        tests: the plan's tests.
        cluster: the cluster.
    """
    ports = manifests.ports_of(tests)
    if not ports:
        return Reached(addresses, is_new=False)
    front = manifests.Front(owner, ports)
    services = f"/api/v1/namespaces/{namespace}/services"
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    existing, existing_slices = (_existing(cluster, path, owner) for path in (services, slices))
    expected = {_name(front.service(place)): place for place in addresses}
    endpoints = _by_name(front.endpoint_slice(*server) for server in addresses.items())
    missing = [
        *((services, front.service(place)) for n, place in expected.items() if n not in existing),
        *((slices, endpoint) for n, endpoint in endpoints.items() if n not in existing_slices),
    ]
    created = _at_once(lambda one: cluster.create(*one), missing)
    existing = {**_by_name(created), **existing}
    # The endpoints of these servers' earlier pods.
    outdated = [
        name
        for name, endpoint in existing_slices.items()
        if name not in endpoints
        and endpoint["metadata"]["labels"].get(manifests.SERVICE_NAME) in expected
    ]
    _at_once(lambda name: cluster.delete(f"{slices}/{name}"), outdated)
    return Reached(
        {place: existing[name]["spec"]["clusterIP"] for name, place in expected.items()},
        is_new=bool(missing or outdated),
    )


def _existing(cluster: Cluster, path: str, owner: Owner) -> dict[str, Json]:
    """The run's objects by name, without those that go with an earlier owner object."""
    labels = manifests.selector({manifests.RUN: manifests.run_label(owner.run_id)})
    return {
        name: manifest
        for name, manifest in _by_name(cluster.list(path, labels)).items()
        if manifest["metadata"]["ownerReferences"][0]["uid"] == owner.uid
    }


def _name(manifest: Json) -> str:
    return str(manifest["metadata"]["name"])


def _by_name(objects: Iterable[Json]) -> dict[str, Json]:
    return {_name(manifest): manifest for manifest in objects}


def _at_once[T, R](call: Callable[[T], R], things: Sequence[T]) -> list[R]:
    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(call, things))
