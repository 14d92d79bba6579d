"""The emulated Region: one WSGI application that serves all given sockets."""

from __future__ import annotations

import io
import json
import logging
import socket
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

from flask import Flask
from moto.core.config import default_user_config
from moto.core.responses import BaseResponse
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

from lab.aws import free_tier, moto_patches, price_list, server_memory
from lab.aws.account import ACCOUNT_ID, REGION
from lab.aws.api_errors import ApiError
from lab.aws.authorization.authorizer import Authorizer
from lab.aws.awslambda.archives import Archives
from lab.aws.awslambda.runtime import LambdaRuntime
from lab.aws.clients import ClientFactory
from lab.aws.cloudformation.api import CloudFormationResponse
from lab.aws.cloudformation.change_sets import ChangeSets
from lab.aws.cloudformation.engine import Engine
from lab.aws.cloudformation.resources import resource_types
from lab.aws.cloudformation.resources.custom_resources import (
    CustomResource,
    CustomResourceResponses,
)
from lab.aws.cloudformation.resources.instances import PlainInstance
from lab.aws.cloudformation.stacks import Stacks
from lab.aws.codebuild.api import CodeBuildResponse
from lab.aws.codebuild.builds import CodeBuild
from lab.aws.ec2.capacity import Capacity
from lab.aws.eks.api import EksResponse
from lab.aws.eks.clusters import Clusters
from lab.aws.eks.control_planes import ControlPlanes
from lab.aws.eks.infrastructure import Infrastructure
from lab.aws.eks.karpenter import Karpenter
from lab.aws.eks.node_groups import NodeGroups
from lab.aws.eks.token_review import review
from lab.aws.event_bridge import EventRouter
from lab.aws.iam.identity import ADMIN_CREDENTIALS, create_admin, trusts
from lab.aws.request_log import Application, RequestLog, StartResponse
from lab.aws.scheduler.schedules import Schedules
from lab.errors import LabError
from lab.faults import functions as function_faults
from lab.faults.apis import ApiFaults
from lab.faults.leases import Injector, Leases, Order

LOG = logging.getLogger(__name__)

# Services whose backends are loaded at the start, in a thread, so that no request waits.
_PRELOADED = ("sts", "s3", "iam", "ec2", "logs", "dynamodb", "lambda", "stepfunctions", "events")


class Region:
    """A running Region. `endpoint_url` serves all its AWS APIs."""

    def __init__(self, endpoint_url: str, stops: Sequence[Callable[[], None]]) -> None:
        """`stops` end its parts, in this order."""
        self.endpoint_url = endpoint_url
        self.access_key_id = ADMIN_CREDENTIALS.access_key_id
        self.secret_access_key = ADMIN_CREDENTIALS.secret_access_key
        self._stops = stops

    def stop(self) -> None:
        """Stop answering requests and end every worker. The machine stops its clusters itself."""
        for stop in self._stops:
            stop()


def serve(
    *,
    listeners: Sequence[socket.socket],
    endpoint_url: str,
    state_directory: Path,
    infrastructure: Infrastructure,
    injectors: Mapping[str, Injector] = MappingProxyType({}),
    unpacked: Path | None = None,
) -> Region:
    """Serve the Region on sockets that are bound and listening. Starts threads, returns at once.

    `endpoint_url` is how functions and clusters reach one of the listeners. `injectors` has the
    faults of the machine, beside those of APIs and functions. `unpacked` is where the archives of
    functions are unpacked, if Regions share it.
    """
    state_directory.mkdir(parents=True, exist_ok=True)
    aws = _EmulatedAws(endpoint_url, state_directory, infrastructure, unpacked)
    log = RequestLog(state_directory / "requests.log")
    authorizer = aws.authorizer
    api_faults = ApiFaults(
        lambda key: session[0] if (session := authorizer.session(key)) else None,
        lambda role: trusts(role, "lambda.amazonaws.com", {"aws:sourceaccount": [ACCOUNT_ID]}),
    )
    faults = Leases(
        {
            **api_faults.injectors,
            **function_faults.injectors(aws.runtime),
            **aws.router.injectors,
            **aws.capacity.injectors,
            **injectors,
        }
    )
    application = log.around(_lab_routes(aws, endpoint_url, faults, api_faults))
    servers = [_serve_socket(listener, application) for listener in listeners]
    threading.Thread(
        target=_preload, args=(aws.dispatcher,), name="aws-preload", daemon=True
    ).start()
    return Region(
        endpoint_url,
        (
            *(faults.stop, aws.router.stop, Schedules(endpoint_url).stop, aws.runtime.stop),
            *(stop for server in servers for stop in (server.shutdown, server.server_close)),
            *(log.close, authorizer.close),
        ),
    )


