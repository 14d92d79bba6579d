"""The cluster's API over real TLS: the token, the answers, the errors, the watch."""

from __future__ import annotations

import base64
import datetime
import http.server
import ipaddress
import itertools
import json
import re
import ssl
import threading
import time
import tracemalloc
import urllib.parse
from pathlib import Path

import boto3
import certifi
import pytest
import urllib3
from botocore.exceptions import ClientError, NoCredentialsError
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rackrate.errors import AdmissionRefused, ClusterUnreachable, Throttled
from rackrate.measure import cluster as clusters
from rackrate.measure.cluster import ApiError, Cluster, SlowLog, eks_token

PODS = "/api/v1/namespaces/bench/pods"


class Api(http.server.BaseHTTPRequestHandler):
    """A handler that answers from `answers`: (status, body[, headers]) by method and path."""

    protocol_version = "HTTP/1.1"
    answers: dict
    requests: list

    def _answer(self):
        path, _, query = self.path.partition("?")
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length)) if length else None
        self.requests.append(
            {
                "method": self.command,
                "path": path,
                "query": dict(urllib.parse.parse_qsl(query)),
                "body": body,
                "type": self.headers["Content-Type"],
                "token": self.headers["Authorization"],
            }
        )
        answer = self.answers[self.command, path]
        status, content, *headers = answer.pop(0) if isinstance(answer, list) else answer
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in dict(*headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer

    def log_message(self, *arguments):
        """Log nothing."""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for 127.0.0.1 that is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test cluster")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False
        )
        .add_extension(
            x509.KeyUsage(True, False, False, False, False, True, True, False, False),
            critical=True,
        )
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    path.write_bytes(
        signed.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path, signed.public_bytes(serialization.Encoding.PEM)


@pytest.fixture
def api(certificate):
    handler = type("Handler", (Api,), {"answers": {}, "requests": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate[0])
    # Do the handshake in each connection's own thread, because clients may abort it.
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    handler.url = f"https://127.0.0.1:{server.server_address[1]}"
    yield handler
    server.shutdown()
    server.server_close()
    thread.join()


REAL = boto3.Session("AKID", "secret", region_name="eu-west-1")


class Session:
    """A boto3 session whose EKS has one cluster."""

    def __init__(self, endpoint, authority):
        self._real = REAL
        self.region_name, self.events = self._real.region_name, self._real.events
        self.get_credentials = self._real.get_credentials
        self.description = {
            "endpoint": endpoint,
            "certificateAuthority": {"data": base64.b64encode(authority).decode()},
            "version": "1.36",
            "status": "ACTIVE",
        }

    def client(self, service):
        return self if service == "eks" else self._real.client(service)

    def describe_cluster(self, *, name):
        return {"cluster": self.description}


@pytest.fixture
def cluster(api, certificate):
    return Cluster("house", Session(api.url, certificate[1]))


@pytest.mark.parametrize(
    ("network", "is_ipv6"),
    [({}, False), ({"ipFamily": "ipv4"}, False), ({"ipFamily": "ipv6"}, True)],
)
def test_a_cluster_knows_whether_its_pods_have_ipv6_addresses(api, certificate, network, is_ipv6):
    session = Session(api.url, certificate[1])
    session.description["kubernetesNetworkConfig"] = network
    assert Cluster("house", session).is_ipv6 is is_ipv6


def test_the_token_is_a_presigned_regional_call_that_names_the_cluster():
    token = eks_token(REAL, "house")
    prefix, _, encoded = token.rpartition(".")
    assert prefix == "k8s-aws-v1"
    assert "=" not in encoded
    url = urllib.parse.urlsplit(base64.urlsafe_b64decode(encoded + "==").decode())
    query = dict(urllib.parse.parse_qsl(url.query))
    assert url.netloc == "sts.eu-west-1.amazonaws.com"
    assert query["Action"] == "GetCallerIdentity"
    assert query["X-Amz-Expires"] == "60"
    assert "x-k8s-aws-id" in query["X-Amz-SignedHeaders"].split(";")
    assert query["X-Amz-Credential"].split("/")[2:] == ["eu-west-1", "sts", "aws4_request"]


def test_every_request_carries_the_token_which_is_made_once(api, cluster):
    api.answers["GET", "/api/v1/nodes"] = (200, {"items": [{"kind": "Node"}]})
    assert cluster.list("/api/v1/nodes", "a=b") == [{"kind": "Node"}]
    cluster.list("/api/v1/nodes")
    tokens = {request["token"] for request in api.requests}
    assert len(tokens) == 1 and tokens.pop().startswith("Bearer k8s-aws-v1.")
    assert api.requests[0]["query"] == {"labelSelector": "a=b"}


def test_a_token_that_expired_early_is_replaced_once(api, cluster):
    refused, pods = status(401, "Unauthorized"), (200, {"items": []})
    api.answers["GET", PODS] = [pods, refused, pods, refused, refused]
    assert cluster.list(PODS) == []
    assert cluster.list(PODS) == []
    with pytest.raises(ClusterUnreachable, match="access entry"):
        cluster.list(PODS)
    assert len(api.requests) == 5


def test_another_authority_is_not_trusted(api):
    strangers = Session(api.url, Path(certifi.where()).read_bytes())
    with pytest.raises(ClusterUnreachable, match="certificate"):
        Cluster("house", strangers).list("/api/v1/nodes")


def status(code, message):
    return code, {"kind": "Status", "message": message}


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (status(401, "Unauthorized"), ClusterUnreachable, "access entry"),
        (status(403, "pods is forbidden"), ClusterUnreachable, "pods is forbidden"),
        (status(429, "slow down"), Throttled, "slow down"),
        (status(500, "etcd"), ClusterUnreachable, "etcd"),
        ((503, b"no JSON"), ClusterUnreachable, "HTTP 503"),
    ],
)
def test_errors_are_ours(api, cluster, answer, error, words):
    api.answers["GET", PODS] = answer
    with pytest.raises(error, match=words):
        cluster.list(PODS)


