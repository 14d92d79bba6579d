"""The lab's command line ends as it says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from lab import __main__ as command_line
from lab import stack

#: A demo that is interrupted while a class is made out of text, as dataclasses are.
INTERRUPTED = """
import sys
from lab import __main__ as lab

lab.bring_up = lambda *_, **__: exec("raise KeyboardInterrupt")
sys.argv = ["lab", "demo"]
lab.main()
"""


def test_ctrl_c_ends_with_its_exit_code_wherever_it_strikes(tmp_path: Path) -> None:
    (tmp_path / "interrupted.py").write_text(INTERRUPTED, "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "interrupted"],
        cwd=stack.REPOSITORY,
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{stack.REPOSITORY}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr


def test_the_line_that_points_a_shell_at_the_lab_works_in_any_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = {"network_scale": 0.1, "seed": 7, "kubeconfig": "config", "endpoint_url": "http://x"}
    command_line._print_environment(status)
    (line,) = re.findall(r'eval "\$\((make .+)\)"', capsys.readouterr().out)
    make, *words = shlex.split(line)
    done = subprocess.run(
        [make, "--dry-run", *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "-m lab env" in done.stdout


def test_every_command_is_a_target_of_make() -> None:
    names = set(typer.main.get_command(command_line.app).commands)
    makefile = (stack.REPOSITORY / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):.* ## ", makefile, re.MULTILINE))
    assert {f"lab-{name}" for name in names - {"demo"}} | {"demo"} <= targets
