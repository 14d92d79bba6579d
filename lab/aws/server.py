"""The emulated Region: one WSGI application on every socket it is given."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from flask import Flask
from moto.core.config import default_user_config
from moto.core.utils import convert_to_flask_response
from moto.moto_server.utilities import RegexConverter
from moto.moto_server.werkzeug_app import (
    HTTP_METHODS,
    BackendRequest,
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import BaseWSGIServer, make_server

from . import (
    account_limits,
    authorization,
    bucket_policies,
    ec2_placement,
    event_bridge,
    lambda_runtime,
    process_memory,
    step_functions,
)
from .cloudformation.api import CloudFormationResponse
from .cloudformation.engine import StackBackend
from .cloudformation.resources import resource_types
from .codebuild import CodeBuild, CodeBuildResponse, publish_pushed
from .eks.api import EksResponse
from .eks.service import EksService
from .eks_tokens import review
from .identity import ADMIN_CREDENTIALS, create_admin
from .services import ACCOUNT_ID, REGION, ClientFactory, Services
from .substrate import EksBackend

LOG = logging.getLogger(__name__)

# Services whose backends are loaded at the start, in a thread, so that no request waits.
_PRELOADED = ("sts", "s3", "iam", "ec2", "logs", "dynamodb", "lambda", "stepfunctions", "events")

StartResponse = Callable[..., Any]
Application = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]


class Region:
    """A running Region. `endpoint_url` is where every AWS API of it is."""

    def __init__(
        self,
        services: Services,
        servers: list[BaseWSGIServer],
        router: event_bridge.EventRouter,
        log: _RequestLog,
        stacks: StackBackend,
        authorizer: authorization.Authorizer,
    ) -> None:
        self.endpoint_url = services.endpoint_url
        self.access_key_id = ADMIN_CREDENTIALS.access_key_id
        self.secret_access_key = ADMIN_CREDENTIALS.secret_access_key
        self.services = services
        self.stacks = stacks
        self._servers, self._router, self._log = servers, router, log
        self._authorizer = authorizer

    def stop(self) -> None:
        """Answer no more requests and end every worker. Clusters are their backend's to stop."""
        self._router.stop()
        self.services.lambda_runtime.stop()
        for server in self._servers:
            server.shutdown()
            server.server_close()
        self._log.close()
        self._authorizer.close()


def serve(
    *,
    listeners: Sequence[socket.socket],
    endpoint_url: str,
    state_directory: Path,
    eks: EksBackend,
    network_scale: float,
) -> Region:
    """Serve the Region on sockets that are bound and listening. Starts threads, returns at once.

    `endpoint_url` is how functions and clusters reach one of the listeners; `network_scale` is
    written on the nodes when it is not 1.
    """
    state_directory.mkdir(parents=True, exist_ok=True)
    process_memory.prepare()
    default_user_config["lambda"]["use_docker"] = False
    default_user_config["stepfunctions"]["execute_state_machine"] = True
    default_user_config["iam"]["load_aws_managed_policies"] = True
    process_memory.forget_other_regions()
    create_admin()
    services = Services(
        endpoint_url=endpoint_url,
        state_directory=state_directory,
        clients=ClientFactory(endpoint_url, REGION, ADMIN_CREDENTIALS),
    )
    services.eks = EksService(services, eks, network_scale)
    authorizer = authorization.Authorizer(services, state_directory)
    services.lambda_runtime = lambda_runtime.LambdaRuntime(
        state_directory=state_directory / "lambda",
        endpoint_url=endpoint_url,
        region=REGION,
        account_id=ACCOUNT_ID,
        authorizer=authorizer,
    )
    router = event_bridge.EventRouter(services)
    account_limits.install()
    bucket_policies.install()
    ec2_placement.install()
    lambda_runtime.install(services.lambda_runtime)
    event_bridge.install(router)
    step_functions.install(
        endpoint_url=endpoint_url,
        admin={
            "aws_access_key_id": ADMIN_CREDENTIALS.access_key_id,
            "aws_secret_access_key": ADMIN_CREDENTIALS.secret_access_key,
        },
        router=router,
        authorizer=authorizer,
    )
    stacks = StackBackend(services, resource_types())
    authorizer.stacks = stacks
    authorization.install(authorizer)
    CloudFormationResponse.stack_backend = stacks
    CloudFormationResponse.change_sets = {}
    EksResponse.service = services.eks
    CodeBuildResponse.service = CodeBuild(endpoint_url)
    publish_pushed(eks.publish_image)
    log = _RequestLog(state_directory / "requests.log")
    dispatcher = DomainDispatcherApplication(_create_app)
    application = log.around(_lab_routes(services, dispatcher))
    servers = []
    for listener in listeners:
        host, port = listener.getsockname()[:2]
        server = make_server(
            host,
            port,
            application,
            threaded=True,
            request_handler=_RequestHandler,
            fd=listener.fileno(),
        )
        server.daemon_threads = True  # type: ignore[attr-defined]
        servers.append(server)
        threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.2}, name="aws", daemon=True
        ).start()
    threading.Thread(target=_preload, args=(dispatcher,), name="aws-preload", daemon=True).start()
    return Region(services, servers, router, log, stacks, authorizer)


