"""What a stack keeps in a cluster between runs: its namespaces, rights in them, and a guard.

Pure: values in, manifests out, each list in the order of creation. Names that the whole cluster
sees hold the namespace, so that several stacks can share a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rackrate.document import Json
from rackrate.measure.manifests import NETWORK, STACK
from rackrate.measure.nodes import CNI_DAEMON_SET

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
            "rules": [
                {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]},
                # Which CNI the nodes run. Its DaemonSet tells, and no other may be looked at.
                {
                    "apiGroups": ["apps"],
                    "resources": ["daemonsets"],
                    "resourceNames": [CNI_DAEMON_SET],
                    "verbs": ["get"],
                },
            ],
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
    # Told apart from what belongs to the first namespace, which may get this one's name one day.
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
                    {
                        "message": f"{own} takes only rackrate's pods: {rule}",
                        "expression": " && ".join(expressions),
                    }
                    for rule, expressions in _RULES
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


# What the expressions below, in CEL (https://kubernetes.io/docs/reference/using-api/cel/), look at.
_POD = "object.spec.?securityContext"
_EACH = "c.?securityContext"
_VARIABLES = (
    (
        # Containers of three types: what they share is all that is looked at.
        "containers",
        "dyn(object.spec.containers) + dyn(object.spec.?initContainers.orValue([]))"
        " + dyn(object.spec.?ephemeralContainers.orValue([]))",
    ),
)


def _all(expression: str) -> str:
    """True when an expression is true of each container `c`."""
    return f"variables.containers.all(c, {expression})"


#: What a pod must be, and the expressions that are all true when it is.
_RULES: Sequence[tuple[str, Sequence[str]]] = (
    (
        "no hostPID and no hostIPC",
        ("!object.spec.?hostPID.orValue(false)", "!object.spec.?hostIPC.orValue(false)"),
    ),
    # Before the volumes: a token comes as one.
    (
        "automountServiceAccountToken must be false",
        ("!object.spec.?automountServiceAccountToken.orValue(true)",),
    ),
    (
        "no volumes but emptyDir",
        ("object.spec.?volumes.orValue([]).all(v, has(v.emptyDir))",),
    ),
    (
        "runAsNonRoot must be true, and no user 0",
        (
            f"{_POD}.?runAsNonRoot.orValue(false)",
            f"{_POD}.?runAsUser.orValue(1) != 0",
            _all(f"{_EACH}.?runAsNonRoot.orValue(true)"),
            _all(f"{_EACH}.?runAsUser.orValue(1) != 0"),
        ),
    ),
    (
        "seccompProfile must be RuntimeDefault",
        (
            f'{_POD}.?seccompProfile.?type.orValue("") == "RuntimeDefault"',
            _all(f'{_EACH}.?seccompProfile.?type.orValue("RuntimeDefault") == "RuntimeDefault"'),
        ),
    ),
    (
        "no sysctls",
        (f"size({_POD}.?sysctls.orValue([])) == 0",),
    ),
    (
        "no seLinuxOptions, no windowsOptions and no unconfined AppArmor profile",
        (
            f"!{_POD}.?seLinuxOptions.hasValue()",
            f"!{_POD}.?windowsOptions.hasValue()",
            f'{_POD}.?appArmorProfile.?type.orValue("") != "Unconfined"',
            _all(f"!{_EACH}.?seLinuxOptions.hasValue()"),
            _all(f"!{_EACH}.?windowsOptions.hasValue()"),
            _all(f'{_EACH}.?appArmorProfile.?type.orValue("") != "Unconfined"'),
        ),
    ),
    (
        "no privileged container, no privilege escalation and no procMount",
        (
            _all(f"!{_EACH}.?privileged.orValue(false)"),
            _all(f"!{_EACH}.?allowPrivilegeEscalation.orValue(true)"),
            _all(f'{_EACH}.?procMount.orValue("Default") == "Default"'),
        ),
    ),
    (
        "readOnlyRootFilesystem must be true",
        (_all(f"{_EACH}.?readOnlyRootFilesystem.orValue(false)"),),
    ),
    (
        "all capabilities must be dropped and none added",
        (
            _all(f'"ALL" in {_EACH}.?capabilities.?drop.orValue([])'),
            _all(f"size({_EACH}.?capabilities.?add.orValue([])) == 0"),
        ),
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
