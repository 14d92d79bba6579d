"""The captured outputs under tests/unit/data: of which test each is, and what a parser makes of it.

A capture lies in `<tool>/<version>/<situation>.<ending>`. It is what the true program of that
version printed, output and error output together as in a pod's log, on the command line that the
situation's test gives (data/README.md). Files in a tool's folder itself are older captures.

`PYTHONPATH=functions python -m tests.unit.tools.captures` writes the table of docs/tools.md anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rackrate import tools
from rackrate.tools import ParseError, TestBase

DATA = Path(__file__).parents[1] / "data"
DOCUMENT = Path(__file__).parents[3] / "docs" / "tools.md"
BEGIN, END = "<!-- captures: begin -->", "<!-- captures: end -->"

#: By tool and situation: the test's fields, and a part of the reason if it is no measurement.
SITUATIONS: dict[str, dict[str, tuple[dict[str, Any], str | None]]] = {
    "iperf3": {
        "tcp-one-second": ({"seconds": 1}, None),
        "tcp-one-stream": ({"seconds": 2}, None),
        "tcp-four-streams": ({"seconds": 2, "streams": 4}, None),
        "tcp-reverse": ({"seconds": 2, "streams": 2, "reverse": True}, None),
        "tcp-bidirectional": ({"seconds": 2, "streams": 2, "bidirectional": True}, None),
        "tcp-omit": ({"seconds": 2, "omit_seconds": 1}, None),
        "tcp-limited": (
            {
                "seconds": 2,
                "streams": 2,
                "mss_bytes": 1000,
                "window_bytes": 131_072,
                "bits_per_second": 100_000_000,
            },
            None,
        ),
        "udp-one-stream": (
            {
                "protocol": "udp",
                "seconds": 2,
                "bits_per_second": 50_000_000,
                "length_bytes": 1400,
            },
            None,
        ),
        "udp-two-streams-reverse": (
            {
                "protocol": "udp",
                "seconds": 2,
                "streams": 2,
                "reverse": True,
                "bits_per_second": 50_000_000,
            },
            None,
        ),
        "udp-bidirectional": (
            {
                "protocol": "udp",
                "seconds": 2,
                "bidirectional": True,
                "bits_per_second": 50_000_000,
            },
            None,
        ),
        "udp-omit": (
            {"protocol": "udp", "seconds": 2, "omit_seconds": 1, "bits_per_second": 50_000_000},
            None,
        ),
        "udp-fragmented": (
            {
                "protocol": "udp",
                "seconds": 1,
                "bits_per_second": 50_000_000,
                "length_bytes": 8000,
            },
            None,
        ),
        "udp-more-than-fits": (
            {
                "protocol": "udp",
                "seconds": 2,
                "bits_per_second": 2_000_000_000,
                "length_bytes": 1400,
            },
            None,
        ),
        "server-busy": ({"seconds": 5}, "server is busy"),
        "interrupted": ({"seconds": 5}, "client has terminated"),
        "interrupted-reverse": ({"seconds": 5, "reverse": True}, "client has terminated"),
        "interrupted-udp": (
            {"protocol": "udp", "seconds": 5, "bits_per_second": 10_000_000},
            "client has terminated",
        ),
        "killed": ({"seconds": 5}, "printed nothing"),
        "server-died": ({"seconds": 5}, "control socket has closed"),
        "refused": ({"seconds": 5}, "Connection refused"),
        "unreachable": ({"seconds": 5}, "No route to host"),
        "no-route": ({"seconds": 5}, "Network is unreachable"),
        "wrong-option": ({"seconds": 5}, "unrecognized option|not JSON"),
    },
    "iperf": {
        "one-second": ({"seconds": 1}, None),
        "one-stream": ({"seconds": 2}, None),
        "two-streams": ({"seconds": 2, "streams": 2}, None),
        "thirty-two-streams": ({"seconds": 2, "streams": 32}, None),
        "interrupted": ({"seconds": 5, "streams": 2}, "ended after 2"),
        "interrupted-one-stream": ({"seconds": 5}, "ended after 2"),
        "killed": ({"seconds": 5, "streams": 2}, "truncated"),
        "server-died": ({"seconds": 5, "streams": 2}, "ended after 2"),
        "refused": ({"seconds": 5, "streams": 2}, "refused"),
        "unreachable": ({"seconds": 5}, "No route to host"),
        "no-route": ({"seconds": 5}, "unreachable"),
    },
    "ping": {
        "one-reply": ({"count": 1}, None),
        "ten-replies": ({"count": 10}, None),
        "some-lost": ({"count": 30, "interval_seconds": 0.05}, None),
        "duplicates": ({"count": 10}, None),
        "reordered": ({"count": 20, "interval_seconds": 0.005}, None),
        "slow": ({"count": 3}, None),
        "fragmented": ({"count": 3, "size_bytes": 8972}, None),
        "largest-unfragmented": ({"count": 5, "size_bytes": 1472, "dont_fragment": True}, None),
        "too-large": (
            {"count": 3, "size_bytes": 8972, "dont_fragment": True},
            "too long|Message too long",
        ),
        "no-reply": ({"count": 3}, "none of 3 packets"),
        "unreachable": (
            {"count": 4, "interval_seconds": 1.0},
            "none of 4 packets was answered: .*Destination Host Unreachable",
        ),
        "no-route": ({"count": 3}, "unreachable"),
        "unknown-host": ({"count": 3}, "Name or service not known|Temporary failure"),
        "interrupted": ({"count": 20}, "interrupted after [4-7] of 20"),
        "killed": ({"count": 20}, "truncated"),
        "wrong-option": ({"count": 10}, "invalid option"),
    },
    "sockperf": {
        "tcp-ping-pong": ({"seconds": 2, "messages_per_second": 200}, None),
        "udp-ping-pong": ({"seconds": 2, "messages_per_second": 200, "protocol": "udp"}, None),
        "tcp-under-load": (
            {
                "mode": "under-load",
                "seconds": 2,
                "messages_per_second": 5000,
                "reply_every": 20,
                "message_bytes": 200,
            },
            None,
        ),
        "udp-under-load": (
            {
                "mode": "under-load",
                "protocol": "udp",
                "seconds": 2,
                "messages_per_second": 5000,
                "reply_every": 20,
                "message_bytes": 1400,
            },
            None,
        ),
        "udp-some-lost": (
            {
                "mode": "under-load",
                "protocol": "udp",
                "seconds": 2,
                "messages_per_second": 500,
                "reply_every": 2,
            },
            None,
        ),
        "interrupted": ({"seconds": 5, "messages_per_second": 100}, "ended after"),
        "terminated": ({"seconds": 5, "messages_per_second": 100}, "truncated"),
        "killed": ({"seconds": 5, "messages_per_second": 100}, "truncated"),
        "server-died": (
            {"seconds": 5, "messages_per_second": 100},
            "A connection was forcibly closed",
        ),
        "refused": ({"seconds": 5, "messages_per_second": 100}, "Connection refused"),
        "udp-no-server": (
            {"seconds": 2, "messages_per_second": 200, "protocol": "udp"},
            "No messages were received",
        ),
        "unreachable": ({"seconds": 5, "messages_per_second": 100}, "No route to host"),
        "no-route": ({"seconds": 5, "messages_per_second": 100}, "unreachable"),
        "wrong-option": ({"seconds": 5, "messages_per_second": 100}, "no summary"),
    },
}
#: What is otherwise in some version, by tool and version and a pattern of the situation.
_NO_RECEIVER = "lacks end.sum_received"
OTHERWISE: dict[tuple[str, str], dict[str, str]] = {
    # iperf3 3.9 does not report what the receiver got by UDP or in the other direction,
    # and loses the cause of a failed connection.
    ("iperf3", "3.9"): {
        "udp-.*|tcp-bidirectional": _NO_RECEIVER,
        "refused|unreachable|no-route|server-busy": "unable to send control message",
    },
}
#: Other programs' words, which are refused whatever the situation: by version, part of the reason.
FOREIGN = {"busybox-1.35.0": "no summary", "busybox-1.37.0": "no summary"}


@dataclass(frozen=True)
class Capture:
    """A captured output.

    Attributes:
        tool, version, situation: where it lies, and thus what it is.
        test: the test it is the output of.
        reason: a pattern of the reason why it is no measurement; None when it is one.
        path: the file.
    """

    tool: str
    version: str
    situation: str
    test: TestBase
    reason: str | None
    path: Path

    @property
    def text(self) -> str:
        """What was printed."""
        return self.path.read_text(encoding="utf-8")

    @property
    def id(self) -> str:
        """Names it in a test's output."""
        return f"{self.tool}-{self.version}-{self.situation}"


