"""The command's streams: closed, full, of another encoding, without width; Ctrl-C at its start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.waiting import HUNG_SECONDS

from .conftest import DeployedStack, machine

RUN = "run-of-streams"


@pytest.fixture
def finished(stack: DeployedStack) -> DeployedStack:
    """A stack with a run that has results, and that ends runs at once."""
    stack.define(machine(("Done", stack.recording("succeeded", "done"))))
    stack.measure(RUN)
    return stack


def run(*arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rackrate_cli", *map(str, arguments)],
        **{"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True,
           "timeout": HUNG_SECONDS, "check": False, **options},  # type: ignore[call-overload]
    )  # fmt: skip


def run_python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, timeout=HUNG_SECONDS, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("more", [(), ("--json",)])
@pytest.mark.parametrize("closing", ["by its reader", "before its start"])
def test_a_closed_stdout_costs_neither_the_junit_file_nor_the_exit_code(
    finished: DeployedStack, tmp_path: Path, closing: str, more: tuple[str, ...]
) -> None:
    read, write = os.pipe()
    os.close(read)
    junit = tmp_path / "verdicts.xml"
    shell = ">&-" if closing == "before its start" else ""
    done = subprocess.run(
        ["sh", "-c", f'"$@" {shell}', "sh", sys.executable, "-m", "rackrate_cli", "watch", RUN,
         "--stack", finished.name, "--junit", junit, "--require", "tcp-1 worse", *more],
        stdin=subprocess.DEVNULL, stdout=write, stderr=subprocess.PIPE, text=True,
        timeout=HUNG_SECONDS, check=False,
    )  # fmt: skip
    os.close(write)
    assert ET.parse(junit).getroot()[0].get("failures") == "1"
    assert done.returncode == 1
    assert "is not met" in done.stderr
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("show", RUN), ("show", RUN, "--json"), ("plan", RUN), ("--version",),
     ("export", RUN, "--format", "json", "--out", "-")],
    ids=" ".join,
)  # fmt: skip
def test_a_full_stdout_is_reported_in_a_sentence(
    finished: DeployedStack, arguments: tuple[str, ...]
) -> None:
    finished.put(RUN, "plan.json", b'{"plan": {}}')
    stack = () if arguments[0].startswith("-") else ("--stack", finished.name)
    with Path("/dev/full").open("w") as full:
        done = run(*arguments, *stack, stdout=full)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("rackrate: ") and "No space left on device" in line


def test_a_full_stderr_does_not_end_a_command(finished: DeployedStack) -> None:
    with Path("/dev/full").open("w") as full:
        done = run("run", "--stack", finished.name, "--name", RUN, "--json", "--out", "/dev/null/x",
                   stderr=full, stdout=subprocess.PIPE)  # fmt: skip
    assert done.returncode == 2
    assert "error" in json.loads(done.stdout)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_figures_keep_their_signs_where_the_encoding_lacks_them(
    encoding: str, finished: DeployedStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    arguments = ("show", RUN, "--stack", finished.name, "--verbose")
    done = run(*arguments, stdout=subprocess.PIPE, encoding=encoding)
    assert done.returncode == 0, done.stderr
    assert "|-66.1 % " in done.stdout and "457 -> 155" in done.stdout
    assert "?" not in done.stdout
    assert run("--help", stdout=subprocess.PIPE).returncode == 0


def test_a_terminal_of_no_width_does_not_hide_the_answer(
    finished: DeployedStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    shown = run("show", RUN, "--stack", finished.name, stdout=subprocess.PIPE).stdout
    assert "987 Mbit/s" in shown
    monkeypatch.setenv("COLUMNS", "00")
    assert "Measure what" in run("--help", stdout=subprocess.PIPE).stdout


@pytest.mark.parametrize("module", ["boto3", "rich.console", "typer", "rackrate_cli.commands.up"])
def test_ctrl_c_while_the_command_is_loaded_ends_it_without_a_traceback(module: str) -> None:
    interrupting = f"""
import builtins, os, signal
load = builtins.__import__
def interrupted(name, globals=None, locals=None, fromlist=(), level=0):
    package = (globals or {{}}).get("__name__", "")
    if name == {module!r} or (level and f"{{package.rpartition('.')[0]}}.{{name}}" == {module!r}):
        os.kill(os.getpid(), signal.SIGINT)
    return load(name, globals, locals, fromlist, level)
builtins.__import__ = interrupted
from rackrate_cli.__main__ import main
main()
"""
    done = run_python(interrupting)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_ctrl_c_while_the_arguments_are_read_ends_it_without_a_traceback() -> None:
    interrupting = """
import os, signal
from rackrate_cli import __main__, main
main.app = lambda: os.kill(os.getpid(), signal.SIGINT)
__main__.main()
"""
    done = run_python(interrupting)
    assert (done.returncode, done.stderr) == (130, "")