class _EmulatedAws:
    """AWS's APIs, which the dispatcher serves, and the parts that others need of them."""

    def __init__(
        self,
        endpoint_url: str,
        state_directory: Path,
        infrastructure: Infrastructure,
        unpacked: Path | None,
    ) -> None:
        """Set moto up with the lab's patches and the lab's own services."""
        _configure_moto()
        self._infrastructure = infrastructure
        self._clients = ClientFactory(endpoint_url, ADMIN_CREDENTIALS)
        self._stacks = Stacks()
        self.clusters = clusters = Clusters()
        self.authorizer = Authorizer(
            state_directory,
            path_of_role=self._stacks.path_of_role,
            node_group=lambda cluster, name: clusters.node_group(cluster, name).description,
        )
        archives = Archives(state_directory / "lambda", unpacked)
        self.runtime = LambdaRuntime(
            state_directory=state_directory / "lambda",
            endpoint_url=endpoint_url,
            archives=archives,
            authorizer=self.authorizer,
        )
        self.router = EventRouter(self.runtime)
        self.capacity = Capacity()
        self._node_groups = NodeGroups(clusters, self._clients, infrastructure, self.capacity)
        moto_patches.apply(
            moto_patches.of_region(
                endpoint_url=endpoint_url,
                clusters=clusters,
                authorizer=self.authorizer,
                archives=archives,
                runtime=self.runtime,
                router=self.router,
                publish_image=infrastructure.publish_image,
                replace_nodes=self._node_groups.replace,
            )
        )
        self.responses = CustomResourceResponses(endpoint_url)
        self.karpenter = Karpenter(self._clients, infrastructure)
        apis = self._apis()
        self.dispatcher = DomainDispatcherApplication(lambda service: _create_app(service, apis))
        own_hosts = [(api.NAME, api.HOSTS) for api in (free_tier, price_list)]
        self.dispatcher.backend_url_patterns = [*own_hosts, *self.dispatcher.backend_url_patterns]

    def _apis(self) -> dict[str, Callable[[], BaseResponse]]:
        """The lab's own APIs, by moto's name; each entry makes the answerer of a request."""
        clients, clusters, stacks = self._clients, self.clusters, self._stacks
        others = (
            CustomResource(self.runtime, self.responses),
            PlainInstance(clusters, self._infrastructure, self._node_groups.releases),
        )
        engine = Engine(stacks, clients, lambda engine: resource_types(engine, stacks, *others))
        change_sets = ChangeSets(engine, stacks, clients)
        control_planes = ControlPlanes(clusters, clients, self._infrastructure)
        builds = CodeBuild(clients.endpoint_url)
        return {
            "cloudformation": lambda: CloudFormationResponse(
                engine=engine, stacks=stacks, change_sets=change_sets, clients=clients
            ),
            "codebuild": lambda: CodeBuildResponse(builds),
            "eks": lambda: EksResponse(
                clusters=clusters, control_planes=control_planes, node_groups=self._node_groups
            ),
            free_tier.NAME: free_tier.FreeTierResponse,
            price_list.NAME: price_list.PriceListResponse,
        }


def _configure_moto() -> None:
    server_memory.prepare()
    default_user_config["lambda"]["use_docker"] = False
    default_user_config["stepfunctions"]["execute_state_machine"] = True
    default_user_config["iam"]["load_aws_managed_policies"] = True
    server_memory.forget_other_regions()
    create_admin()


def _serve_socket(listener: socket.socket, application: Application) -> BaseWSGIServer:
    """Answer the requests of a listening socket in a thread."""
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
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.2}, name="aws", daemon=True
    ).start()
    return server


def _preload(dispatcher: DomainDispatcherApplication) -> None:
    for name in _PRELOADED:
        host = "dynamodb" if name == "dynamodb" else f"{name}.{REGION}.amazonaws.com"
        backend = dispatcher.get_backend_for_host(
            host.replace("stepfunctions", "states") if name == "stepfunctions" else host
        )
        with dispatcher.lock:
            if backend and backend not in dispatcher.app_instances:
                dispatcher.app_instances[backend] = dispatcher.create_app(backend)


