"""A kubelet's settings in the user data of a launch template.

Amazon Linux 2023 takes a MIME multi-part document. Parts of type application/node.eks.aws are
NodeConfig objects. nodeadm merges them in order, and the last value wins
(https://awslabs.github.io/amazon-eks-ami/nodeadm/). The last object is EKS's own unless the image
is custom. It sets maxPods, which only a flag can then change
(https://docs.aws.amazon.com/eks/latest/userguide/choosing-instance-type.html). Bottlerocket takes
TOML (https://bottlerocket.dev/en/os/latest/api/settings/kubernetes/).
"""

from __future__ import annotations

import base64
import binascii
import email.parser
import email.policy
import logging
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

LOG = logging.getLogger(__name__)

_NODE_CONFIG_TYPE = "application/node.eks.aws"
_API_VERSION = "node.eks.aws/v1alpha1"
_SPEC_FIELDS = {"cluster", "containerd", "featureGates", "instance", "kubelet"}

# Bottlerocket's names of kubelet settings, and KubeletConfiguration's.
_BOTTLEROCKET_FIELDS = {
    "allowed-unsafe-sysctls": "allowedUnsafeSysctls",
    "container-log-max-files": "containerLogMaxFiles",
    "container-log-max-size": "containerLogMaxSize",
    "cpu-cfs-quota-enforced": "cpuCFSQuota",
    "cpu-manager-policy": "cpuManagerPolicy",
    "cpu-manager-policy-options": "cpuManagerPolicyOptions",
    "cpu-manager-reconcile-period": "cpuManagerReconcilePeriod",
    "event-burst": "eventBurst",
    "event-qps": "eventRecordQPS",
    "eviction-hard": "evictionHard",
    "eviction-max-pod-grace-period": "evictionMaxPodGracePeriod",
    "eviction-soft": "evictionSoft",
    "eviction-soft-grace-period": "evictionSoftGracePeriod",
    "image-gc-high-threshold-percent": "imageGCHighThresholdPercent",
    "image-gc-low-threshold-percent": "imageGCLowThresholdPercent",
    "kube-api-burst": "kubeAPIBurst",
    "kube-api-qps": "kubeAPIQPS",
    "kube-reserved": "kubeReserved",
    "max-pods": "maxPods",
    "memory-manager-policy": "memoryManagerPolicy",
    "memory-manager-reserved-memory": "reservedMemory",
    "pod-pids-limit": "podPidsLimit",
    "registry-burst": "registryBurst",
    "registry-qps": "registryPullQPS",
    "reserved-cpus": "reservedSystemCPUs",
    "shutdown-grace-period": "shutdownGracePeriod",
    "shutdown-grace-period-for-critical-pods": "shutdownGracePeriodCriticalPods",
    "single-process-oom-kill": "singleProcessOOMKill",
    "system-reserved": "systemReserved",
    "topology-manager-policy": "topologyManagerPolicy",
    "topology-manager-scope": "topologyManagerScope",
}
# Settings that say how to reach the cluster; the lab's nodes do not need them.
_BOTTLEROCKET_CLUSTER = {
    "api-server",
    "authentication-mode",
    "bootstrap-token",
    "cloud-provider",
    "cluster-certificate",
    "cluster-dns-ip",
    "cluster-domain",
    "cluster-name",
    "hostname-override",
    "node-ip",
    "pod-infra-container-image",
    "provider-id",
    "server-tls-bootstrap",
    "standalone-mode",
    "static-pods",
}


class WrongForm(Exception):
    """User data that EKS itself refuses, before any instance is launched."""


class NeverJoins(Exception):
    """User data with which a node fails to start, so that it never joins the cluster."""


@dataclass(frozen=True)
class KubeletSettings:
    """Fields of KubeletConfiguration (kubelet.config.k8s.io/v1beta1), and flags as --name=value."""

    configuration: Mapping[str, Any] = field(default_factory=dict)
    flags: tuple[str, ...] = ()


