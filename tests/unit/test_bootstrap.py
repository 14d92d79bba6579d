"""The bootstrap custom resource: idempotent, and it always answers CloudFormation."""

from __future__ import annotations

import http.server
import json
import threading

import pytest

from rackrate.errors import ClusterUnreachable
from rackrate.stages import bootstrapping
from tests.unit.fake_cluster import FakeCluster

NAMESPACE = "/api/v1/namespaces/bench"


def request(kind, **extra):
    return {
        "RequestType": kind,
        "StackId": "stack",
        "RequestId": "request",
        "LogicalResourceId": "ClusterBootstrap",
        "ResourceProperties": {"Namespace": "bench", "Group": "rackrate:runners"},
        **extra,
    }


def serve(kind, cluster, seconds=5.0):
    return bootstrapping.serve_request(request(kind), lambda: cluster, seconds)


@pytest.fixture
def empty():
    cluster = FakeCluster()
    cluster.nodes = []
    return cluster


def test_create_makes_everything_and_again_changes_nothing(empty):
    assert serve("Create", empty) == {"Namespace": "bench", "Group": "rackrate:runners"}
    before = set(empty.objects)
    assert len(before) == 5
    serve("Create", empty)
    assert set(empty.objects) == before


def test_update_corrects_what_somebody_changed(empty):
    serve("Create", empty)
    path = next(path for path in empty.objects if path.endswith("/roles/runner"))
    rules = empty.objects[path]["rules"]
    empty.objects[path] = {**empty.objects[path], "rules": []}
    serve("Update", empty)
    assert empty.objects[path]["rules"] == rules


def test_delete_removes_everything_and_again_is_fine(empty):
    serve("Create", empty)
    serve("Delete", empty)
    assert empty.objects == {}
    serve("Delete", empty)


def test_delete_succeeds_when_the_cluster_is_gone_already():
    assert serve("Delete", None)["Namespace"] == "bench"
    with pytest.raises(LookupError):
        serve("Create", None)


def test_a_new_access_entry_is_given_time(empty, monkeypatch):
    monkeypatch.setattr(bootstrapping, "_PAUSE_SECONDS", 0.01)
    tries = []

    def connect():
        tries.append(1)
        if len(tries) < 3:
            raise ClusterUnreachable("the cluster refuses this function")
        return empty

    bootstrapping.serve_request(request("Create"), connect, 5)
    assert len(tries) == 3 and NAMESPACE in empty.objects


def test_it_gives_up_in_time(monkeypatch):
    monkeypatch.setattr(bootstrapping, "_PAUSE_SECONDS", 0.01)

    def connect():
        raise ClusterUnreachable("no route")

    with pytest.raises(ClusterUnreachable, match="no route"):
        bootstrapping.serve_request(request("Create"), connect, 0.05)


def test_deleting_waits_for_the_namespace_but_not_for_ever(empty):
    serve("Create", empty)
    empty.delete = lambda path, foreground=False: None
    with pytest.raises(ClusterUnreachable, match="still being deleted"):
        bootstrapping.remove(empty, "bench", "rackrate:runners", seconds=0)


@pytest.fixture
def answers():
    """A listener in CloudFormation's place; gives its URL and what it was told."""
    told = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_PUT(self):
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *arguments):
            """Keeps the tests quiet."""

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/answer", told
    server.shutdown()
    server.server_close()
    thread.join()


class Context:
    """Lambda's context, as far as the handler asks."""

    function_name = "bootstrap"
    memory_limit_in_mb = 512
    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:bootstrap"
    aws_request_id = "id"

    def get_remaining_time_in_millis(self):
        return 31_000


def test_the_handler_answers_when_it_went_well(answers, empty, monkeypatch):
    from handlers import bootstrap

    monkeypatch.setattr(bootstrap, "_connect", lambda: empty)
    url, told = answers
    bootstrap.handler(request("Create", ResponseURL=url), Context())
    assert told[0]["Status"] == "SUCCESS"
    assert told[0]["PhysicalResourceId"] == "bench"
    assert told[0]["Data"]["Group"] == "rackrate:runners"
    assert (told[0]["RequestId"], told[0]["StackId"]) == ("request", "stack")


def test_the_handler_answers_when_it_went_wrong(answers, monkeypatch):
    from handlers import bootstrap

    def connect():
        raise RuntimeError("a bug")

    monkeypatch.setattr(bootstrap, "_connect", connect)
    url, told = answers
    deletion = request("Delete", ResponseURL=url, PhysicalResourceId="old")
    bootstrap.handler(deletion, Context())
    assert told[0]["Status"] == "FAILED"
    assert told[0]["Reason"] == "RuntimeError: a bug"
    assert told[0]["PhysicalResourceId"] == "old"
