"""A connection to the Region serves one request after another, also after one that is refused."""

from __future__ import annotations

import socket
from http.client import HTTPConnection
from urllib.parse import urlsplit

from lab.tests.aws.region import Lab
from tests.waiting import HUNG_SECONDS


def test_a_connection_stays_open_after_a_refused_request_and_a_body_that_nobody_read(
    lab: Lab,
) -> None:
    connection = HTTPConnection(urlsplit(lab.region.endpoint_url).netloc, timeout=HUNG_SECONDS)
    sockets = set()
    for method, path, body in (
        ("POST", "/_lab/nothing", b"unread" * 1000),
        ("GET", "/no-such-bucket-of-the-tests/key", None),
        ("POST", "/_lab/nothing", b""),
    ):
        connection.request(method, path, body)
        response = connection.getresponse()
        assert response.status in (403, 404)
        response.read()
        assert connection.sock is not None, "the Region closed the connection"
        sockets.add(connection.sock.fileno())
    assert len(sockets) == 1
    connection.close()


def test_the_head_and_the_body_of_an_answer_leave_together(lab: Lab) -> None:
    """Apart, each answer on an open connection would wait 40 ms for the client's confirmation."""
    place = urlsplit(lab.region.endpoint_url)
    with socket.create_connection((place.hostname, place.port), timeout=HUNG_SECONDS) as connection:
        for _ in range(2):
            connection.sendall(b"GET /no-such-bucket-of-the-tests/key HTTP/1.1\r\nHost: a\r\n\r\n")
            head, _, body = connection.recv(65536).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 404")
            assert body.endswith(b"</Error>")
