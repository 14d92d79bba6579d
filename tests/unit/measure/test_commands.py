"""What several commands of one shell printed: each with its own output and exit code."""

from __future__ import annotations

import subprocess

from hypothesis import given
from hypothesis import strategies as st

from rackrate.measure.commands import Printed, printed_by_each, running


def printed(commands):
    done = subprocess.run(running(commands), capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return printed_by_each(done.stdout)


def test_each_command_has_what_it_printed_and_its_code_whatever_the_others_did():
    outputs = printed(
        {
            "lines": ["printf", "%s\\n", "a", "'b c'"],
            "no-end-of-line": ["printf", "x"],
            "nothing": ["true"],
            "both": ["sh", "-c", "echo out; echo error >&2; exit 3"],
            "missing": ["no-such-program", "--option"],
            "last": ["echo", "$HOME; exit"],
        }
    )
    missing = outputs.pop("missing")
    assert missing.code == 127
    assert "not found" in missing.text
    assert outputs == {
        "lines": Printed("a\n'b c'\n", 0),
        "no-end-of-line": Printed("x", 0),
        "nothing": Printed("", 0),
        "both": Printed("out\nerror\n", 3),
        "last": Printed("$HOME; exit\n", 0),
    }


def test_a_command_that_did_not_end_has_no_section():
    assert printed_by_each("a\n\n== first 0\nb\n") == {"first": Printed("a\n", 0)}


@given(st.text())
def test_any_text_can_be_read(text):
    assert all(isinstance(each, Printed) for each in printed_by_each(text).values())