def busy(seconds):
    """What API Priority and Fairness answers to a request that finds its queue full."""
    return (*status(429, "too many requests"), {"Retry-After": str(seconds)})


def test_a_request_that_the_api_puts_off_is_sent_again_when_it_says(api, cluster):
    pod = {"kind": "Pod", "metadata": {"name": "one"}}
    api.answers["POST", PODS] = [busy(1), (201, pod)]
    began = time.monotonic()
    assert cluster.create(PODS, pod) == pod
    assert time.monotonic() - began >= 1


def test_an_api_that_puts_requests_off_again_and_again_throttles(api, cluster, monkeypatch):
    monkeypatch.setattr(urllib3.Retry, "sleep_for_retry", lambda *_: True)
    api.answers["GET", PODS] = busy(1)
    with pytest.raises(Throttled, match="too many requests"):
        cluster.list(PODS)
    assert len(api.requests) > 2


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((200, {"kind": "DaemonSet"}), {"kind": "DaemonSet"}),
        (status(404, "not found"), None),
        (status(403, "a stack whose roles are older"), None),
    ],
)
def test_what_is_only_good_to_know_may_be_hidden(api, cluster, answer, expected):
    api.answers["GET", f"{PODS}/one"] = answer
    assert cluster.peek(f"{PODS}/one") == expected


@pytest.mark.parametrize(
    ("answer", "error"), [(status(401, "no"), ClusterUnreachable), (status(429, "no"), Throttled)]
)
def test_trouble_is_trouble_also_for_what_is_only_good_to_know(api, cluster, answer, error):
    api.answers["GET", f"{PODS}/one"] = answer
    with pytest.raises(error):
        cluster.peek(f"{PODS}/one")


def test_a_cluster_that_does_not_listen_is_unreachable(certificate):
    nobody = Cluster("house", Session("https://127.0.0.1:9", certificate[1]))
    with pytest.raises(ClusterUnreachable, match="does not answer"):
        nobody.list(PODS)


