"""A storage class in a lab: Rancher's local path provisioner makes volumes on the machine."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes.client as kubernetes
import yaml
from kubernetes.utils import create_from_dict

from lab.setup import golang
from lab.setup.image import TOOLS_IMAGE
from tests.lab.running import Lab
from tests.lab.waiting import eventually

NAMESPACE = "local-path-storage"
NAME = "local-path-provisioner"
_MARK = {"app": NAME}
_PROVISIONER = "rancher.io/local-path"
_RBAC = "rbac.authorization.k8s.io"
#: The machine's own shell, `mkdir` and `rm`, which the lab's image lacks.
_SYSTEM = tuple(path for path in ("/bin", "/lib", "/lib64", "/usr") if Path(path).exists())


@contextlib.contextmanager
def storage_class(lab: Lab, name: str, directory: Path) -> Iterator[None]:
    """The cluster has a storage class whose volumes are made in a directory of the machine."""
    api = lab.core.api_client
    for each in _objects(name, golang.program("storage", NAME), directory):
        create_from_dict(api, each)
    try:
        eventually(lambda: _is_ready(lab), seconds=60)
        yield
    finally:
        kubernetes.StorageV1Api(api).delete_storage_class(name)
        access = kubernetes.RbacAuthorizationV1Api(api)
        access.delete_cluster_role_binding(NAMESPACE)
        lab.core.delete_namespace(NAMESPACE)


def _is_ready(lab: Lab) -> bool:
    deployment = lab.apps.read_namespaced_deployment_status(NAME, NAMESPACE)
    return bool(deployment.status.ready_replicas)


def _objects(name: str, program: Path, directory: Path) -> list[dict[str, Any]]:
    def metadata(name: str) -> dict[str, Any]:
        return {"name": name, "namespace": NAMESPACE}

    machine = [
        (f"machine-{number}", {"hostPath": {"path": path}}, path)
        for number, path in enumerate(_SYSTEM)
    ]
    helper = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "helper-pod"},
        "spec": {
            "containers": [
                {
                    "name": "helper-pod",
                    "image": TOOLS_IMAGE,
                    "imagePullPolicy": "Never",
                    "securityContext": {"runAsUser": 0},
                    "volumeMounts": [
                        {"name": volume, "mountPath": path, "readOnly": True}
                        for volume, _, path in machine
                    ],
                }
            ],
            "tolerations": [{"operator": "Exists"}],
            "volumes": [{"name": volume, **source} for volume, source, _ in machine],
        },
    }
    everywhere = {"node": "DEFAULT_PATH_FOR_NON_LISTED_NODES", "paths": [str(directory)]}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(NAME)},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": NAMESPACE},
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [
                {"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE},
            ],
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata(NAME),
            "data": {
                "config.json": json.dumps({"nodePathMap": [everywhere]}),
                "setup": '#!/bin/sh\nmkdir -m 0777 -p "$VOL_DIR"\n',
                "teardown": '#!/bin/sh\nrm -rf "$VOL_DIR"\n',
                "helperPod.yaml": yaml.safe_dump(helper),
            },
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata(NAME),
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": _MARK},
                "template": {"metadata": {"labels": _MARK}, "spec": _provisioner(program)},
            },
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": _PROVISIONER,
            # As EBS's classes are made: a volume is where its pod is, and goes with its claim.
            "volumeBindingMode": "WaitForFirstConsumer",
            "reclaimPolicy": "Delete",
        },
    ]


def _provisioner(program: Path) -> dict[str, Any]:
    options = {
        "config": "/configuration/config.json",
        "configmap-name": NAME,
        "helper-image": TOOLS_IMAGE,
        "helper-pod-file": "/configuration/helperPod.yaml",
        "namespace": NAMESPACE,
        "provisioner-name": _PROVISIONER,
        "service-account-name": NAME,
    }
    return {
        "serviceAccountName": NAME,
        "containers": [
            {
                "name": NAME,
                "image": TOOLS_IMAGE,
                "imagePullPolicy": "Never",
                "command": [
                    f"/programs/{program.name}",
                    "start",
                    *(f"--{name}={value}" for name, value in options.items()),
                ],
                "env": [{"name": "CONFIG_MOUNT_PATH", "value": "/configuration/"}],
                "volumeMounts": [
                    {"name": "configuration", "mountPath": "/configuration"},
                    {"name": "programs", "mountPath": "/programs", "readOnly": True},
                ],
            }
        ],
        "volumes": [
            {"name": "configuration", "configMap": {"name": NAME}},
            {"name": "programs", "hostPath": {"path": str(program.parent)}},
        ],
    }
