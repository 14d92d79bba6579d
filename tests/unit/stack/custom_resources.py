"""Helpers for tests of custom resources: requests of CloudFormation, a listener, a context."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading

STACK_ID = "arn:aws:cloudformation:us-east-1:123456789012:stack/bench/1"


def request(kind, properties, **extra):
    """A request as CloudFormation sends it."""
    return {
        "RequestType": kind,
        "StackId": STACK_ID,
        "RequestId": "request",
        "LogicalResourceId": "Thing",
        "ResourceProperties": properties,
        **extra,
    }


@contextlib.contextmanager
def listener(status=200):
    """Listen in place of CloudFormation. Yields the URL and the received bodies."""
    responses: list[bytes] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_PUT(self):
            responses.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *arguments):
            """Log nothing."""

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/answer", responses
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def only(responses):
    """The only answer that was sent."""
    (body,) = responses
    return json.loads(body)


class Context:
    """The part of Lambda's context that handlers and their logger use."""

    function_name, memory_limit_in_mb, aws_request_id = "function", 512, "id"
    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:function"

    def __init__(self, seconds=60.0):
        self.seconds = seconds

    def get_remaining_time_in_millis(self):
        return int(self.seconds * 1000)