def captures() -> Iterator[Capture]:
    """All captures.

    Raises:
        KeyError: there is a file of a situation that nothing is said of.
    """
    for path in sorted(DATA.glob("*/*/*")):
        tool, version, situation = path.parts[-3], path.parts[-2], path.stem
        fields, reason = SITUATIONS[tool][situation]
        test = tools.load_test({"name": "captured", "tool": tool, **fields})
        for pattern, otherwise in OTHERWISE.get((tool, version), {}).items():
            if re.fullmatch(pattern, situation):
                reason = otherwise
        yield Capture(tool, version, situation, test, FOREIGN.get(version, reason), path)


def table() -> str:
    """What the parsers make of all captures, in Markdown: a table for each tool."""
    outcomes: dict[str, dict[str, dict[str, str]]] = {}
    for capture in captures():
        outcomes.setdefault(capture.tool, {}).setdefault(capture.situation, {})[capture.version] = (
            _outcome(capture)
        )
    parts = []
    for tool, situations in outcomes.items():
        versions = sorted({version for found in situations.values() for version in found}, key=_age)
        parts += [
            "",
            f"### {tool}",
            "",
            f"| situation | {' | '.join(versions)} |",
            f"|---|{'---|' * len(versions)}",
        ]
        for situation in SITUATIONS[tool]:
            if found := situations.get(situation):
                cells = [found.get(version, "") for version in versions]
                parts.append(f"| {situation} | {' | '.join(cells)} |")
    return "\n".join([BEGIN, *parts, "", END])


def _outcome(capture: Capture) -> str:
    try:
        measurement = tools.parse(capture.test, capture.text)
    except ParseError as error:
        return f"refused: {str(error).replace('|', '/')[:160]}"
    primary = capture.test.primary
    value = measurement.values[primary.name]
    shown = f"{value / 1e6:.1f} Mbit/s" if primary.unit == "bit/s" else f"{value * 1e6:.1f} µs"
    return f"**{shown}**"


def _age(version: str) -> list[tuple[int, str]]:
    *name, number = version.split("-")
    words = [(0, word) for word in name]
    return [*words, *((int("".join(filter(str.isdigit, w)) or 0), w) for w in number.split("."))]


def renew(document: str) -> str:
    """The document with the table as it is now."""
    before, rest = document.split(BEGIN)
    _, after = rest.split(END)
    return before + table() + after


if __name__ == "__main__":
    DOCUMENT.write_text(renew(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
