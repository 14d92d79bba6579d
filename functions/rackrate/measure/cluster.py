"""The Kubernetes API of an EKS cluster, reached with an EKS token."""

from __future__ import annotations

import base64
import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlencode

import urllib3
from botocore.exceptions import BotoCoreError, ClientError
from botocore.signers import RequestSigner

from rackrate import aws
from rackrate.errors import AdmissionRefused, ClusterUnreachable, Throttled, is_throttling
from rackrate_contract.document import Json

# As aws-cli's `eks get-token` (customizations/eks/get_token.py): a presigned call that is valid for
# 60 s as a URL. EKS accepts it as a token for 15 minutes, of which aws-cli uses 14.
_TOKEN_PREFIX = "k8s-aws-v1."
_URL_SECONDS = 60
_TOKEN_SECONDS = 10 * 60
_CONNECTIONS = 32
_CONNECT_SECONDS = 5
#: How often a connection is tried again, how often a request is sent again that the API put off,
#: and how long one waits for that at most.
_CONNECT_AGAIN, _PUT_OFF, _PUT_OFF_SECONDS = 2, 4, 5
#: How long the reading of one log may take at most, and the size of the parts in which it is read.
_LOG_SECONDS, _PART_BYTES = 30.0, 64 * 1024
#: The most bytes of a line at the end of a log that are read.
_LINE_BYTES = 500


class SlowLog(ClusterUnreachable):
    """A node sends a log so slowly that its reading was given up. The message says how slowly."""


class ApiError(Exception):
    """The API responded with an error. `status` is HTTP's, `message` the API's own."""

    def __init__(self, status: int, body: str | bytes) -> None:
        try:
            message = str(json.loads(body)["message"])
        except (TypeError, ValueError, KeyError):
            message = f"HTTP {status}"
        super().__init__(message)
        self.status, self.message = status, message


class Log(NamedTuple):
    """What a container printed, and whether that is all of it."""

    text: str
    is_whole: bool


def eks_token(session: Any, cluster_name: str) -> str:
    """A token for the Kubernetes API: a presigned regional STS GetCallerIdentity request.

    Args:
        session: a boto3 session with the caller's credentials and Region.
        cluster_name: the value of the signed header `x-k8s-aws-id`.
    """
    sts = session.client("sts")
    signer = RequestSigner(
        sts.meta.service_model.service_id,
        session.region_name,
        "sts",
        "v4",
        session.get_credentials(),
        session.events,
    )
    url = signer.generate_presigned_url(
        {
            "method": "GET",
            "url": f"{sts.meta.endpoint_url}/?Action=GetCallerIdentity&Version=2011-06-15",
            "body": {},
            "headers": {"x-k8s-aws-id": cluster_name},
            "context": {},
        },
        region_name=session.region_name,
        expires_in=_URL_SECONDS,
        operation_name="",
    )
    return _TOKEN_PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