@pytest.mark.parametrize(
    "former", ["its address is gone", "another authority signs", "it knows no role"]
)
def test_a_cluster_that_was_recreated_under_its_name_is_reached_by_the_next_call(
    api, certificate, former
):
    """A function's process lives on, and kept the endpoint and the authority of the old one."""
    new = Session(api.url, certificate[1])
    old = Session(api.url, certificate[1])
    if former == "its address is gone":
        old.description["endpoint"] = "https://127.0.0.1:9"
    elif former == "another authority signs":
        authority = base64.b64encode(Path(certifi.where()).read_bytes()).decode()
        old.description["certificateAuthority"] = {"data": authority}
    else:
        old.description["endpoint"] += "/old"
    api.answers["GET", f"/old{PODS}"] = status(401, "Unauthorized")
    api.answers["GET", PODS] = (200, {"items": []})
    cluster = Cluster("house", old)
    with pytest.raises(ClusterUnreachable):
        cluster.list(PODS)
    old.description = new.description | {"version": "1.37"}
    assert cluster.list(PODS) == []
    assert cluster.version == "1.37"


def test_a_cluster_is_described_again_only_after_it_could_not_be_reached(api, cluster):
    cluster._session.describe_cluster = None
    api.answers["GET", PODS] = [(200, {"items": []}), status(500, "broken"), (200, {"items": []})]
    cluster.list(PODS)
    with pytest.raises(ClusterUnreachable):
        cluster.list(PODS)
    cluster.list(PODS)


def test_a_cluster_that_is_being_created_is_unreachable(certificate):
    session = Session("", certificate[1])
    session.description["status"] = "CREATING"
    with pytest.raises(ClusterUnreachable, match="CREATING"):
        Cluster("house", session)


def refusal(code):
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "DescribeCluster")


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (refusal("ThrottlingException"), Throttled),
        (refusal("AccessDeniedException"), ClusterUnreachable),
        (NoCredentialsError(), ClusterUnreachable),
    ],
)
def test_a_cluster_that_eks_does_not_describe_is_unreachable(certificate, raised, error):
    session = Session("https://127.0.0.1:9", certificate[1])

    def describe_cluster(*, name):
        raise raised

    session.describe_cluster = describe_cluster
    with pytest.raises(error):
        Cluster("house", session)


@pytest.mark.parametrize("code", [400, 409, 422])
def test_a_request_that_is_wrong_is_no_trouble_of_the_cluster_and_not_tried_again(
    api, cluster, code
):
    api.answers["GET", PODS] = status(code, "the selector is wrong")
    with pytest.raises(ApiError, match="the selector is wrong"):
        cluster.list(PODS)


def test_what_exists_but_cannot_be_read_is_being_deleted_and_tried_again(api, cluster):
    api.answers["POST", PODS] = status(409, "already exists")
    api.answers["GET", f"{PODS}/p"] = status(404, "not found")
    with pytest.raises(ClusterUnreachable, match=r"Pod p .* being deleted"):
        cluster.create(PODS, {"kind": "Pod", "metadata": {"name": "p"}})


def test_labels_are_added_by_a_merge_and_a_missing_object_is_no_error(api, cluster):
    api.answers["PATCH", "/api/v1/nodes/a"] = (200, {})
    cluster.label("/api/v1/nodes/a", {"x": "1"})
    assert api.requests[-1]["body"] == {"metadata": {"labels": {"x": "1"}}}
    assert api.requests[-1]["type"] == "application/merge-patch+json"
    api.answers["PATCH", "/api/v1/nodes/b"] = (404, {"message": "not found"})
    cluster.label("/api/v1/nodes/b", {"x": "1"})


def test_what_is_replaced_is_sent_whole(api, cluster):
    api.answers["PUT", f"{PODS}/p"] = (200, {})
    cluster.replace(f"{PODS}/p", {"metadata": {"name": "p", "labels": {"a": "1"}}})
    assert api.requests[-1]["body"] == {"metadata": {"name": "p", "labels": {"a": "1"}}}


@pytest.mark.parametrize(
    ("code", "body", "error"),
    [
        (403, 'pods "p" is forbidden: exceeded quota: few, used: pods=4', AdmissionRefused),
        (403, 'admission webhook "w" denied the request: no', AdmissionRefused),
        (409, 'admission webhook "w" denied the request: no', AdmissionRefused),
        (422, 'Pod "p" is invalid: spec.containers[0].image: Required value', AdmissionRefused),
        (403, 'pods is forbidden: User "arn" cannot create resource "pods"', ClusterUnreachable),
        (
            403,
            'pods "p" is forbidden: unable to create new content in namespace bench because it is'
            " being terminated",
            ClusterUnreachable,
        ),
        (500, 'failed calling webhook "w": context deadline exceeded', ClusterUnreachable),
    ],
)
def test_an_object_that_is_refused_is_told_from_a_function_that_is_refused(
    api, cluster, code, body, error
):
    api.answers["POST", PODS] = status(code, body)
    with pytest.raises(error, match=re.escape(body)):
        cluster.create(PODS, {"metadata": {"name": "p"}, "kind": "Pod"})


