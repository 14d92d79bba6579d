"""Output for people: help and tables fit the width, and colors appear only on terminals."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from rackrate_cli.completion import complete_campaign, complete_run
from rackrate_cli.main import app
from typer.main import get_command
from typer.testing import CliRunner

from tests.waiting import HUNG_SECONDS

from .conftest import DeployedStack, Rackrate, arm, read_terminal, results, verdict

LONGEST_ID = "run-" + "x" * 76
LONGEST_TEST = "a-test-" + "t" * 33
ARMS = [f"arm-{number}-" + "a" * 24 for number in range(9)]


def commands() -> list[tuple[str, ...]]:
    """All commands, as the shell's completion finds them."""
    group = get_command(app)
    names: list[tuple[str, ...]] = []
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        names += [(name,)] if inner is None else [(name, each) for each in inner]
    return names


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_help_fits_80_columns_and_has_an_example(
    command: tuple[str, ...], rackrate: Rackrate, narrow: None
) -> None:
    result = rackrate(*command, "--help")
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert f"Example: rackrate {' '.join(command)}" in result.stdout
    assert "--json" in result.stdout
    assert not re.search(r"<(bool|str|int|path|float)", result.stdout), "a type says nothing"
    assert rackrate(*command, "-h").stdout == result.stdout


def test_the_help_of_all_names_every_command_and_the_exit_codes(
    rackrate: Rackrate, narrow: None
) -> None:
    shown = rackrate("--help").stdout
    assert max(map(len, shown.splitlines())) <= 80
    for command in ("run", "watch", "list", "show", "plan", "compare", "pool", "open", "report",
                    "export", "doctor", "campaign", "baseline"):  # fmt: skip
        assert re.search(rf"^│ {command} ", shown, re.MULTILINE), command
    assert "Exit codes: 0 success" in shown
    assert "docs/cli.md" in shown and "─ Commands ─" not in shown
    assert "<bool>" not in shown
    assert "--install-completion" in shown


@pytest.mark.parametrize("command", [("list",), ("campaign", "list"), ("doctor",)], ids=" ".join)
def test_the_stack_is_named_before_or_after_the_command(
    command: tuple[str, ...], aws: str, here: None
) -> None:
    def sentence(*arguments: str) -> str:
        return CliRunner().invoke(app, arguments).output

    asked = sentence(*command, "--stack", "mine")
    assert '"mine"' in asked
    assert sentence("--stack", "mine", *command) == asked
    assert sentence("--stack", "other", *command, "--stack", "mine") == asked
    assert sentence("--stack", "other", *command, "--stack", "rackrate") == sentence(*command)


def test_the_version_is_the_package_s(rackrate: Rackrate) -> None:
    assert rackrate("--version").stdout == f"rackrate {version('rackrate')}\n"


def test_the_longest_names_and_many_arms_fit_80_columns(
    stack: DeployedStack, rackrate: Rackrate, narrow: None
) -> None:
    stack.record(LONGEST_ID, status="timed_out", trials_measured=100_000, trials_failed=10_000)
    verdicts = [
        verdict(test=LONGEST_TEST, metric="latency_p99_9", arm=name, baseline=ARMS[0],
                verdict="inconclusive", more_blocks=1000, ci_simultaneous=[1e-9, 1e90])
        for name in ARMS[1:]
    ]  # fmt: skip
    stack.put(
        LONGEST_ID,
        "results.json",
        results(
            LONGEST_ID,
            verdicts=verdicts,
            regressions=[verdict(baseline=f"run {LONGEST_ID}")],
            arms=[arm(name, "partition") for name in ARMS],
        ),
    )
    shown = rackrate("show", LONGEST_ID).stdout
    # Paths to copy may be wider, because they are never wrapped.
    lines = [line for line in shown.splitlines() if not line.startswith("Files: s3://")]
    assert max(map(len, lines)) <= 80
    # With ten arms the columns are folded and not cut.
    joined = "".join(shown.split())
    assert "…" not in shown
    assert joined.count("<−99.9to>+99900%") == len(verdicts)
    listed = rackrate("list").stdout
    assert max(map(len, listed.splitlines())) <= 80
    assert "…" not in listed and "100000" in listed


def shown_in_terminal(*arguments: str, **environment: str) -> str:
    """The command's output to a terminal."""
    terminal, other_end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "rackrate_cli", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=other_end,
        stderr=other_end,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", **environment},
    )
    os.close(other_end)
    shown = b"".join(read_terminal(terminal))
    process.wait(timeout=HUNG_SECONDS)
    return shown.decode()


def test_colours_are_only_for_a_terminal_and_no_color_turns_them_off(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.measure("r1")
    arguments = ("show", "r1", "--stack", stack.name)
    colour = re.compile(r"\x1b\[(?:\d+;)*3\d")
    assert colour.search(shown_in_terminal(*arguments))
    assert not colour.search(shown_in_terminal(*arguments, NO_COLOR="1"))
    assert "\x1b" not in rackrate(*arguments).stdout


def test_completion_offers_the_runs_stored_here_without_asking_aws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert complete_run("") == ["latest"]
    for name in ("run-1", "run-2", "other"):
        (tmp_path / "out" / name).mkdir(parents=True)
        (tmp_path / "out" / name / "plan.json").touch()
    (tmp_path / "out" / "latest").symlink_to("run-2")
    assert complete_run("") == ["latest", "run-2", "run-1", "other"]
    assert complete_run("run") == ["run-2", "run-1"]
    assert complete_campaign("") == ["latest"]
    for name in ("campaign-1", "campaign-2"):
        (tmp_path / "out" / name).mkdir()
        (tmp_path / "out" / name / "plan.json").touch()
        (tmp_path / "out" / name / "campaign.json").touch()
    assert complete_campaign("c") == ["campaign-2", "campaign-1"]
    assert complete_run("") == ["latest", "run-2", "run-1", "other"]


def test_the_shell_completes_commands_options_and_runs(tmp_path: Path) -> None:
    (tmp_path / "out" / "run-7").mkdir(parents=True)
    (tmp_path / "out" / "run-7" / "plan.json").touch()

    def completed(line: str) -> list[str]:
        words = line.split(" ")
        result = subprocess.run(
            [Path(sys.executable).parent / "rackrate"],
            env={
                **os.environ,
                "_RACKRATE_COMPLETE": "complete_bash",
                "COMP_WORDS": line,
                "COMP_CWORD": str(len(words) - 1),
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=HUNG_SECONDS,
            check=False,
        )
        return result.stdout.split()

    assert completed("rackrate wa") == ["watch"]
    assert completed("rackrate show run") == ["run-7"]
    assert completed("rackrate list --status de") == ["degraded"]
    assert "--runs-per-step" in completed("rackrate campaign run --ru")
    assert completed("rackrate pool run") == ["run-7"]
