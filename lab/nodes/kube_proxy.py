"""kube-proxy on the lab's nodes: EKS's DaemonSet, whose pods run the real program.

The program and what it calls (`nft`, `iptables`) are the machine's files, mounted into the pod, so
no node has to import them in an image.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.aws.eks.infrastructure import AddonLaunchError
from lab.nodes import applying
from lab.nodes.applying import REGISTRY
from lab.nodes.control_plane import kubeconfig
from lab.nodes.programs import Programs

NAME = "kube-proxy"
#: EKS's mode where the add-on's configuration names none.
DEFAULT_MODE = "iptables"
#: The modes that the lab has. IPVS needs a module of the kernel that few machines load.
MODES = ("iptables", "nftables")
_CONFIGURATION, _FILES = "kube-proxy-config", "/var/lib/kube-proxy-config"
_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"
_HEALTH_PORT = 10256
#: The machine's own C library and loader, for programs of the unpacked packages.
_SYSTEM = tuple(path for path in ("/lib", "/lib64", "/usr") if Path(path).exists())


def image(version: str) -> str:
    """The image of a version."""
    return f"{REGISTRY}/eks/kube-proxy:{version}"


def objects(
    version: str, values: Mapping[str, Any], *, programs: Programs, server: str
) -> list[dict[str, Any]]:
    """The add-on's objects, the DaemonSet last.

    Args:
        version: the add-on's version.
        values: its configuration, in the form of EKS's.
        programs: the machine's programs.
        server: the URL of the API server for nodes.

    Raises:
        AddonLaunchError: the lab does not have the mode.
    """
    mode = values.get("mode", DEFAULT_MODE)
    if mode not in MODES:
        raise AddonLaunchError(
            f"The lab runs no kube-proxy in the mode {mode}: use {' or '.join(MODES)}."
        )
    return [
        applying.service_account(NAME, NAME),
        applying.role_binding("eks:kube-proxy", NAME, role="system:node-proxier", account=NAME),
        applying.config_map(
            _CONFIGURATION,
            NAME,
            {
                "config": json.dumps(_configuration(mode)),
                "kubeconfig": kubeconfig(
                    {"server": server, "certificate-authority": f"{_TOKEN}/ca.crt"},
                    {"tokenFile": f"{_TOKEN}/token"},
                ),
            },
        ),
        applying.daemon_set(
            NAME, applying.pod_template({"k8s-app": NAME}, values, _pod(version, programs))
        ),
    ]


def _pod(version: str, programs: Programs) -> dict[str, Any]:
    mounted = sorted({*_SYSTEM, str(programs.kubernetes), str(programs.debian)})
    packages = ("usr/sbin", "usr/bin", "sbin", "bin")
    environment = {
        **programs.environment,
        "PATH": os.pathsep.join(str(programs.debian / part) for part in packages),
        "XTABLES_LIBDIR": str(next(programs.debian.glob("usr/lib/*/xtables"))),
    }
    at_start = {"httpGet": {"host": "127.0.0.1", "port": _HEALTH_PORT, "path": "/healthz"}}
    return {
        "containers": [
            {
                "name": NAME,
                "image": image(version),
                "imagePullPolicy": "Never",
                "command": [
                    str(programs.kubernetes / "kube-proxy"),
                    f"--config={_FILES}/config",
                    "--hostname-override=$(NODE_NAME)",
                ],
                "env": [
                    {
                        "name": "NODE_NAME",
                        "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}},
                    },
                    *({"name": name, "value": value} for name, value in environment.items()),
                ],
                "resources": {"requests": {"cpu": "100m"}},
                "securityContext": {"privileged": True, "runAsUser": 0},
                # It is healthy once its first rules are in the kernel.
                "startupProbe": {**at_start, "periodSeconds": 1, "failureThreshold": 60},
                "volumeMounts": [
                    {"name": "config", "mountPath": _FILES},
                    *(
                        {"name": f"machine-{number}", "mountPath": path, "readOnly": True}
                        for number, path in enumerate(mounted)
                    ),
                ],
            }
        ],
        "hostNetwork": True,
        "priorityClassName": "system-node-critical",
        "serviceAccountName": NAME,
        "terminationGracePeriodSeconds": 1,
        "tolerations": [{"operator": "Exists"}],
        "volumes": [
            {"name": "config", "configMap": {"name": _CONFIGURATION}},
            *(
                {"name": f"machine-{number}", "hostPath": {"path": path}}
                for number, path in enumerate(mounted)
            ),
        ],
    }


def _configuration(mode: str) -> dict[str, Any]:
    # Tracked connections have one limit for the whole machine, which a node may not change.
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": f"{_FILES}/kubeconfig"},
        "conntrack": {"maxPerCore": 0, "min": 0},
        "healthzBindAddress": f"0.0.0.0:{_HEALTH_PORT}",
        "mode": mode,
    }
