"""What several commands of one shell printed: each with its own output and exit code."""

from __future__ import annotations

import subprocess

from hypothesis import given
from hypothesis import strategies as st

from rackrate.measure.sections import Section, running, sections


def printed(commands):
    done = subprocess.run(running(commands), capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return sections(done.stdout)


def test_each_command_has_what_it_printed_and_its_code_whatever_the_others_did():
    found = printed(
        {
            "lines": ["printf", "%s\\n", "a", "'b c'"],
            "no-end-of-line": ["printf", "x"],
            "nothing": ["true"],
            "both": ["sh", "-c", "echo out; echo error >&2; exit 3"],
            "missing": ["no-such-program", "--option"],
            "last": ["echo", "$HOME; exit"],
        }
    )
    missing = found.pop("missing")
    assert missing.code == 127
    assert "not found" in missing.text
    assert found == {
        "lines": Section("a\n'b c'\n", 0),
        "no-end-of-line": Section("x", 0),
        "nothing": Section("", 0),
        "both": Section("out\nerror\n", 3),
        "last": Section("$HOME; exit\n", 0),
    }


def test_a_command_that_did_not_end_has_no_section():
    assert sections("a\n\n== first 0\nb\n") == {"first": Section("a\n", 0)}


@given(st.text())
def test_any_text_can_be_read(text):
    assert all(isinstance(each, Section) for each in sections(text).values())
