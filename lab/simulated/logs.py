"""The kubelets' log endpoint, for all simulated nodes: recorded outputs of real tools, varied.

Usage: python -m lab.simulated.logs PORT CERTIFICATE KEY SERVER AUTHORITY CERTIFICATE KEY

The first certificate is the server's own, the second the client's of the API at SERVER.

The outputs are those by which the parsers are tested (`tests/unit/data/README.md`). A log is the
recording of its container's command line, at the times at which the container ran, with figures
that vary around the recorded ones. A command line without a recording has no log.
"""

from __future__ import annotations

import json
import random
import re
import ssl
import statistics
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import urllib3

RECORDINGS = Path(__file__).resolve().parents[2] / "tests" / "unit" / "data"
#: By streams and seconds of iperf3, and by the number of pings.
_IPERF3 = {
    (1, 1): "iperf3/3.18/tcp-one-second.json",
    (1, 2): "iperf3/3.18/tcp-one-stream.json",
    (8, 1): "iperf3/eight-streams.json",
}
_PING = {1: "ping/20240905/one-reply.txt", 10: "ping/20240905/ten-replies.txt"}
#: How much more throughput, and how much less time, nodes in a placement group have here.
_GROUP_THROUGHPUT, _GROUP_TIME = 1.9, 0.6
#: The deviation of a figure, as a share of it.
_DEVIATION = 0.03
_SCALED = frozenset({"bytes", "bits_per_second"})
_MOST_PODS = 4000
#: Asks for the metadata of a list's objects alone.
_METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"

Json = dict[str, Any]


class NoRecording(Exception):
    """No tool's output was recorded for a command line."""


def printed(argv: Sequence[str], started_at: float, seed: str, *, in_group: bool) -> str:
    """What a container printed. Pure but for the recordings.

    Args:
        argv: its command line.
        started_at: when it started, in seconds since 1970.
        seed: what makes its figures its own.
        in_group: whether its node is in a placement group.

    Raises:
        NoRecording: there is no recording of this command line.
    """
    chance = random.Random(seed)
    if argv[0] == "iperf3":
        key = int(_after(argv, "--parallel")), int(_after(argv, "--time"))
        report = json.loads(_recorded(_IPERF3, key, argv))
        factor = chance.gauss(1, _DEVIATION) * (_GROUP_THROUGHPUT if in_group else 1)
        _scale(report["intervals"], factor)
        _scale(report["end"], factor)
        start = report["start"]
        stamp = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(started_at))
        start["timestamp"] = {"time": stamp, "timesecs": int(started_at)}
        start["connecting_to"]["host"] = _after(argv, "--client")
        return json.dumps(report, indent="\t", separators=(",", ":\t")) + "\n"
    if argv[0] == "ping":
        recorded = _recorded(_PING, int(_after(argv, "-c")), argv)
        return _pings(recorded, started_at, chance, _GROUP_TIME if in_group else 1)
    raise NoRecording(" ".join(argv))


def _after(argv: Sequence[str], option: str) -> str:
    try:
        return argv[argv.index(option) + 1]
    except (ValueError, IndexError):
        raise NoRecording(" ".join(argv)) from None


def _recorded[K](recordings: Mapping[K, str], key: K, argv: Sequence[str]) -> str:
    if key not in recordings:
        raise NoRecording(" ".join(argv))
    return _text(recordings[key])


@cache
def _text(name: str) -> str:
    return (RECORDINGS / name).read_text("utf-8")


def _scale(part: Any, factor: float) -> None:
    """Multiply the rates and the bytes in a part of a report of iperf3."""
    if isinstance(part, list):
        for each in part:
            _scale(each, factor)
    elif isinstance(part, dict):
        for name, value in part.items():
            if name in _SCALED:
                part[name] = round(value * factor) if isinstance(value, int) else value * factor
            else:
                _scale(value, factor)


def _pings(recorded: str, started_at: float, chance: random.Random, factor: float) -> str:
    stamps = [float(match) for match in re.findall(r"^\[(\d+\.\d+)\]", recorded, re.M)]
    shift = started_at - stamps[0]
    level = chance.gauss(factor, _DEVIATION)
    times: list[float] = []

    def moved(match: re.Match[str]) -> str:
        return f"[{float(match[1]) + shift:.6f}]"

    def varied(match: re.Match[str]) -> str:
        times.append(float(match[1]) * level * abs(chance.gauss(1, _DEVIATION)))
        return f"time={times[-1]:.3f} ms"

    text = re.sub(r"^\[(\d+\.\d+)\]", moved, recorded, flags=re.M)
    text = re.sub(r"time=(\d+\.\d+) ms", varied, text)
    summary = (min(times), statistics.fmean(times), max(times), statistics.pstdev(times))
    figures = "/".join(f"{figure:.3f}" for figure in summary)
    return re.sub(r"= [\d./]+ ms", f"= {figures} ms", text)


