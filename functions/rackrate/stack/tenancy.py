"""The objects that a stack keeps in a cluster between runs: namespaces, RBAC, an admission policy.

Pure: values in, manifests out, each list in the order of creation. Names of cluster-wide objects
contain the namespace, so that several stacks can share a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rackrate.measure.manifests import NETWORK, STACK
from rackrate.measure.nodes import CNI_DAEMON_SET, DNS_SERVICE, KUBE_PROXY_DAEMON_SET
from rackrate.workloads.base import MAX_VOLUMES, MAX_VOLUMES_GIB
from rackrate_contract.document import Json

#: The labels of all objects here.
LABELS: Mapping[str, str] = {"app.kubernetes.io/managed-by": "rackrate"}

_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
#: The prefix of the labels of Pod Security.
POD_SECURITY = "pod-security.kubernetes.io"


def host_namespace(namespace: str) -> str:
    """The namespace of pods in the nodes' own network."""
    return f"{namespace}-host"


def manifests(namespace: str, group: str, owner: str) -> list[Json]:
    """The objects that every stack needs: a namespace for its pods, and the right to read nodes.

    Args:
        namespace: the benchmark's namespace.
        group: the Kubernetes group in the functions' access entries.
        owner: name of the root stack, with which all objects are marked.
    """
    marks = {STACK: owner}
    return [
        *_guard_of_services(namespace, marks),
        _namespace(namespace, marks, enforce="restricted", warn="restricted", audit="restricted"),
        _quota(namespace, marks, {**_MOST, **_OF_WORKLOADS}),
        *_runner(namespace, group, marks),
        *_rights(
            f"rackrate:{namespace}:node-reader",
            [
                _rule("nodes", "get", "list"),
                # The CNI's version comes from its DaemonSet. A campaign that changes one of these
                # add-ons reads how far its rollout is. No other DaemonSet may be read.
                _rule("daemonsets.apps", "get", names=(CNI_DAEMON_SET, KUBE_PROXY_DAEMON_SET)),
                # A plan's storage class is checked before anything is created.
                _rule("storageclasses.storage.k8s.io", "list"),
                # Tells on which nodes the cluster's DNS answers.
                _rule("endpoints", "get", names=(DNS_SERVICE,)),
            ],
            group,
            marks,
        ),
    ]


def keeper_manifests(namespace: str, group: str, owner: str) -> list[Json]:
    """The right to label nodes, which only a stack has that made the cluster.

    Kubernetes has no smaller right than that to change all of a node. Its group is that of the
    function that ends campaigns. See `manifests`.
    """
    name, keepers = f"rackrate:{namespace}:node-keeper", f"{group}:keepers"
    return _rights(name, [_rule("nodes", "patch")], keepers, {STACK: owner})


def host_manifests(namespace: str, group: str, owner: str) -> list[Json]:
    """The objects that host networking needs: first an admission policy, then a second namespace.

    Pod Security has no level between "baseline", which forbids the host network, and "privileged",
    which forbids nothing. So the namespace is privileged, and an admission policy enforces the
    other rules of "restricted", and more.

    Args:
        namespace: the benchmark's first namespace.
        group: the Kubernetes group in the functions' access entries.
        owner: name of the root stack, with which all objects are marked.
    """
    # This mark distinguishes the objects from those of a first namespace with the same name.
    marks = {STACK: owner, NETWORK: "host"}
    own = host_namespace(namespace)
    return [
        *_guard_of_services(own, marks),
        *_guard(
            f"{own}.rackrate.dev",
            own,
            marks,
            resources=("pods", "pods/ephemeralcontainers"),
            variables=_VARIABLES,
            validations=[
                (f"{own} takes only rackrate's pods: {rule}", " && ".join(expressions))
                for rule, expressions in _RULES
            ],
        ),
        # Audit records what "restricted" would forbid. Warn would print a warning for every pod.
        _namespace(own, marks, enforce="privileged", audit="restricted"),
        _quota(own, marks),
        *_runner(own, group, marks),
    ]


# Parts of the CEL expressions below (https://kubernetes.io/docs/reference/using-api/cel/).
_POD = "object.spec.?securityContext"
_EACH = "c.?securityContext"
_VARIABLES = (
    (
        # The three lists have different types. `dyn` joins them, since only shared fields are used.
        "containers",
        "dyn(object.spec.containers) + dyn(object.spec.?initContainers.orValue([]))"
        " + dyn(object.spec.?ephemeralContainers.orValue([]))",
    ),
)


#: What can name a host that the kubelet connects to, of a container `c`.
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS = ("lifecycle.?postStart", "lifecycle.?preStop")


def _all(expression: str) -> str:
    """An expression that is true if the given expression is true for each container `c`."""
    return f"variables.containers.all(c, {expression})"


