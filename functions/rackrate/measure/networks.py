"""The network that a pod uses, which decides the Kubernetes namespace that it runs in.

The Pod Security Standard `restricted` forbids a pod the network of its node. Pods with networks of
their own follow it. Pods in their node's network run in a second namespace, if the stack has one.
"""

from __future__ import annotations

from rackrate.errors import ServersNotReady
from rackrate.settings import Settings
from rackrate_contract.arms import Network


def namespaces(settings: Settings) -> tuple[str, ...]:
    """Every namespace that the stack's pods may run in; the namespace of ordinary pods is first."""
    return tuple(filter(None, (settings.namespace, settings.host_namespace)))


def namespace_of(network: Network, settings: Settings) -> str:
    """The namespace of pods that use a network, `pod` or `host`.

    Raises:
        ServersNotReady: the stack does not allow host networking, or no longer does.
    """
    if network == "pod":
        return settings.namespace
    if not settings.host_namespace:
        raise ServersNotReady(
            "the plan wants pods in the network of their nodes, which the stack does not allow any"
            ' more; update it with HostNetwork "true"'
        )
    return settings.host_namespace


def pods_path(network: Network, settings: Settings) -> str:
    """The API path of the pods that use a network; raises as `namespace_of` does."""
    return f"/api/v1/namespaces/{namespace_of(network, settings)}/pods"
