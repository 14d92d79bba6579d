"""`make test-frozen`: a command that stands still again and again while the clock goes on."""

from __future__ import annotations

import json
import os
import sys

import pytest

from scripts import freeze

#: Prints the longest time between two looks at the clock, of a process and of its child.
LOOKS = """
import json, os, sys, time
child = os.fork()
longest, before = 0.0, time.monotonic()
until = before + 1.5
while before < until:
    now = time.monotonic()
    longest, before = max(longest, now - before), now
with open(f"{sys.argv[1]}/{'child' if child == 0 else 'parent'}", "w") as file:
    json.dump(longest, file)
if child:
    os.waitpid(child, 0)
    sys.exit(7)
"""


def test_a_command_and_its_children_stand_still_and_its_exit_code_is_reported(tmp_path):
    command = [sys.executable, "-c", LOOKS, str(tmp_path)]
    if os.geteuid() != 0:
        # `make test-unit` needs no root, and only root can make a control group.
        with pytest.raises(PermissionError):
            freeze.run(command)
        assert list(tmp_path.iterdir()) == []
        return
    assert freeze.run(command, running=(0.05, 0.1), frozen=(60.0, 0.5)) == 7
    longest = {path.name: json.loads(path.read_text()) for path in tmp_path.iterdir()}
    assert longest.keys() == {"child", "parent"}
    assert min(longest.values()) >= 0.4
    assert not [group for tree in freeze.TREES for group in tree.glob(f"*frozen-{os.getpid()}")]


def test_where_no_group_can_be_made_it_is_reported_and_nothing_is_run(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(freeze, "TREES", (tmp_path / "none",))
    monkeypatch.setattr(sys, "argv", ["freeze", "touch", str(tmp_path / "ran")])
    assert freeze.main() == 2
    assert "Run it as root" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