@pytest.mark.parametrize(
    ("code", "body", "lost"),
    [
        (401, "Unauthorized", False),
        (403, 'pods is forbidden: User "arn" cannot create resource "pods"', True),
        (403, 'pods "p" is forbidden: because it is being terminated', True),
        (404, 'namespaces "bench" not found', True),
        (500, "etcdserver: request timed out", False),
    ],
)
def test_only_a_namespace_or_rights_that_are_gone_can_be_made_again(api, cluster, code, body, lost):
    api.answers["POST", PODS] = status(code, body)
    with pytest.raises(ClusterUnreachable) as caught:
        cluster.create(PODS, {"metadata": {"name": "p"}, "kind": "Pod"})
    assert caught.value.access_lost is lost


def test_creating_what_exists_gives_what_is_there(api, cluster):
    api.answers["POST", PODS] = status(409, "already exists")
    api.answers["GET", f"{PODS}/p"] = (200, {"metadata": {"uid": "old"}})
    assert cluster.create(PODS, {"kind": "Pod", "metadata": {"name": "p"}}) == {
        "metadata": {"uid": "old"}
    }


def test_deleting_what_is_gone_is_fine_and_policies_are_passed_on(api, cluster):
    api.answers["DELETE", f"{PODS}/p"] = status(404, "not found")
    cluster.delete(f"{PODS}/p", foreground=True)
    assert api.requests[-1]["body"] == {"propagationPolicy": "Foreground"}
    api.answers["DELETE", PODS] = (200, {"items": []})
    cluster.delete_all(PODS, "run=1")
    assert api.requests[-1]["query"] == {"labelSelector": "run=1"}


def test_what_is_missing_is_none(api, cluster):
    api.answers["GET", f"{PODS}/p"] = status(404, "not found")
    assert cluster.get(f"{PODS}/p") is None


def test_a_log_comes_exactly_as_printed(api, cluster):
    printed = '{\n\t"a":\t"\u00e9"}\n'
    api.answers["GET", f"{PODS}/p/log"] = (200, printed.encode())
    assert cluster.log("bench", "p", "tcp-1", 100) == (printed, True)
    assert api.requests[-1]["query"] == {"container": "tcp-1", "limitBytes": "101"}


@pytest.mark.parametrize(("most", "whole"), [(9, False), (10, True), (11, True)])
def test_of_a_log_no_more_is_read_than_asked_and_a_cut_one_is_no_whole_one(
    api, cluster, most, whole
):
    api.answers["GET", f"{PODS}/p/log"] = (200, b"0123456789")
    assert cluster.log("bench", "p", "tcp-1", most) == ("0123456789"[:most], whole)
    assert api.requests[-1]["query"] == {"container": "tcp-1", "limitBytes": str(most + 1)}


