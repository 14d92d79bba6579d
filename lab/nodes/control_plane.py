"""etcd, kube-apiserver, kube-controller-manager and kube-scheduler, which EKS runs for a user."""

from __future__ import annotations

import base64
import ipaddress
import json
import ssl
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.fabric.shaping import ipv6_block
from lab.nodes.pki import Authority, KeyPair
from lab.nodes.process import Process, wait_until
from lab.nodes.programs import Programs

READY_SECONDS = 180.0
# On a busy machine the API server may stand still for seconds.
_ANSWER_SECONDS = 60.0
_ETCD = "http://127.0.0.1:2379"
# AWS does not say how fast EKS starts a program of a control plane again.
RESTART_SECONDS = 1.0


def kubeconfig(cluster: Mapping[str, str], user: Mapping[str, str]) -> str:
    """A kubeconfig with one cluster and one user, in JSON, which is also YAML."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": cluster}],
        "users": [{"name": "lab", "user": user}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
        "current-context": "lab",
    }
    return json.dumps(config, indent=2)


def client_kubeconfig(server: str, authority_pem: str, credentials: KeyPair) -> str:
    """A self-contained kubeconfig for a client certificate."""

    def inline(content: bytes) -> str:
        return base64.b64encode(content).decode()

    return kubeconfig(
        {"server": server, "certificate-authority-data": inline(authority_pem.encode())},
        {
            "client-certificate-data": inline(credentials.certificate.read_bytes()),
            "client-key-data": inline(credentials.key.read_bytes()),
        },
    )


class ControlPlane:
    """A running control plane in the namespace of the calling process."""

    def __init__(
        self,
        *,
        programs: Programs,
        directory: Path,
        data_directory: Path,
        logs: Path,
        port: int,
        address: ipaddress.IPv4Address,
        service_cidr: str,
        webhook_url: str,
        api_server_flags: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`address` is where nodes reach the API server; `data_directory` should be in memory.

        `api_server_flags` come last, so they override the plane's own. All programs get the
        `environment` besides the lab's.
        """
        self.address = address
        self.port = port
        self.service_cidr = service_cidr
        self.endpoint = f"https://127.0.0.1:{port}"
        self.internal_endpoint = f"https://{address}:{port}"
        self.authority = Authority(directory / "pki")
        self._directory = directory
        self._logs = logs
        self._running: list[Process] = []
        self._api_server_flags = api_server_flags
        self._environment = environment
        services = ipaddress.ip_network(service_cidr)
        # The Service `kubernetes` has this address behind it, so it is of the services' version.
        self._advertised = (
            ipv6_block(ipaddress.IPv4Network(address))[1] if services.version == 6 else address
        )
        self._apiserver = self.authority.issue(
            "apiserver",
            "kube-apiserver",
            addresses=["127.0.0.1", address, self._advertised, str(services[1])],
            names=["localhost", "kubernetes", "kubernetes.default.svc"],
        )
        self._kubelet_client = self.authority.issue(
            "apiserver-kubelet-client",
            "kube-apiserver-kubelet-client",
            organization="system:masters",
        )
        self._accounts = self.authority.signing_key("service-accounts")
        self.admin = self.authority.issue("admin", "lab-admin", organization="system:masters")
        try:
            self._start(programs, data_directory, service_cidr, webhook_url)
        except BaseException:
            self.stop()
            raise
        for program in self._running:
            program.supervise(RESTART_SECONDS)

    def program(self, name: str) -> Process:
        """One of its programs."""
        return next(program for program in self._running if program.name == name)

    def client_file(
        self, file_name: str, common_name: str, organization: str | None = None
    ) -> Path:
        """A kubeconfig for a component, written beside the certificates."""
        pair = self.authority.issue(file_name, common_name, organization=organization)
        path = self._directory / f"{file_name}.kubeconfig"
        path.write_text(
            client_kubeconfig(self.internal_endpoint, self.authority.pem, pair), encoding="utf-8"
        )
        path.chmod(0o600)
        return path

    def request(
        self,
        path: str,
        method: str = "GET",
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        """Send a request to the API server as its administrator. Raises OSError."""
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        context.load_cert_chain(self.admin.certificate, self.admin.key)
        request = urllib.request.Request(self.endpoint + path, data=body, method=method)
        if body is not None:
            request.add_header("Content-Type", content_type)
        with urllib.request.urlopen(request, context=context, timeout=_ANSWER_SECONDS) as response:
            content: bytes = response.read()
            return content

    def stop(self) -> None:
        """End the programs, the last started first."""
        for program in reversed(self._running):
            program.stop()
        self._running.clear()

    def _start(
        self, programs: Programs, data_directory: Path, service_cidr: str, webhook_url: str
    ) -> None:
        self._run(
            "etcd",
            [
                programs.debian_program("usr/bin/etcd"),
                f"--data-dir={data_directory / 'etcd'}",
                f"--listen-client-urls={_ETCD}",
                f"--advertise-client-urls={_ETCD}",
                "--listen-peer-urls=http://127.0.0.1:2380",
                "--log-level=warn",
                "--logger=zap",
            ],
        )
        self._run(
            "kube-apiserver",
            [
                str(programs.kubernetes / "kube-apiserver"),
                *self._flags_of_api_server(service_cidr, webhook_url),
            ],
        )
        wait_until(
            self._ready,
            seconds=READY_SECONDS,
            describe=lambda: f"the API server is not ready: {self._running[1].last_lines()}",
            processes=self._running,
        )
        self._start_controllers(programs.kubernetes)

    def _flags_of_api_server(self, service_cidr: str, webhook_url: str) -> list[str]:
        """The API server's flags, which name a file that this writes: the webhook's kubeconfig."""
        webhook = self._directory / "authentication-webhook.json"
        webhook.write_text(kubeconfig({"server": webhook_url}, {}), encoding="utf-8")
        ca = self.authority.certificate
        return [
            f"--etcd-servers={_ETCD}",
            f"--secure-port={self.port}",
            "--bind-address=0.0.0.0",
            f"--advertise-address={self._advertised}",
            f"--service-cluster-ip-range={service_cidr}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            f"--client-ca-file={ca}",
            f"--tls-cert-file={self._apiserver.certificate}",
            f"--tls-private-key-file={self._apiserver.key}",
            f"--kubelet-certificate-authority={ca}",
            f"--kubelet-client-certificate={self._kubelet_client.certificate}",
            f"--kubelet-client-key={self._kubelet_client.key}",
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._accounts.certificate}",
            f"--service-account-signing-key-file={self._accounts.key}",
            f"--authentication-token-webhook-config-file={webhook}",
            "--authentication-token-webhook-version=v1",
            "--authentication-token-webhook-cache-ttl=30s",
            "--allow-privileged=true",  # as on EKS, where Pod Security decides
            "--anonymous-auth=false",
            "--profiling=false",
            *self._api_server_flags,
        ]

    def _start_controllers(self, binaries: Path) -> None:
        manager = self.client_file("controller-manager", "system:kube-controller-manager")
        self._run(
            "kube-controller-manager",
            [
                str(binaries / "kube-controller-manager"),
                f"--kubeconfig={manager}",
                f"--root-ca-file={self.authority.certificate}",
                f"--service-account-private-key-file={self._accounts.key}",
                "--use-service-account-credentials=true",
                "--allocate-node-cidrs=false",
                # It makes this directory, by default in the machine's /usr/libexec.
                f"--flex-volume-plugin-dir={self._directory / 'volume-plugins'}",
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
                "--profiling=false",
            ],
        )
        scheduler = self.client_file("scheduler", "system:kube-scheduler")
        self._run(
            "kube-scheduler",
            [
                str(binaries / "kube-scheduler"),
                f"--kubeconfig={scheduler}",
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
                "--profiling=false",
            ],
        )

    def _run(self, name: str, argv: list[str]) -> None:
        log = self._logs / f"{name}.log"
        self._running.append(Process(name, argv, log, environment=self._environment))

    def _ready(self) -> bool:
        return self.request("/readyz") == b"ok"
