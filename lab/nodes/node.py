"""A node: a network namespace with its own containerd, CNI and kubelet. An instance without one."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import control_groups
from lab.aws.eks.infrastructure import NodeSpec
from lab.daemon import KUBELET_DIRECTORY
from lab.errors import LabError
from lab.fabric.shaping import ipv6_block
from lab.nodes import cni, containerd, coredns, kubelet
from lab.nodes.control_plane import ControlPlane
from lab.nodes.process import RARE_COLLECTION, Process
from lab.nodes.programs import Programs
from lab.setup.image import PAUSE_IMAGE, TOOLS_IMAGE

SCALE_LABEL = "rackrate.dev/network-scale"
# RestartSec of kubelet.service and of containerd.service on Amazon Linux 2023.
RESTART_SECONDS = 5.0
# A kubelet listens on a socket below /var/lib/kubelet, whatever its settings say. Of two that start
# at the same time, one would fail there. All other mounts stay shared with containerd.
_OWN_KUBELET_DIRECTORY = (
    *("unshare", "--mount", "--propagation", "unchanged", "sh", "-c"),
    f'mount --no-mtab -t tmpfs -o mode=755 kubelet {KUBELET_DIRECTORY} && exec "$@"',
    "sh",
)

_IMAGE_COMMANDS = Path(__file__).with_name("image_commands.sh")


@dataclass
class Node:
    """One node's programs and directories. `start` returns once the kubelet runs.

    `bits_per_second` is the cap on the instance. `cni_version` is the VPC CNI's version for its
    pods, None where the cluster does not have that add-on.
    """

    spec: NodeSpec
    programs: Programs
    directory: Path
    logs: Path
    images: containerd.Images
    control_plane: ControlPlane
    network_scale: float
    mtu_bytes: int
    bits_per_second: float
    cni_version: str | None = None

    def __post_init__(self) -> None:
        # In a cluster of IPv6 the kubelet has an IPv6 address, as with amazon-eks-ami's nodeadm.
        is_ipv6 = ":" in self.control_plane.service_cidr
        self.block = ipv6_block(self.spec.block) if is_ipv6 else self.spec.block
        self.address = self.block[1]
        #: The node's programs, so that callers can watch them.
        self.running: list[Process] = []
        self._addon_images: set[str] = set()
        # kubelet and containerd have small heaps.
        self._variables = {**self.programs.environment, **RARE_COLLECTION}

    def start(
        self, published: Callable[[], Sequence[str]], addons: Callable[[], Sequence[str]]
    ) -> None:
        """Start containerd with the images, and then the kubelet.

        `published` returns additional references of the tools' image, `addons` the add-ons' images.
        Raises OSError, TimeoutError, and LabError for kubelet settings that the lab does not
        support.
        """
        fields, flags = kubelet.split_flags(self.spec.kubelet_flags)
        settings = self._kubelet_configuration(fields)
        self._start_containerd(published)
        if self.cni_version is not None:
            self.tag_addon(cni.image(self.cni_version))
        for image in addons():
            self.tag_addon(image)
        path = self.directory / "kubelet.json"
        path.write_text(json.dumps(settings, indent=2), encoding="utf-8")
        self._run(
            "kubelet",
            [
                *_OWN_KUBELET_DIRECTORY,
                str(self.programs.kubernetes / "kubelet"),
                f"--config={path}",
                f"--kubeconfig={self._credentials()}",
                f"--hostname-override={self.spec.name}",
                f"--node-ip={self.address}",
                f"--root-dir={self.directory / 'kubelet'}",
                f"--cert-dir={self.directory / 'kubelet-certificates'}",
                f"--node-labels={self._labels()}",
                *flags,
            ],
        )

    def _start_containerd(self, published: Callable[[], Sequence[str]]) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._write_cni()
        self.images.put_into(self._containerd_root)
        self._run("containerd", containerd.program(self.programs, self._write_containerd()))
        containerd.wait_until_it_answers(self.programs, self._socket, self.running[0])
        for reference in published():
            self.tag_tools(reference)

    def tag_tools(self, reference: str) -> None:
        """Give the tools' image one more reference. Raises OSError until containerd answers."""
        self._ctr("images", "tag", "--force", TOOLS_IMAGE, reference)

    def tag_addon(self, image: str) -> None:
        """Let the node run an add-on's pod. Raises OSError like `tag_tools`.

        The image has only `pause`: what more a pod runs, it mounts from the machine.
        """
        if image not in self._addon_images:
            self._ctr("images", "tag", "--force", PAUSE_IMAGE, image)
            self._addon_images.add(image)

    def use_cni(self, version: str) -> None:
        """Connect later pods as this version does."""
        if self.cni_version != version:
            self.cni_version = version
            self._write_cni()

    @property
    def has_containerd(self) -> bool:
        """Whether its containerd listens yet."""
        return self._socket.exists()

    def supervise(self) -> None:
        """Start programs that end from now on again, as systemd does."""
        for program in self.running:
            program.supervise(RESTART_SECONDS)

    def program(self, name: str) -> Process:
        """The kubelet or containerd. Raises LabError when it does not run yet."""
        for program in self.running:
            if program.name == f"{name} of {self.spec.name}":
                return program
        raise LabError(f"{self.spec.name} has no {name} yet: wait until the node is Ready.")

    def stop(self) -> None:
        """End the kubelet, the node's containers and containerd; remove the node's files."""
        for program in reversed(self.running):
            if program.name.startswith("containerd"):
                # A containerd that never answered has no containers.
                with contextlib.suppress(OSError):
                    self.end_containers()
            program.stop()
        self.running.clear()
        self._remove_files()

    def _remove_files(self) -> None:
        """Remove the node's disk, so that a later node of this name starts with an empty one."""
        own = (self.directory, self._socket.parent)
        lines = Path("/proc/self/mountinfo").read_text("utf-8").splitlines()
        mounted = [Path(line.split()[4]) for line in lines]
        for point in reversed(mounted):
            if any(point.is_relative_to(directory) for directory in own):
                subprocess.run(["umount", "--lazy", str(point)], check=False, capture_output=True)
        for directory in own:
            shutil.rmtree(directory, ignore_errors=True)
        control_groups.remove_for_pods(self.spec.name)

    def _run(self, name: str, argv: list[str]) -> None:
        program = Process(
            f"{name} of {self.spec.name}",
            argv,
            self.logs / f"{self.spec.name}.{name}.log",
            network_namespace=self.spec.name,
            environment=self._variables | {"PATH": self._path()},
        )
        self.running.append(program)

    def _path(self) -> str:
        root = self.programs.debian
        own = [str(root / part) for part in ("usr/sbin", "usr/bin", "sbin", "bin")]
        return os.pathsep.join([*own, os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")])

    @property
    def _socket(self) -> Path:
        return Path("/run/containerd", self.spec.name, "containerd.sock")

    @property
    def _runc(self) -> str:
        return self.programs.debian_program("usr/sbin/runc", "usr/bin/runc")

    @property
    def _containerd_root(self) -> Path:
        return self.directory / "containerd"

    def _ctr(self, *arguments: str) -> str:
        return containerd.ctr(self.programs, self._socket, *arguments)

    def containerd_answers(self) -> bool:
        """Whether its containerd takes requests."""
        return containerd.answers(self.programs, self._socket)

    def end_containers(self) -> None:
        """End the node's containers. Raises OSError when containerd does not answer."""
        for task in self._ctr("tasks", "list", "--quiet").split():
            # The task may have ended by itself meanwhile.
            with contextlib.suppress(OSError):
                self._ctr("tasks", "delete", "--force", task)

    def _write_containerd(self) -> Path:
        run = self._socket.parent
        run.mkdir(parents=True, exist_ok=True)
        base = containerd.configuration(self._containerd_root, run / "state", self._socket)
        plugin = f"""\
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  # A machine without CAP_SYS_RESOURCE cannot lower a score; runc would fail with an obscure EOF.
  restrict_oom_score_adj = true
  enable_selinux = false
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "{self._runc}"
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{self.programs.debian / "usr/lib/cni"}"
    conf_dir = "{self.directory}/cni"
"""
        path = self.directory / "containerd.toml"
        path.write_text(base + plugin, encoding="utf-8")
        return path

    def _write_cni(self) -> None:
        """Write the CNI's configuration. containerd reads it again when a file gets its name."""
        directory = self.directory / "cni"
        directory.mkdir(exist_ok=True)
        written = cni.configuration(
            self.block,
            pods=self.spec.pod_addresses,
            directory=self.directory,
            mtu_bytes=self.mtu_bytes,
            version=self.cni_version,
            node_bits_per_second=self.bits_per_second,
        )
        temporary = directory / "10-vpc.new"
        temporary.write_text(json.dumps(written), encoding="utf-8")
        temporary.rename(directory / "10-vpc.conflist")

    def _kubelet_configuration(self, flag_fields: dict[str, Any]) -> dict[str, Any]:
        serving = self.control_plane.authority.issue(
            f"{self.spec.name}-serving",
            f"system:node:{self.spec.name}",
            organization="system:nodes",
            addresses=[self.address],
            names=[self.spec.name],
        )
        own = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": str(self.address),
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(self.control_plane.authority.certificate)},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(serving.certificate),
            "tlsPrivateKeyFile": str(serving.key),
            "containerRuntimeEndpoint": f"unix://{self._socket}",
            "providerID": f"aws:///{self.spec.zone}/{self.spec.instance_id}",
            "clusterDNS": [str(coredns.address(self.control_plane.service_cidr))],
            "clusterDomain": coredns.DOMAIN,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": control_groups.make_for_pods(self.spec.name),
            "enforceNodeAllocatable": [],
            "failCgroupV1": False,
            "failSwapOn": False,
            "oomScoreAdj": 0,
            "readOnlyPort": 0,
            "healthzPort": 0,
            # EKS's default for a large type needs more addresses than a block of the lab has.
            "maxPods": min(self.spec.default_max_pods, kubelet.pod_addresses(self.spec.block)),
            "podLogsDir": str(self.directory / "pod-logs"),
            "volumePluginDir": str(self.directory / "volume-plugins"),
            "serializeImagePulls": False,
            # The nodes share the machine's disk and memory, so its state says nothing of one node.
            "evictionHard": {
                "memory.available": "100Mi",
                "nodefs.available": "0%",
                "nodefs.inodesFree": "0%",
                "imagefs.available": "0%",
                "imagefs.inodesFree": "0%",
            },
            "imageGCHighThresholdPercent": 100,
            "localStorageCapacityIsolation": False,
            "registerWithTaints": [dict(taint) for taint in self.spec.taints],
            "logging": {"verbosity": 1},
        }
        requested = {**self.spec.kubelet_configuration, **flag_fields}
        return kubelet.configuration(own, requested, self.spec.block)

    def _credentials(self) -> Path:
        return self.control_plane.client_file(
            f"{self.spec.name}-kubelet", f"system:node:{self.spec.name}", "system:nodes"
        )

    def _labels(self) -> str:
        labels = {**self.spec.labels, SCALE_LABEL: f"{self.network_scale:g}"}
        own = {"kubernetes.io/os", "kubernetes.io/arch", "kubernetes.io/hostname"}
        return ",".join(f"{key}={value}" for key, value in labels.items() if key not in own)


