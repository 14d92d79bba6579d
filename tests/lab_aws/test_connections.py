"""A connection to the Region serves one request after another, also after one that is refused."""

from __future__ import annotations

from http.client import HTTPConnection
from urllib.parse import urlsplit

from tests.lab_aws.region import Lab


def test_a_connection_stays_open_after_a_refused_request_and_a_body_that_nobody_read(
    lab: Lab,
) -> None:
    connection = HTTPConnection(urlsplit(lab.region.endpoint_url).netloc, timeout=10)
    sockets = set()
    for method, path, body in (
        ("POST", "/_lab/nothing", b"unread" * 1000),
        ("GET", "/no-such-bucket-of-the-tests/key", None),
        ("POST", "/_lab/nothing", b""),
    ):
        connection.request(method, path, body)
        answer = connection.getresponse()
        assert answer.status in (403, 404)
        answer.read()
        assert connection.sock is not None, "the Region closed the connection"
        sockets.add(connection.sock.fileno())
    assert len(sockets) == 1
    connection.close()
