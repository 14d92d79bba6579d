"""CoreDNS in the lab's cluster: EKS's Deployment behind the Service `kube-dns`.

The pod runs the real program, mounted from the machine like that of kube-proxy. It answers for the
cluster's own names. The lab has no other names, so it forwards no question.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from lab.nodes import applying
from lab.nodes.applying import REGISTRY
from lab.nodes.programs import Programs

NAME, SERVICE = "coredns", "kube-dns"
DOMAIN = "cluster.local"
_ROLE = "system:coredns"
_COREFILE = f"""\
.:53 {{
    errors
    health
    ready
    kubernetes {DOMAIN} in-addr.arpa ip6.arpa {{
        pods insecure
    }}
    cache 30
    loadbalance
}}
"""
#: EKS starts two. One is enough for one machine, and costs half.
_REPLICAS = 1
_PORTS = (("dns", 53, "UDP"), ("dns-tcp", 53, "TCP"))


def address(service_cidr: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The address of the cluster's DNS: EKS takes the tenth of the services' range."""
    return ipaddress.ip_network(service_cidr)[10]


def image(version: str) -> str:
    """The image of a version."""
    return f"{REGISTRY}/eks/coredns:{version}"


def objects(
    version: str, values: Mapping[str, Any], *, programs: Programs, service_cidr: str
) -> list[dict[str, Any]]:
    """The add-on's objects, the Deployment last.

    Args:
        version: the add-on's version.
        values: its configuration, in the form of EKS's.
        programs: the machine's programs.
        service_cidr: the range of the services' addresses.
    """
    label = {"k8s-app": SERVICE}
    return [
        applying.service_account(NAME, SERVICE),
        _role(label),
        applying.role_binding(_ROLE, SERVICE, role=_ROLE, account=NAME),
        applying.config_map(NAME, SERVICE, {"Corefile": values.get("corefile") or _COREFILE}),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": applying.metadata(SERVICE, SERVICE),
            "spec": {
                "clusterIP": str(address(service_cidr)),
                "selector": label,
                "ports": [
                    {"name": name, "port": port, "protocol": protocol, "targetPort": port}
                    for name, port, protocol in _PORTS
                ],
            },
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": applying.metadata(NAME, SERVICE),
            "spec": {
                "replicas": values.get("replicaCount", _REPLICAS),
                "selector": {"matchLabels": label},
                "template": applying.pod_template(label, values, _pod(version, programs)),
            },
        },
    ]


def _role(label: Mapping[str, str]) -> dict[str, Any]:
    read = ["list", "watch"]
    return {
        "apiVersion": f"{applying.RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": _ROLE, "labels": label},
        "rules": [
            {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": read},
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": read},
        ],
    }


def _pod(version: str, programs: Programs) -> dict[str, Any]:
    def probe(path: str, port: int, **settings: int) -> dict[str, Any]:
        return {"httpGet": {"path": path, "port": port}, **settings}

    return {
        "containers": [
            {
                "name": NAME,
                "image": image(version),
                "imagePullPolicy": "Never",
                "command": ["/programs/coredns", "-conf", "/etc/coredns/Corefile"],
                "env": [{"name": "GOMEMLIMIT", "value": "100MiB"}],
                "ports": [
                    {"name": name, "containerPort": port, "protocol": protocol}
                    for name, port, protocol in _PORTS
                ],
                "resources": {
                    "limits": {"memory": "170Mi"},
                    "requests": {"cpu": "100m", "memory": "70Mi"},
                },
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
                    "readOnlyRootFilesystem": True,
                    "runAsUser": 0,
                },
                "startupProbe": probe("/ready", 8181, periodSeconds=1, failureThreshold=120),
                "readinessProbe": probe("/ready", 8181, periodSeconds=10),
                "livenessProbe": probe("/health", 8080, periodSeconds=10, failureThreshold=5),
                "volumeMounts": [
                    {"name": "config", "mountPath": "/etc/coredns", "readOnly": True},
                    {"name": "programs", "mountPath": "/programs", "readOnly": True},
                ],
            }
        ],
        # Otherwise it would ask itself.
        "dnsPolicy": "Default",
        "priorityClassName": "system-cluster-critical",
        "serviceAccountName": NAME,
        "terminationGracePeriodSeconds": 1,
        "tolerations": [
            {"key": "CriticalAddonsOnly", "operator": "Exists"},
            {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
        ],
        "volumes": [
            {"name": "config", "configMap": {"name": NAME}},
            {"name": "programs", "hostPath": {"path": str(programs.kubernetes)}},
        ],
    }
