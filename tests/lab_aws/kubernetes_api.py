"""A Kubernetes API in memory, of which the functions of a stack that is deployed use little."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from lab.aws.eks.infrastructure import NodeSpec

Json = dict[str, Any]


class KubernetesApi:
    """Objects by path, which may be read, created, replaced and deleted, and Ready nodes."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.url = ""
        #: The nodes that there are now.
        self.nodes: Callable[[], Iterable[NodeSpec]] = list

    def namespaces(self) -> set[str]:
        """The names of the namespaces."""
        prefix = "/api/v1/namespaces/"
        return {
            path.removeprefix(prefix)
            for path in self.objects
            if path.startswith(prefix) and "/" not in path.removeprefix(prefix)
        }

    def list_nodes(self, selector: str) -> Json:
        """The nodes with a label, selected as key=value."""
        key, _, value = selector.partition("=")
        return {
            "items": [
                {
                    "metadata": {"name": spec.name, "labels": dict(spec.labels)},
                    "spec": {"providerID": f"aws:///{spec.zone}/{spec.instance_id}"},
                    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
                }
                for spec in self.nodes()
                if not selector or spec.labels.get(key) == value
            ]
        }

    def respond(self, method: str, path: str, body: Json) -> tuple[int, Json]:
        """The status and the content of the answer to a request."""
        if method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            if path in self.objects:
                return 409, {"message": f"{path} already exists"}
        elif path not in self.objects:
            return 404, {"message": f"{path} not found"}
        if method == "DELETE":
            # What is in a namespace goes with it.
            for one in [key for key in self.objects if key == path or key.startswith(f"{path}/")]:
                del self.objects[one]
            return 200, {"status": "Success"}
        if method in ("POST", "PUT"):
            self.objects[path] = body
            body["metadata"]["resourceVersion"] = uuid.uuid4().hex
        return 200, self.objects[path]


@contextmanager
def served() -> Iterator[KubernetesApi]:
    """Serve a new API on a port of its own."""
    api = KubernetesApi()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size) or b"{}")
            path, _, query = self.path.partition("?")
            if path == "/api/v1/nodes":
                (selector,) = parse_qs(query).get("labelSelector", [""])
                status, content = 200, api.list_nodes(selector)
            else:
                status, content = api.respond(self.command, path, body)
            payload = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        do_GET = do_POST = do_PUT = do_DELETE = _serve

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    api.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield api
    server.shutdown()
    server.server_close()