class Pods:
    """The pods whose logs are asked for, read from the API many with a request.

    A kubelet knows its pods. Here a request for each would take as long as all else that a log
    costs this process.
    """

    def __init__(self, server: str, authority: str, certificate: str, key: str) -> None:
        """The API's URL, and the files of its authority and of a client's certificate and key."""
        self._api = urllib3.PoolManager(
            num_pools=1,
            maxsize=16,
            block=True,
            cert_file=certificate,
            key_file=key,
            ca_certs=authority,
        )
        self._server = server
        self._ended: dict[tuple[str, str], Json] = {}
        self._in_group: dict[str, bool] = {}
        self._lock = threading.Lock()

    def pod(self, namespace: str, name: str) -> Json:
        """A pod, which usually has ended when its logs are asked for."""
        with self._lock:  # one request reads what all who wait here ask for
            if (namespace, name) not in self._ended:
                self._read_ended(namespace)
            ended = self._ended.get((namespace, name))
        return ended or self._get(f"/api/v1/namespaces/{namespace}/pods/{name}")

    def in_group(self, node: str) -> bool:
        """Whether a node is in a placement group, as its label says."""
        with self._lock:
            if node not in self._in_group:
                self._read_nodes()
            if node not in self._in_group:
                raise LookupError(f"there is no node {node}")
            return self._in_group[node]

    def _read_ended(self, namespace: str) -> None:
        if len(self._ended) > _MOST_PODS:
            self._ended.clear()
        path = f"/api/v1/namespaces/{namespace}/pods"
        for pod in self._get(path, fieldSelector="status.phase=Succeeded")["items"]:
            key = namespace, pod["metadata"]["name"]
            self._ended[key] = {"spec": pod["spec"], "status": pod["status"]}

    def _read_nodes(self) -> None:
        for node in self._get("/api/v1/nodes", accept=_METADATA)["items"]:
            labels = node["metadata"]["labels"]
            self._in_group[node["metadata"]["name"]] = labels.get("placementGroup") == "true"

    def _get(self, path: str, *, accept: str = "application/json", **query: str) -> Json:
        # From the API server's cache, which has all of a pod that has ended.
        fields, headers = {"resourceVersion": "0", **query}, {"Accept": accept}
        response = self._api.request("GET", self._server + path, fields=fields, headers=headers)
        if response.status != 200:
            raise LookupError(f"{path}: {response.status}")
        document: Json = response.json()
        return document


def log_of(pods: Pods, namespace: str, name: str, container: str) -> str:
    """The log of a container. Raises LookupError, NoRecording."""
    pod = pods.pod(namespace, name)
    spec, status = pod["spec"], pod["status"]
    argv = next(
        (
            each["command"]
            for each in (*spec.get("initContainers", []), *spec["containers"])
            if each["name"] == container
        ),
        None,
    )
    states = [
        state
        for each in (
            *status.get("initContainerStatuses", []),
            *status.get("containerStatuses", []),
        )
        if each["name"] == container
        for state in each["state"].values()
        if "startedAt" in state
    ]
    if argv is None or not states:
        raise LookupError(f"{name} has no log of {container}")
    started_at = datetime.fromisoformat(states[0]["startedAt"]).timestamp()
    if argv[0] == "sh":  # it waits for the time that is its name, then runs what follows
        started_at, argv = max(started_at, float(argv[3].split(",")[0]) / 1e3), argv[4:]
    in_group = pods.in_group(spec["nodeName"])
    return printed(argv, started_at, f"{name}/{container}", in_group=in_group)


def handler(read: Callable[[str, str, str], str]) -> type[BaseHTTPRequestHandler]:
    """The handler of `/containerLogs/NAMESPACE/POD/CONTAINER`, as the kubelet's."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body leave together, as in lab/aws/server.py

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            match url.path.strip("/").split("/"):
                case ["containerLogs", namespace, pod, container]:
                    self._answer(*self._log(namespace, pod, container), url.query)
                case _:
                    self._answer(404, b"no such path", "")

        def _log(self, namespace: str, pod: str, container: str) -> tuple[int, bytes]:
            try:
                return 200, read(namespace, pod, container).encode()
            except (LookupError, NoRecording) as error:
                return 404, str(error).encode()

        def _answer(self, status: int, body: bytes, query: str) -> None:
            most = parse_qs(query).get("limitBytes")
            body = body[: int(most[0])] if most else body
            self.send_response(status)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing; what fails is an answer of the API."""

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024


def main() -> None:
    """Serve until the process is ended."""
    port, certificate, key, *of_api = sys.argv[1:]
    pods = Pods(*of_api)
    server = _Server(("0.0.0.0", int(port)), handler(lambda *of: log_of(pods, *of)))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    # The thread of a connection shakes hands, not the one that accepts.
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    server.serve_forever()


if __name__ == "__main__":
    main()