def _create_app(service: Any, apis: Mapping[str, Callable[[], BaseResponse]]) -> Flask:
    """moto's application for a service, or the lab's own where the lab has one."""
    own = apis.get(service)
    if own is None:
        return create_backend_app(service)

    def dispatch(*request: Any) -> Any:
        return own()._dispatch(*request)

    app = Flask("lab")
    app.request_class = BackendRequest
    app.url_map.converters["regex"] = RegexConverter
    app.add_url_rule(
        '/<regex(".*"):path>',
        endpoint=service,
        methods=HTTP_METHODS,
        view_func=convert_to_flask_response(dispatch),
        strict_slashes=False,
    )
    return app


class _RequestHandler(MotoRequestHandler):
    """Keeps connections open. The application writes the log, so this logs errors only.

    werkzeug closes each connection, because an application may leave a part of a request unread. So
    this reads a request whole before the application gets it.
    """

    protocol_version = "HTTP/1.1"
    # Head and body leave together, and at once. The kernel would hold the body until the client
    # confirms the head, which takes a client 40 ms.
    wbufsize = -1
    disable_nagle_algorithm = True
    _is_whole = False

    def run_wsgi(self) -> None:
        connection = self.rfile
        self._is_whole = "Transfer-Encoding" not in self.headers
        if self._is_whole:
            if self.headers.get("Expect", "").strip().lower() == "100-continue":
                self.send_response_only(HTTPStatus.CONTINUE)
                self.end_headers()
                self.wfile.flush()
                del self.headers["Expect"]
            length = int(self.headers.get("Content-Length") or 0)
            self.rfile = io.BufferedReader(io.BytesIO(connection.read(length)))
        try:
            super().run_wsgi()
        finally:
            self.rfile = connection

    def send_header(self, keyword: str, value: str) -> None:
        if not (self._is_whole and (keyword, value) == ("Connection", "close")):
            super().send_header(keyword, value)

    def log(self, type: str, message: str, *args: Any) -> None:
        if type == "error":
            LOG.warning(message, *args)


def _lab_routes(
    aws: _EmulatedAws, endpoint_url: str, faults: Leases, api_faults: ApiFaults
) -> Application:
    """An application that answers the lab's own routes and passes other requests to AWS's."""
    application = api_faults.around(aws.dispatcher)

    def respond(method: str, path: str, body: bytes) -> tuple[str, Any]:
        match [method, *(unquote(part) for part in path.strip("/").split("/")[1:])]:
            case ["POST", "eks", name, "token-review"]:
                verdict = review(json.loads(body), aws.clusters.find(name), endpoint_url)
                if api_faults.refuses_eks_token():
                    verdict["status"] = {"authenticated": False, "error": "token has expired"}
                if not verdict["status"]["authenticated"]:
                    LOG.warning("cluster %s refused a token: %s", name, verdict["status"]["error"])
                return "200 OK", verdict
            case ["PUT", "eks", name, "karpenter"]:
                return "200 OK", aws.karpenter.start(aws.clusters.find(name))
            case ["PUT", "cloudformation", "responses", request_id]:
                if not aws.responses.deliver(request_id, body):
                    return "404 Not Found", {"error": f"nobody waits for {request_id}"}
                return "200 OK", {}
            case ["POST", "faults"]:
                order = json.loads(body)
                seconds = order.pop("seconds")
                return "201 Created", {"id": faults.begin(Order(**order), seconds)}
            case ["GET", "faults"]:
                return "200 OK", {"faults": faults.active()}
            case ["PUT", "faults", key]:
                return "200 OK", {"hits": faults.renew(key)}
            case ["DELETE", "faults", key]:
                return "200 OK", {"hits": faults.end(key)}
        return "404 Not Found", {"error": f"no such route: {method} {path}"}

    def routed(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if not path.startswith("/_lab/"):
            return application(environ, start_response)
        length = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(length) if length else b""
        try:
            status, result = respond(environ["REQUEST_METHOD"], path, body)
        except ApiError as error:  # a cluster that is being deleted
            status, result = "404 Not Found", {"error": str(error)}
        except LabError as error:  # an order that cannot be
            status, result = "400 Bad Request", {"error": str(error)}
        except Exception as error:
            LOG.exception("%s", path)
            status, result = "500 Internal Server Error", {"error": str(error)}
        content = json.dumps(result).encode()
        start_response(
            status,
            [("Content-Type", "application/json"), ("Content-Length", str(len(content)))],
        )
        return [content]

    return routed
