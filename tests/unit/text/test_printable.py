"""Text from outside is shown without what a terminal obeys, in time that grows with its length."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate_text.failures import explain
from rackrate_text.printable import printable

SHOWN = st.text("abc é0;:[]\\\n\t", max_size=8)
#: Sequences with their end, and introducers of strings that none follows.
ENDED = st.builds(
    lambda start, text, end: start + text + end,
    st.sampled_from(["\x1b]", "\x1bP", "\x9d", "\x90", "\x98", "\x9e", "\x9f"]),
    st.text("abc0;[]"),
    st.sampled_from(["\x07", "\x1b\\", "\x9c"]),
) | st.sampled_from(["\x1b[2J", "\x9b31m", "\x1bc", "\x00", "\u202e"])
WITHOUT_END = st.sampled_from(["\x1b]", "\x9d", "\x90", "\x98", "\x9e", "\x9f"]).map(
    lambda each: each * 3
)


@given(st.lists(st.tuples(st.booleans(), SHOWN) | st.tuples(st.none(), ENDED | WITHOUT_END)))
def test_sequences_disappear_and_the_text_between_them_stays(parts):
    text = "".join(part for _, part in parts)
    assert printable(text) == "".join(part for shown, part in parts if shown is not None)


@given(
    st.text(st.sampled_from("a\b\n\r\t\x07\x1b\x80\x90\x98\x9b\x9c\x9d\x9e\x9f[]\\P\udc80\u2066"))
)
def test_whatever_a_text_is_made_of_its_lines_can_be_shown_and_do_not_change_again(text):
    shown = printable(text)
    assert shown.replace("\n", "").replace("\t", "").isprintable()
    assert printable(shown) == shown


MANY = 300_000
CALL = "An error occurred (AccessDenied) when calling the GetItem operation: "
HOSTILE = {
    "strings of one byte": "\x9d" * MANY,
    "strings": "\x1b]" * MANY,
    "strings in turn": "\x90\x9b" * MANY,
    "an address": "[" + ":" * MANY,
    "keys": CALL + "key " * MANY,
    "roles": CALL + "role/a" * MANY,
    "a role": CALL + "role/" + "a" * MANY,
    "times": "Task timed out after " + "1." * MANY + " seconds",
    "ids": "0a" * MANY + "-",
    "spaces": " " * MANY,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_text_takes_more_than_linear_time(text):
    # A process of its own, because nothing else ends a regular expression. What counts is the time
    # of a processor, so that a busy machine makes no difference.
    code = "import json, resource, sys; resource.setrlimit(resource.RLIMIT_CPU, (10, 10));"
    code += "sys.path = json.loads(sys.argv[1]); from rackrate_text import failures;"
    code += (
        "text = json.load(sys.stdin); failures.without_ids(failures.explain('Error', text).text)"
    )
    command = [sys.executable, "-c", code, json.dumps(sys.path)]
    assert subprocess.run(command, input=json.dumps(text), text=True, check=False).returncode == 0


def test_a_time_that_is_no_number_is_told_as_it_is():
    assert "1..2" in explain("Odd", "Task timed out after 1..2 seconds").text