def kubelet_settings(user_data: str | None, ami_type: str) -> KubeletSettings:
    """The kubelet's settings in base64 user data; none without user data.

    `ami_type` is EKS's, such as AL2023_x86_64_STANDARD. With CUSTOM, the user data may also be a
    bare NodeConfig. Raises WrongForm and NeverJoins.
    """
    if not user_data:
        return KubeletSettings()
    try:
        content = base64.b64decode(user_data, validate=True)
        text = content.decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise NeverJoins(f"the user data is not base64 of text: {error}") from error
    if ami_type.startswith("BOTTLEROCKET"):
        return _bottlerocket(text)
    return _amazon_linux(content, ami_type)


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the values of `over`; mappings in both are merged, anything else is replaced."""
    result = dict(base)
    for key, value in over.items():
        present = result.get(key)
        if isinstance(value, Mapping) and isinstance(present, Mapping):
            result[key] = merged(present, value)
        else:
            result[key] = value
    return result


def _amazon_linux(content: bytes, ami_type: str) -> KubeletSettings:
    message = email.parser.BytesParser(policy=email.policy.default).parsebytes(content)
    if message.get_content_maintype() == "multipart" and message.is_multipart():
        # nodeadm uses Go's mail parser, which accepts no defects.
        if message.defects:
            raise NeverJoins(f"nodeadm: the user data is no MIME document: {message.defects[0]!r}")
        documents = []
        for part in message.walk():
            if part.get_content_type() == _NODE_CONFIG_TYPE:
                payload = part.get_payload(decode=True)
                documents.append(payload.decode() if isinstance(payload, bytes) else "")
            elif not part.is_multipart():
                LOG.warning("user data of type %s does nothing here", part.get_content_type())
    elif ami_type == "CUSTOM":
        documents = [content.decode()]
    else:
        raise WrongForm("User data was not in the MIME multipart format.")
    kubelet: dict[str, Any] = {}
    flags: tuple[str, ...] = ()
    for document in documents:
        spec = _node_config(document).get("kubelet") or {}
        kubelet = merged(kubelet, spec.get("config") or {})
        flags += tuple(spec.get("flags") or ())
    if ami_type != "CUSTOM" and kubelet.pop("maxPods", None) is not None:
        LOG.warning("maxPods of the user data has no effect: EKS's own NodeConfig comes last")
    return KubeletSettings(kubelet, flags)


def _node_config(text: str) -> Mapping[str, Any]:
    """The `spec` of a NodeConfig, decoded as strictly as nodeadm does."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        detail = " ".join(str(error).split())
        raise NeverJoins(f"nodeadm: a NodeConfig of the user data is not YAML: {detail}") from error
    mapping = _mapping(document, "NodeConfig")
    if (mapping.get("apiVersion"), mapping.get("kind")) != (_API_VERSION, "NodeConfig"):
        raise NeverJoins(
            f"nodeadm: no kind {mapping.get('kind')!r} is registered for version"
            f" {mapping.get('apiVersion')!r}: give apiVersion {_API_VERSION} and kind NodeConfig"
        )
    _refuse_unknown(mapping, {"apiVersion", "kind", "metadata", "spec"}, "")
    spec = _mapping(mapping.get("spec") or {}, "spec")
    _refuse_unknown(spec, _SPEC_FIELDS, "spec.")
    kubelet = _mapping(spec.get("kubelet") or {}, "spec.kubelet")
    _refuse_unknown(kubelet, {"config", "flags"}, "spec.kubelet.")
    _mapping(kubelet.get("config") or {}, "spec.kubelet.config")
    flags = kubelet.get("flags") or []
    if not isinstance(flags, list) or not all(
        isinstance(flag, str) and flag.startswith("--") for flag in flags
    ):
        raise NeverJoins("nodeadm: spec.kubelet.flags must be a list of texts such as --v=2")
    return spec


def _bottlerocket(text: str) -> KubeletSettings:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise WrongForm("User data was not in the TOML format.") from error
    settings = _mapping(document.get("settings", {}), "settings")
    kubernetes = _mapping(settings.get("kubernetes", {}), "settings.kubernetes")
    configuration: dict[str, Any] = {}
    flags: list[str] = []
    for name, value in kubernetes.items():
        if name in _BOTTLEROCKET_FIELDS:
            configuration[_BOTTLEROCKET_FIELDS[name]] = _number(name, value)
        elif name in _BOTTLEROCKET_LISTS:
            described = ",".join(_pairs(_mapping(value, name)))
            flags.append(f"--{_BOTTLEROCKET_LISTS[name]}={described}")
        elif name not in _BOTTLEROCKET_CLUSTER:
            raise NeverJoins(f"bottlerocket: unknown setting settings.kubernetes.{name}")
    return KubeletSettings(configuration, tuple(flags))


def _pairs(value: Mapping[str, Any]) -> Iterator[str]:
    """Labels, or taints, of which a key may have several effects."""
    for key, texts in value.items():
        for text in texts if isinstance(texts, list) else [texts]:
            yield f"{key}={text}"


_BOTTLEROCKET_LISTS = {"node-labels": "node-labels", "node-taints": "register-with-taints"}


def _number(name: str, value: Any) -> Any:
    """Convert a percentage, which Bottlerocket takes as text, to a number."""
    if name.endswith("-percent") and isinstance(value, str) and value.isdigit():
        return int(value)
    return value


def _mapping(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise NeverJoins(f"{name} in the user data must be a mapping, not {value!r}")
    return value


def _refuse_unknown(mapping: Mapping[str, Any], fields: set[str], prefix: str) -> None:
    for name in mapping:
        if name not in fields:
            raise NeverJoins(f'nodeadm: strict decoding error: unknown field "{prefix}{name}"')