class Cluster:
    """One cluster; methods return the API's own JSON.

    The code that reads the responses takes plain values, so it needs no cluster. The official
    client is not used: importing its typed models would take longer than many functions run.

    Raises, from every method:
        ClusterUnreachable: no response, a server error, or no access.
        Throttled: too many requests.
    """

    def __init__(self, name: str, session: Any = None) -> None:
        self.name = name
        self._session = session or aws.session()
        self._token, self._token_expires = "", 0.0
        with _translated(name):
            self._connect()

    def _connect(self) -> None:
        """Take the cluster's endpoint and authority from EKS.

        A function's process may live longer than a cluster, which can be recreated under its name.
        """
        description = self._session.client("eks").describe_cluster(name=self.name)["cluster"]
        if not description.get("endpoint"):
            raise ClusterUnreachable(f"the cluster {self.name} is {description['status']}")
        self._host = description["endpoint"].rstrip("/")
        # The API may put off any request, and says when to send it again (Kubernetes documentation,
        # "API Priority and Fairness"). It has not begun such a request, so POST may be sent again.
        retries = urllib3.Retry(
            total=_CONNECT_AGAIN + _PUT_OFF,
            connect=_CONNECT_AGAIN,
            read=0,
            redirect=0,
            status=_PUT_OFF,
            other=0,
            allowed_methods=None,
            status_forcelist=(),
            raise_on_status=False,
            backoff_factor=0.2,
            retry_after_max=_PUT_OFF_SECONDS,
        )
        self._pool = urllib3.PoolManager(
            maxsize=_CONNECTIONS,
            retries=retries,
            ca_cert_data=base64.b64decode(description["certificateAuthority"]["data"]).decode(),
        )
        self._token_expires = 0.0
        self._is_current = True
        self.version: str | None = description.get("version")
        #: Whether pods and Services have IPv6 addresses only.
        self.is_ipv6: bool = aws.is_ipv6(description)

    def _authorization(self) -> str:
        if time.monotonic() >= self._token_expires:
            self._token = eks_token(self._session, self.name)
            self._token_expires = time.monotonic() + _TOKEN_SECONDS
        return f"Bearer {self._token}"

    def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content: str = "application/json",
        read_seconds: float = 30,
        stream: bool = False,
    ) -> urllib3.BaseHTTPResponse:
        """Send a request, and read the body of its response unless it is to be streamed.

        If the API does not accept the token, it gets a new one once. If the API does not answer,
        the next request connects again.

        Raises:
            ApiError: the API responded with an error.
        """

        def send() -> urllib3.BaseHTTPResponse:
            response = self._pool.request(
                method,
                f"{self._host}{path}" + (f"?{urlencode(query)}" if query else ""),
                json=body,
                headers={
                    "Accept": "application/json",
                    "Content-Type": content,
                    "User-Agent": "rackrate",
                    "Authorization": self._authorization(),
                },
                preload_content=False,
                timeout=urllib3.Timeout(connect=_CONNECT_SECONDS, read=read_seconds),
            )
            if not 200 <= response.status < 300:
                raise ApiError(response.status, response.data)
            return response

        if not self._is_current:
            self._connect()
        try:
            response = send()
        except urllib3.exceptions.HTTPError:
            self._is_current = False
            raise
        except ApiError as error:
            if error.status != HTTPStatus.UNAUTHORIZED:
                raise
            self._connect()
            response = send()
        if not stream:
            response.read(cache_content=True)
        return response

    def list(self, path: str, labels: str = "") -> list[Json]:
        """The objects at a path, such as `/api/v1/nodes`, that match a label selector."""
        with _translated(self.name):
            response = json.loads(self._request("GET", path, query={"labelSelector": labels}).data)
        items: list[Json] = response["items"]
        return items

    def get(self, path: str) -> Json | None:
        """One object, or None when it does not exist."""
        with _translated(self.name, HTTPStatus.NOT_FOUND):
            manifest: Json = json.loads(self._request("GET", path).data)
            return manifest
        return None

    def peek(self, path: str) -> Json | None:
        """One object, or None when it does not exist or this function may not read it.

        Use it for optional information.
        """
        with _translated(self.name, HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
            manifest: Json = json.loads(self._request("GET", path).data)
            return manifest
        return None

    def create(self, path: str, manifest: Mapping[str, Any]) -> Json:
        """Create an object in the collection at a path, unless it exists already.

        Returns:
            The object as the cluster has it.

        Raises:
            AdmissionRefused: a quota, an admission webhook or policy, or the validation refuses it.
        """
        with _translated(self.name, HTTPStatus.CONFLICT):
            try:
                created: Json = json.loads(self._request("POST", path, body=dict(manifest)).data)
            except ApiError as error:
                if _is_refusal(error):
                    raise AdmissionRefused(error.message) from error
                raise
            return created
        existing = self.get(f"{path}/{manifest['metadata']['name']}")
        if existing is None:
            raise ClusterUnreachable(
                f"{manifest['kind']} {manifest['metadata']['name']} exists and does not; it is"
                " being deleted"
            )
        return existing

    def replace(self, path: str, manifest: Mapping[str, Any]) -> None:
        """Overwrite the object at a path."""
        with _translated(self.name):
            self._request("PUT", path, body=dict(manifest))

    def label(self, path: str, labels: Mapping[str, str]) -> None:
        """Add labels to the object at a path, unless it does not exist any more."""
        with _translated(self.name, HTTPStatus.NOT_FOUND):
            body = {"metadata": {"labels": dict(labels)}}
            self._request("PATCH", path, body=body, content="application/merge-patch+json")

    def delete(self, path: str, *, foreground: bool = False, at_once: bool = False) -> None:
        """Delete an object; it is no error when the object is missing.

        Args:
            path: the object.
            foreground: whether what it owns is deleted before it.
            at_once: whether a pod is deleted without waiting until its kubelet has ended it.
        """
        body: Json = {"propagationPolicy": "Foreground" if foreground else "Background"}
        if at_once:
            body["gracePeriodSeconds"] = 0
        with _translated(self.name, HTTPStatus.NOT_FOUND):
            self._request("DELETE", path, body=body)

    def delete_all(self, path: str, labels: str) -> None:
        """Delete the objects of a collection that match a label selector."""
        with _translated(self.name):
            self._request(
                "DELETE",
                path,
                query={"labelSelector": labels},
                body={"propagationPolicy": "Background"},
            )

    def log(
        self,
        namespace: str,
        pod: str,
        container: str,
        most_bytes: int,
        *,
        seconds: float = _LOG_SECONDS,
    ) -> Log | None:
        """The exact output of a container, or its beginning.

        A container may print without end, and its node serves the log, so this reads no more than
        `most_bytes`, whatever the node sends, and for as many seconds at most.

        Returns:
            None when the log does not exist (any more).

        Raises:
            SlowLog: the node began to send the log, and was too slow.
        """
        # A bad request is one for a container that has not started, or whose log is gone.
        with _translated(self.name, HTTPStatus.NOT_FOUND, HTTPStatus.BAD_REQUEST):
            query = {"container": container}
            data = self._beginning_of_log(namespace, pod, query, most_bytes + 1, seconds)
            text = data[:most_bytes].decode("utf-8", errors="replace")
            return Log(text, len(data) <= most_bytes)
        return None

    def last_lines(
        self, namespace: str, pod: str, container: str, lines: int, *, timestamps: bool = False
    ) -> str:
        """The end of a container's output; empty when it does not exist or cannot be read.

        Args:
            namespace: the pod's namespace.
            pod: the pod's name.
            container: the container's name.
            lines: how many lines to read at most.
            timestamps: whether each line begins with the time when it was printed.
        """
        query = {"container": container, "tailLines": str(lines)}
        if timestamps:
            query["timestamps"] = "true"
        with _translated(self.name), contextlib.suppress(ApiError, SlowLog):
            most_bytes = _LINE_BYTES * lines
            data = self._beginning_of_log(namespace, pod, query, most_bytes, _LOG_SECONDS)
            return data.decode("utf-8", errors="replace")
        return ""

    def _beginning_of_log(
        self, namespace: str, pod: str, query: Mapping[str, str], most_bytes: int, seconds: float
    ) -> bytes:
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
        query = {**query, "limitBytes": str(most_bytes)}
        response = self._request("GET", path, query=query, read_seconds=seconds, stream=True)
        # A connection with an unread rest cannot serve another request, and is closed.
        with contextlib.closing(response):
            return _beginning(response, most_bytes, seconds)

    def watch[T](
        self,
        path: str,
        labels: str,
        look: Callable[[Json], T],
        done: Callable[[Mapping[str, T]], bool],
        *,
        seconds: float,
    ) -> tuple[dict[str, Json], bool]:
        """Follow the objects of a collection until they satisfy a condition.

        Each of a thousand pods changes several times, and each change may be the last one that is
        waited for. So an object is read once for each of its changes, and the condition is asked
        about what was read.

        Args:
            path: the collection.
            labels: a label selector.
            look: what the condition needs to know of an object.
            done: the condition; its argument is what `look` returned, by the objects' names.
            seconds: how long to wait at most.

        Returns:
            The objects by name, and whether the condition was met.
        """
        deadline = time.monotonic() + seconds
        while True:
            with _translated(self.name):
                query = {"labelSelector": labels}
                response = json.loads(self._request("GET", path, query=query).data)
            objects = {item["metadata"]["name"]: item for item in response["items"]}
            seen = {name: look(item) for name, item in objects.items()}
            if done(seen):
                return objects, True
            left = deadline - time.monotonic()
            if left <= 0:
                return objects, False
            version = response["metadata"]["resourceVersion"]
            # When the version is too old for the API, the watch ends and we list again.
            with contextlib.suppress(_Expired):
                for event in self._events(path, labels, version, left):
                    name = event["object"]["metadata"].get("name")
                    if event["type"] == "BOOKMARK":
                        continue
                    if event["type"] == "DELETED":
                        objects.pop(name, None)
                        seen.pop(name, None)
                    else:
                        objects[name] = event["object"]
                        seen[name] = look(event["object"])
                    if done(seen):
                        return objects, True

    def _events(self, path: str, labels: str, version: str, seconds: float) -> Iterator[Json]:
        """The API's watch events; the API ends the stream after the requested time."""
        query = {
            "labelSelector": labels,
            "resourceVersion": version,
            "watch": "true",
            "timeoutSeconds": str(max(1, round(seconds))),
        }
        with _translated(self.name):
            try:
                response = self._request(
                    "GET", path, query=query, read_seconds=seconds + 5, stream=True
                )
                with contextlib.closing(response):
                    for line in response:
                        event: Json = json.loads(line)
                        if event["type"] == "ERROR":
                            problem = event["object"]
                            # A Status without a code is of the API itself.
                            code = problem.get("code", HTTPStatus.INTERNAL_SERVER_ERROR)
                            raise ApiError(code, json.dumps(problem))
                        yield event
            except ApiError as error:
                if error.status == HTTPStatus.GONE:
                    raise _Expired from error
                raise


def _beginning(response: urllib3.BaseHTTPResponse, most_bytes: int, seconds: float) -> bytes:
    """The first bytes of a response's body.

    Raises:
        SlowLog: the body did not end in time, or nothing came for as long.
    """
    until = time.monotonic() + seconds
    data = bytearray()
    try:
        while len(data) < most_bytes and time.monotonic() < until:
            part = response.read1(min(_PART_BYTES, most_bytes - len(data)))
            if not part:
                return bytes(data)
            data += part
    except urllib3.exceptions.ReadTimeoutError:
        pass
    if len(data) < most_bytes:
        raise SlowLog(f"its node sent {len(data)} bytes of the log in {seconds:.0f} s")
    return bytes(data)


class _Expired(Exception):
    """The API no longer has the version at which a watch started."""


@contextlib.contextmanager
def _translated(cluster: str, *fine: HTTPStatus) -> Iterator[None]:
    """Turn the libraries' exceptions into our errors. Some statuses of the API are fine."""
    try:
        yield
    except ApiError as error:
        reason = error.message
        if error.status in fine:
            return
        if error.status == 429:
            raise Throttled(f"the API of the cluster {cluster}: {reason}") from error
        if error.status in (401, 403) or _lacks_namespace(error):
            # With 401 EKS does not know the function's role: only its stack makes access entries.
            raise ClusterUnreachable(
                f"the cluster {cluster} refuses this function: {reason}. Check its access entry"
                " and the bootstrap's roles",
                access_lost=error.status != HTTPStatus.UNAUTHORIZED,
            ) from error
        if error.status >= 500:
            raise ClusterUnreachable(
                f"the API of the cluster {cluster} failed: {reason}"
            ) from error
        raise
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise ClusterUnreachable(
            f"the API of the cluster {cluster} does not answer: {error}"
        ) from error
    except ClientError as error:
        if is_throttling(error):
            raise Throttled(str(error)) from error
        raise ClusterUnreachable(f"the cluster {cluster}: {error}") from error
    except BotoCoreError as error:
        raise ClusterUnreachable(f"the cluster {cluster}: {error}") from error


def _is_refusal(error: ApiError) -> bool:
    """Whether the API refuses an object, and not the function that creates it.

    Both can have the status 403. Kubernetes' authorizer names the user in its message
    (k8s.io/apiserver, `responsewriters.Forbidden`), and admission does not. A webhook chooses the
    status itself. A namespace that is being deleted refuses everything, and may be recreated.
    """
    message = error.message
    if error.status in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY):
        return True
    if error.status == HTTPStatus.FORBIDDEN:
        return ': User "' not in message and "it is being terminated" not in message
    return error.status < 500 and "denied the request" in message


def _lacks_namespace(error: ApiError) -> bool:
    """Whether an object cannot be created because its namespace does not exist."""
    return error.status == HTTPStatus.NOT_FOUND and error.message.startswith("namespaces ")