#: The rules for a pod, each with expressions that must all be true.
_RULES: Sequence[tuple[str, Sequence[str]]] = (
    (
        "no hostPID and no hostIPC",
        ("!object.spec.?hostPID.orValue(false)", "!object.spec.?hostIPC.orValue(false)"),
    ),
    # Checked before the volumes, because a token is mounted as a volume.
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
    # The kubelet connects to the named host, from the node, whoever may be there.
    (
        "no host in a probe or hook",
        tuple(
            _all(f"!c.?{what}.?{how}.?host.hasValue()")
            for what in (*_PROBES, *_HOOKS)
            for how in ("httpGet", "tcpSocket")
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


def _guard_of_services(namespace: str, marks: Mapping[str, str]) -> list[Json]:
    """Let nobody make a Service there that costs money or takes over addresses of others.

    A Service of type LoadBalancer makes a load balancer of AWS, and external IP addresses divert
    the traffic of the whole cluster (CVE-2020-8554).
    """
    return _guard(
        f"{namespace}-services.rackrate.dev",
        namespace,
        marks,
        resources=("services",),
        variables=(),
        validations=[
            (
                f"{namespace} takes only plain Services: type ClusterIP, no external addresses",
                'object.spec.?type.orValue("ClusterIP") == "ClusterIP"'
                " && size(object.spec.?externalIPs.orValue([])) == 0",
            )
        ],
    )


def _guard(
    name: str,
    namespace: str,
    marks: Mapping[str, str],
    *,
    resources: Sequence[str],
    variables: Sequence[tuple[str, str]],
    validations: Sequence[tuple[str, str]],
) -> list[Json]:
    """An admission policy for a namespace, and its binding.

    Args:
        name: their name.
        namespace: the namespace.
        marks: their annotations.
        resources: what it judges, of the core API.
        variables: names and expressions.
        validations: messages and expressions, all of which must be true.
    """
    return [
        {
            "apiVersion": f"{_ADMISSION}/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": _metadata(name, marks),
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "namespaceSelector": {
                        "matchLabels": {"kubernetes.io/metadata.name": namespace}
                    },
                    "resourceRules": [
                        {
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "operations": ["CREATE", "UPDATE"],
                            "resources": list(resources),
                        }
                    ],
                },
                "variables": [{"name": key, "expression": text} for key, text in variables],
                "validations": [
                    {"message": message, "expression": text} for message, text in validations
                ],
            },
        },
        {
            "apiVersion": f"{_ADMISSION}/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": _metadata(name, marks),
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]


def _metadata(name: str, marks: Mapping[str, str]) -> Json:
    return {"name": name, "labels": dict(LABELS), "annotations": dict(marks)}


def _namespace(name: str, marks: Mapping[str, str], **levels: str) -> Json:
    """A namespace with a level of Pod Security for some of its modes."""
    metadata = _metadata(name, marks)
    metadata["labels"] |= {f"{POD_SECURITY}/{mode}": level for mode, level in levels.items()}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


#: The most objects of each kind in a namespace, and the most bytes of volumes. The largest plan has
#: two arms of 1800 nodes with a server and a client on each; a cluster has at most 5000 nodes
#: (Kubernetes documentation, "Considerations for large clusters"). Four pods on each of them are
#: more than any plan needs.
_MOST: Mapping[str, int] = {
    "count/pods": 20000,
    "count/configmaps": 1000,
    "count/daemonsets.apps": 1000,
    # One for each server of an arm whose clients connect to Services, and its endpoint, of which
    # there are two while it changes.
    "count/services": 5000,
    "count/endpointslices.discovery.k8s.io": 10000,
    # A registry's credentials may be there. The benchmark makes none of the following.
    "count/secrets": 10,
    "count/persistentvolumeclaims": 0,
    "requests.storage": 0,
    "count/replicationcontrollers": 0,
    "count/replicasets.apps": 0,
    "count/deployments.apps": 0,
    "count/statefulsets.apps": 0,
    "count/jobs.batch": 0,
    "count/cronjobs.batch": 0,
}


#: The same for workloads, which are in the network of pods: a volume and a ConfigMap for each
#: member.
_OF_WORKLOADS: Mapping[str, int] = {
    "count/persistentvolumeclaims": MAX_VOLUMES,
    "requests.storage": MAX_VOLUMES_GIB * 2**30,
    "count/configmaps": 11000,
}


def _quota(namespace: str, marks: Mapping[str, str], most: Mapping[str, int] = _MOST) -> Json:
    """The limit on what anybody can create in a namespace."""
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {**_metadata("objects", marks), "namespace": namespace},
        "spec": {"hard": {kind: str(number) for kind, number in most.items()}},
    }


def _rule(resource: str, *verbs: str, names: Sequence[str] = ()) -> Json:
    """What a role may do to a resource, named as kubectl does: with its API group behind a dot.

    `names` are the only objects that it may do this to; by default all.
    """
    kind, _, group = resource.partition(".")
    named = {"resourceNames": list(names)} if names else {}
    return {"apiGroups": [group], "resources": [kind], **named, "verbs": list(verbs)}


def _rights(
    name: str, rules: Sequence[Json], group: str, marks: Mapping[str, str], namespace: str = ""
) -> list[Json]:
    """A role with its binding to a Kubernetes group: in a namespace, or in the whole cluster."""
    kind, where = ("Role", {"namespace": namespace}) if namespace else ("ClusterRole", {})
    return [
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": kind,
            "metadata": {**_metadata(name, marks), **where},
            "rules": rules,
        },
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": f"{kind}Binding",
            "metadata": {**_metadata(f"{name}s", marks), **where},
            "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name},
            "subjects": [{"apiGroup": _RBAC, "kind": "Group", "name": group}],
        },
    ]


def _runner(namespace: str, group: str, marks: Mapping[str, str]) -> list[Json]:
    """The objects that grant the functions their rights in a namespace."""
    rules = [
        _rule("configmaps", "get", "list", "create", "delete"),
        _rule("pods", "get", "list", "watch", "create", "delete", "deletecollection"),
        _rule("pods/log", "get"),
        # Why no node comes for a pod.
        _rule("events", "list"),
        _rule("daemonsets.apps", "get", "list", "create", "delete"),
        # The ways to servers through kube-proxy, and the headless Service of workloads.
        _rule("services", "get", "list", "create"),
        _rule("endpointslices.discovery.k8s.io", "get", "list", "create", "delete"),
    ]
    return _rights("runner", rules, group, marks, namespace)
