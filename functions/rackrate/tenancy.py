"""What a stack keeps in a cluster between runs: its namespaces, rights in them, and a guard.

Pure: values in, manifests out, each list in the order of creation. Names that the whole cluster
sees hold the namespace, so that several stacks can share a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rackrate.manifests import STACK

Json = dict[str, Any]

#: Which of a stack's two namespaces something belongs to: "host" for that of the nodes' network.
NETWORK = "rackrate.dev/network"
#: The labels of everything here.
LABELS: Mapping[str, str] = {"app.kubernetes.io/managed-by": "rackrate"}

_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
_POD_SECURITY = "pod-security.kubernetes.io"


def host_namespace(namespace: str) -> str:
    """The namespace of pods in the nodes' own network."""
    return f"{namespace}-host"


def manifests(namespace: str, group: str, owner: str) -> list[Json]:
    """What every stack needs: a namespace for its pods, and the right to read nodes.

    Args:
        namespace: the benchmark's namespace.
        group: the Kubernetes group the functions' access entries name.
        owner: name of the root stack, whose mark everything carries.
    """
    marks = {STACK: owner}
    reader = f"rackrate:{namespace}:node-reader"
    return [
        _namespace(
            namespace,
            marks,
            {
                f"{_POD_SECURITY}/enforce": "restricted",
                f"{_POD_SECURITY}/warn": "restricted",
                f"{_POD_SECURITY}/audit": "restricted",
            },
        ),
        *_runner(namespace, group, marks),
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": _metadata(reader, marks),
            "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]}],
        },
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": _metadata(f"{reader}s", marks),
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": reader},
            "subjects": _subjects(group),
        },
    ]


def host_manifests(namespace: str, group: str, owner: str) -> list[Json]:
    """What host networking needs: a second namespace, and first of all the guard before it.

    Pod Security has no level between "baseline", which knows no host network, and "privileged",
    which forbids nothing. So the namespace is privileged, and an admission policy asks for all else
    that "restricted" does, and more.

    Args:
        namespace: the benchmark's first namespace.
        group: as above.
        owner: as above.
    """
    marks = {STACK: owner, NETWORK: "host"}
    own = host_namespace(namespace)
    policy = f"{own}.rackrate.dev"
    return [
        {
            "apiVersion": f"{_ADMISSION}/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": _metadata(policy, marks),
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": own}},
                    "resourceRules": [
                        {
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "operations": ["CREATE", "UPDATE"],
                            "resources": ["pods", "pods/ephemeralcontainers"],
                        }
                    ],
                },
                "variables": [{"name": name, "expression": text} for name, text in _VARIABLES],
                "validations": [
                    {"message": f"{own} takes only rackrate's pods: {message}", "expression": text}
                    for message, text in _RULES
                ],
            },
        },
        {
            "apiVersion": f"{_ADMISSION}/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": _metadata(policy, marks),
            "spec": {"policyName": policy, "validationActions": ["Deny"]},
        },
        # What the level lifts is seen in the audit log; a warning would come with every pod.
        _namespace(
            own,
            marks,
            {f"{_POD_SECURITY}/enforce": "privileged", f"{_POD_SECURITY}/audit": "restricted"},
        ),
        *_runner(own, group, marks),
    ]


_VARIABLES = (
    ("pod", "object.spec.?securityContext"),
    (
        # Containers of three types: what they share is all that is looked at.
        "containers",
        "dyn(object.spec.containers) + dyn(object.spec.?initContainers.orValue([]))"
        " + dyn(object.spec.?ephemeralContainers.orValue([]))",
    ),
)

#: What is wrong with a pod, and the CEL expression that is true when it is not.
_RULES = (
    (
        "no hostPID and no hostIPC",
        "!object.spec.?hostPID.orValue(false) && !object.spec.?hostIPC.orValue(false)",
    ),
    (
        "no volumes but emptyDir",
        "object.spec.?volumes.orValue([]).all(v, has(v.emptyDir))",
    ),
    (
        "automountServiceAccountToken must be false",
        "!object.spec.?automountServiceAccountToken.orValue(true)",
    ),
    (
        "runAsNonRoot must be true, and no user 0",
        "variables.pod.?runAsNonRoot.orValue(false) && variables.pod.?runAsUser.orValue(1) != 0"
        " && variables.containers.all(c, c.?securityContext.?runAsNonRoot.orValue(true)"
        " && c.?securityContext.?runAsUser.orValue(1) != 0)",
    ),
    (
        "seccompProfile must be RuntimeDefault",
        'variables.pod.?seccompProfile.?type.orValue("") == "RuntimeDefault"'
        " && variables.containers.all(c,"
        ' c.?securityContext.?seccompProfile.?type.orValue("RuntimeDefault") == "RuntimeDefault")',
    ),
    (
        "no sysctls, seLinuxOptions, windowsOptions or unconfined AppArmor profile",
        "size(variables.pod.?sysctls.orValue([])) == 0"
        " && !variables.pod.?seLinuxOptions.hasValue()"
        " && !variables.pod.?windowsOptions.hasValue()"
        ' && variables.pod.?appArmorProfile.?type.orValue("") != "Unconfined"'
        " && variables.containers.all(c, !c.?securityContext.?seLinuxOptions.hasValue()"
        " && !c.?securityContext.?windowsOptions.hasValue()"
        ' && c.?securityContext.?appArmorProfile.?type.orValue("") != "Unconfined")',
    ),
    (
        "no privileged container, no privilege escalation, no procMount",
        "variables.containers.all(c, !c.?securityContext.?privileged.orValue(false)"
        " && !c.?securityContext.?allowPrivilegeEscalation.orValue(true)"
        ' && c.?securityContext.?procMount.orValue("Default") == "Default")',
    ),
    (
        "readOnlyRootFilesystem must be true",
        "variables.containers.all(c, c.?securityContext.?readOnlyRootFilesystem.orValue(false))",
    ),
    (
        "all capabilities must be dropped and none added",
        'variables.containers.all(c, "ALL" in c.?securityContext.?capabilities.?drop.orValue([])'
        " && size(c.?securityContext.?capabilities.?add.orValue([])) == 0)",
    ),
)


def _metadata(name: str, marks: Mapping[str, str]) -> Json:
    return {"name": name, "labels": dict(LABELS), "annotations": dict(marks)}


def _namespace(name: str, marks: Mapping[str, str], levels: Mapping[str, str]) -> Json:
    metadata = _metadata(name, marks)
    metadata["labels"] |= levels
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _subjects(group: str) -> list[Json]:
    return [{"apiGroup": _RBAC, "kind": "Group", "name": group}]


def _runner(namespace: str, group: str, marks: Mapping[str, str]) -> list[Json]:
    """What the functions may do in a namespace."""
    return [
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "Role",
            "metadata": {**_metadata("runner", marks), "namespace": namespace},
            "rules": [
                {
                    "apiGroups": [""],
                    "resources": ["configmaps"],
                    "verbs": ["get", "list", "create", "delete"],
                },
                {
                    "apiGroups": [""],
                    "resources": ["pods"],
                    "verbs": ["get", "list", "watch", "create", "delete", "deletecollection"],
                },
                {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
                {
                    "apiGroups": ["apps"],
                    "resources": ["daemonsets"],
                    "verbs": ["get", "list", "create", "delete"],
                },
            ],
        },
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {**_metadata("runners", marks), "namespace": namespace},
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": "runner"},
            "subjects": _subjects(group),
        },
    ]
