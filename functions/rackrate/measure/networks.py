"""Whose network a pod uses, and so the namespace it runs in.

Pods with networks of their own obey the Pod Security Standard `restricted`, which forbids a pod the
network of its node; pods that measure from there run in a second namespace, if the stack has one.
"""

from __future__ import annotations

from rackrate.errors import ServersNotReady
from rackrate.plan.arms import Network
from rackrate.settings import Settings


def namespaces(settings: Settings) -> tuple[str, ...]:
    """Every namespace the stack's pods may run in; the one of ordinary pods comes first."""
    return tuple(filter(None, (settings.namespace, settings.host_namespace)))


def namespace_of(network: Network, settings: Settings) -> str:
    """The namespace of pods that use a network, `pod` or `host`.

    Raises:
        ServersNotReady: the stack does not allow host networking (any more).
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
    """The API's path of the pods that use a network; raises as `namespace_of` does."""
    return f"/api/v1/namespaces/{namespace_of(network, settings)}/pods"
