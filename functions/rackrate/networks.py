"""Whose network a pod uses, and so the namespace it runs in.

Pods with networks of their own obey the Pod Security Standard `restricted`, which forbids a pod the
network of its node; pods that measure from there run in a second namespace, if the stack has one.
"""

from __future__ import annotations

from rackrate.errors import ServersNotReady
from rackrate.settings import Settings

POD, HOST = "pod", "host"


def namespaces(settings: Settings) -> tuple[str, ...]:
    """Every namespace the stack's pods may run in; the one of ordinary pods comes first."""
    return tuple(filter(None, (settings.namespace, settings.host_namespace)))


def namespace_of(network: str, settings: Settings) -> str:
    """The namespace of pods that use a network, `pod` or `host`.

    Raises:
        ServersNotReady: the stack does not allow host networking (any more).
    """
    if network == POD:
        return settings.namespace
    if not settings.host_namespace:
        raise ServersNotReady(
            "the plan wants pods in the network of their nodes, which the stack does not allow any"
            ' more; update it with HostNetwork "true"'
        )
    return settings.host_namespace
