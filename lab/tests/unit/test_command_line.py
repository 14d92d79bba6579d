"""The lab's command line ends as it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