def test_a_node_that_serves_more_of_a_log_than_asked_is_cut_off(api, cluster):
    api.answers["GET", f"{PODS}/p/log"] = (200, b"x" * 50_000_000)
    tracemalloc.start()
    try:
        log = cluster.log("bench", "p", "tcp-1", 1_000_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (len(log.text), log.is_whole) == (1_000_000, False)
    assert peak < 10_000_000


@pytest.fixture
def stalled(api, monkeypatch):
    """A node that stops in the middle of a log."""
    ended = threading.Event()

    def stall(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b"x" * 10)
        handler.close_connection = True
        ended.wait()

    monkeypatch.setattr(api, "do_GET", stall)
    yield
    ended.set()


def test_a_log_that_stops_in_its_middle_is_slow_and_has_no_last_lines(
    stalled, cluster, monkeypatch
):
    with pytest.raises(SlowLog, match=r"10 bytes"):
        cluster.log("bench", "p", "tcp-1", 1000, seconds=0.2)
    monkeypatch.setattr(clusters, "_LOG_SECONDS", 0.2)
    assert cluster.last_lines("bench", "p", "tcp-1", 7) == ""


def test_a_log_that_comes_in_small_parts_ends_at_its_time(api, cluster, monkeypatch):
    api.answers["GET", f"{PODS}/p/log"] = (200, b"x" * 1_000_000)
    clock = itertools.count(step=3.0)
    monkeypatch.setattr(clusters.time, "monotonic", lambda: next(clock))
    with pytest.raises(SlowLog):
        cluster.log("bench", "p", "tcp-1", 1_000_000, seconds=10)
    assert cluster.log("bench", "p", "tcp-1", 1_000_000, seconds=1000).is_whole


@pytest.mark.parametrize("code", [400, 404])
def test_a_log_that_cannot_be_read_any_more_is_none(api, cluster, code):
    api.answers["GET", f"{PODS}/p/log"] = status(code, "container is waiting to start")
    assert cluster.log("bench", "p", "tcp-1", 100) is None


def test_the_last_lines_come_with_their_times_if_wanted(api, cluster):
    api.answers["GET", f"{PODS}/p/log"] = (200, b"2026-11-25T12:00:01Z 1.00 2\n")
    lines = cluster.last_lines("bench", "p", "etcd-cpu", 7, timestamps=True)
    assert lines == "2026-11-25T12:00:01Z 1.00 2\n"
    query = api.requests[-1]["query"]
    assert (query["container"], query["tailLines"]) == ("etcd-cpu", "7")
    assert query["timestamps"] == "true"
    cluster.last_lines("bench", "p", "etcd", 7)
    assert "timestamps" not in api.requests[-1]["query"]


def pod(name, phase):
    return {"metadata": {"name": name}, "status": {"phase": phase}}


def listed(*pods):
    return 200, {"metadata": {"resourceVersion": "7"}, "items": list(pods)}


def events(*entries):
    lines = [json.dumps({"type": kind, "object": thing}) for kind, thing in entries]
    return 200, ("\n".join(lines) + "\n").encode()


def is_done(pod):
    return pod["status"]["phase"] == "Succeeded"


def all_done(pods):
    return all(pods.values())


def test_a_watch_ends_as_soon_as_the_condition_is_met(api, cluster):
    api.answers["GET", PODS] = [
        listed(pod("a", "Running"), pod("b", "Running")),
        events(("MODIFIED", pod("a", "Succeeded")), ("DELETED", pod("b", "Running"))),
    ]
    pods, met = cluster.watch(PODS, "run=1", is_done, all_done, seconds=5)
    assert met and set(pods) == {"a"}
    assert api.requests[-1]["query"]["resourceVersion"] == "7"


def test_a_watch_reads_an_object_once_for_each_of_its_changes(api, cluster):
    names = [f"p{number}" for number in range(300)]
    looked = []
    api.answers["GET", PODS] = [
        listed(*(pod(name, "Running") for name in names)),
        events(*(("MODIFIED", pod(name, "Succeeded")) for name in names)),
    ]

    def look(seen):
        looked.append(seen)
        return is_done(seen)

    assert cluster.watch(PODS, "run=1", look, all_done, seconds=5)[1]
    assert len(looked) == 2 * len(names)


def test_a_watch_that_is_too_old_starts_again(api, cluster):
    expired = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    api.answers["GET", PODS] = [
        listed(pod("a", "Running")),
        events(("ERROR", expired)),
        listed(pod("a", "Succeeded")),
    ]
    assert cluster.watch(PODS, "run=1", is_done, all_done, seconds=5)[1]


@pytest.mark.parametrize("code", [{"code": 403}, {}])
def test_a_watch_that_the_cluster_refuses_is_no_end_of_the_watch(api, cluster, code):
    refused = {"kind": "Status", **code, "reason": "Forbidden", "message": "no watching"}
    api.answers["GET", PODS] = [listed(pod("a", "Running")), events(("ERROR", refused))]
    with pytest.raises(ClusterUnreachable, match="no watching"):
        cluster.watch(PODS, "run=1", is_done, all_done, seconds=5)


def test_a_watch_that_runs_out_of_time_says_what_it_saw(api, cluster):
    api.answers["GET", PODS] = listed(pod("a", "Running"))
    pods, met = cluster.watch(PODS, "run=1", is_done, all_done, seconds=0)
    assert not met and set(pods) == {"a"}