class Instance(Node):
    """An instance that is no node: containerd, and its user data as cloud-init runs it."""

    def start(
        self, published: Callable[[], Sequence[str]], addons: Callable[[], Sequence[str]]
    ) -> None:
        """Start containerd with the images, and then the user data, without waiting for its end.

        Raises OSError, TimeoutError.
        """
        self._variables |= {
            "CTR": self.programs.debian_program("usr/bin/ctr"),
            "RUNC": self._runc,
            "CONTAINERD_ADDRESS": str(self._socket),
            "CONTAINERD_NAMESPACE": "k8s.io",
            "CONTROL_GROUP": control_groups.make_for_pods(self.spec.name),
        }
        self._start_containerd(published)
        self.program("containerd").supervise(RESTART_SECONDS)
        commands, script = self.directory / "commands", self.directory / "user-data"
        commands.mkdir()
        for name in ("aws", "ctr", "runc", "systemctl"):
            (commands / name).symlink_to(_IMAGE_COMMANDS)
        script.write_text(self.spec.user_data, encoding="utf-8")
        path = f"{commands}{os.pathsep}{self._path()}"
        self._run("user-data", ["env", f"PATH={path}", "bash", "-x", str(script)])

    def end_containers(self) -> None:
        """Keep containerd from restarting the containers, and end them. Raises OSError."""
        for container in self._ctr("containers", "list", "--quiet").split():
            self._ctr("containers", "label", container, "containerd.io/restart.status=stopped")
        super().end_containers()
