"""Services in front of a run's servers, for arms whose clients reach them through kube-proxy.

A pair is one client and one server node, so each server node has a Service of its own. Its only
endpoint is in an EndpointSlice that is written here. A selector would not do: the pods of a
DaemonSet have the same labels, and a DaemonSet for each node would make the controller look at each
node for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from rackrate.measure import manifests
from rackrate.measure.cluster import Cluster
from rackrate.tools.base import TestBase
from rackrate_contract.document import Json

#: Requests to the API at the same time.
WORKERS = 16


class Reached(NamedTuple):
    """The Services of servers.

    Attributes:
        addresses: their cluster IP addresses by place.
        is_new: whether something was made now, which kube-proxy has to hear of first.
    """

    addresses: Mapping[str, str]
    is_new: bool


def serve(
    *,
    run_id: str,
    owner_uid: str,
    namespace: str,
    addresses: Mapping[str, str],
    tests: Sequence[TestBase],
    cluster: Cluster,
) -> Reached:
    """Let each server be reached through a Service; the call can be repeated.

    What is gone is made again, and the endpoint of a server with a new address is replaced.

    Args:
        run_id: the run.
        owner_uid: the UID of its owner object in the namespace.
        namespace: the servers' namespace.
        addresses: the servers' own addresses by place.
        tests: the plan's tests.
        cluster: the cluster.
    """
    ports = manifests.ports_of(tests)
    if not ports:
        return Reached(addresses, is_new=False)
    core, discovery = f"/api/v1/namespaces/{namespace}/services", _slices(namespace)
    labels = manifests.selector({manifests.RUN: manifests.run_label(run_id)})

    def there(path: str) -> dict[str, Json]:
        """What is there, without what goes with an earlier owner object."""
        return {
            each["metadata"]["name"]: each
            for each in cluster.list(path, labels)
            if each["metadata"]["ownerReferences"][0]["uid"] == owner_uid
        }

    services, slices = there(core), there(discovery)
    front = manifests.Front(run_id, owner_uid, ports)
    wanted = {place: front.service(place) for place in addresses}
    endpoints = [front.endpoint_slice(place, at) for place, at in addresses.items()]
    made = [each for each in wanted.values() if each["metadata"]["name"] not in services]
    points = [each for each in endpoints if each["metadata"]["name"] not in slices]
    new: list[tuple[str, Json]] = [(core, each) for each in made]
    new += [(discovery, each) for each in points]
    for found in _at_once(lambda one: cluster.create(*one), new):
        services.setdefault(found["metadata"]["name"], found)
    # The endpoints of these servers' earlier pods.
    names = {each["metadata"]["name"] for each in wanted.values()}
    kept = {each["metadata"]["name"] for each in endpoints}
    old = [
        name
        for name, each in slices.items()
        if name not in kept and each["metadata"]["labels"].get(manifests.SERVICE_NAME) in names
    ]
    _at_once(lambda name: cluster.delete(f"{discovery}/{name}"), old)
    return Reached(
        {
            place: services[each["metadata"]["name"]]["spec"]["clusterIP"]
            for place, each in wanted.items()
        },
        is_new=bool(new or old),
    )


def _slices(namespace: str) -> str:
    return f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"


def _at_once[T, R](call: Callable[[T], R], things: Sequence[T]) -> list[R]:
    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(call, things))