def _preload(dispatcher: DomainDispatcherApplication) -> None:
    for name in _PRELOADED:
        host = "dynamodb" if name == "dynamodb" else f"{name}.{REGION}.amazonaws.com"
        backend = dispatcher.get_backend_for_host(
            host.replace("stepfunctions", "states") if name == "stepfunctions" else host
        )
        with dispatcher.lock:
            if backend and backend not in dispatcher.app_instances:
                dispatcher.app_instances[backend] = dispatcher.create_app(backend)


def _create_app(service: Any) -> Flask:
    """moto's application for a service, or the lab's own where the lab has one."""
    own = {
        "cloudformation": CloudFormationResponse,
        "codebuild": CodeBuildResponse,
        "eks": EksResponse,
    }.get(service)
    if own is None:
        return create_backend_app(service)
    app = Flask("lab")
    app.request_class = BackendRequest
    app.url_map.converters["regex"] = RegexConverter
    app.add_url_rule(
        '/<regex(".*"):path>',
        endpoint=service,
        methods=HTTP_METHODS,
        view_func=convert_to_flask_response(own.dispatch),
        strict_slashes=False,
    )
    return app


class _RequestHandler(MotoRequestHandler):
    """Keeps connections, and leaves the log to the application."""

    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: Any) -> None:
        if type == "error":
            LOG.warning(message, *args)


class _RequestLog:
    """One line per request: time, duration, status, method, path, action."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)
        self._lock = threading.Lock()

    def around(self, application: Application) -> Application:
        """The application, with each request noted."""

        def logged(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
            started = time.monotonic()
            seen: list[str] = []

            def starting(status: str, *args: Any) -> Any:
                seen.append(status)
                return start_response(status, *args)

            try:
                return application(environ, starting)
            finally:
                self._note(environ, seen[0][:3] if seen else "---", time.monotonic() - started)

        return logged

    def _note(self, environ: dict[str, Any], status: str, seconds: float) -> None:
        authorization = environ.get("HTTP_AUTHORIZATION", "")
        credential = authorization.partition("Credential=")[2].split(",")[0].split("/")
        service = credential[3] if len(credential) > 3 else "-"
        key = credential[0] or "-"
        target = environ.get("HTTP_X_AMZ_TARGET", "-")
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = (
            f"{stamp} {seconds * 1e3:8.1f} ms {status} {key} {service} {target}"
            f" {environ['REQUEST_METHOD']} {environ['PATH_INFO']}\n"
        )
        with self._lock:
            if not self._file.closed:
                self._file.write(line)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()


def _lab_routes(services: Services, application: Application) -> Application:
    """The lab's own routes before AWS's."""

    def routed(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if not path.startswith("/_lab/"):
            return application(environ, start_response)
        length = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(length) if length else b""
        try:
            status, answer = _lab(services, environ["REQUEST_METHOD"], path, body)
        except Exception as error:
            LOG.exception("%s", path)
            status, answer = "500 Internal Server Error", {"error": str(error)}
        content = json.dumps(answer).encode()
        start_response(
            status,
            [("Content-Type", "application/json"), ("Content-Length", str(len(content)))],
        )
        return [content]

    return routed


def _lab(services: Services, method: str, path: str, body: bytes) -> tuple[str, Any]:
    match [method, *(unquote(part) for part in path.strip("/").split("/")[1:])]:
        case ["GET", "health"]:
            return "200 OK", {"status": "ok", "region": services.region}
        case ["POST", "eks", name, "token-review"]:
            cluster = services.eks.clusters.get(name)
            if cluster is None:
                return "404 Not Found", {"error": f"no cluster {name}"}
            answer = review(json.loads(body), cluster, services.endpoint_url)
            if not answer["status"]["authenticated"]:
                LOG.warning("cluster %s refused a token: %s", name, answer["status"]["error"])
            return "200 OK", answer
        case ["PUT", "cloudformation", "responses", request_id]:
            deliver = services.custom_resources.get(request_id)
            if deliver is None:
                return "404 Not Found", {"error": f"nobody waits for {request_id}"}
            deliver(body)
            return "200 OK", {}
    return "404 Not Found", {"error": f"no such route: {method} {path}"}
