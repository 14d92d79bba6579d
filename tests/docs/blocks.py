"""The code blocks of the documentation, and the commands in them.

The first line of a block says who runs it:

- `sh title="AWS only"`: nobody here, because it needs an account. tests/docs/test_blocks.py checks
  the commands as far as possible without one.
- `sh title="Lab"`: tests/lab/test_docs.py, page by page and in order, in the lab.
- `sh`: tests/docs/test_blocks.py, which runs it in a copy of the repository or names the step of
  continuous integration that does.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import HUNG_SECONDS

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "lint/*.md", "tests/**/*.md")
    for path in ROOT.glob(pattern)
)
AWS_ONLY, LAB = "AWS only", "Lab"
#: Programs that blocks call by their path in the repository.
BY_PATH = (".venv/bin/python", ".venv-taskcat/bin/taskcat")

_FENCE = re.compile(r"^(?P<indent>[ ]*)(?P<mark>```+)(?P<info>[^`\n]*)$")
_TITLE = re.compile(r'\btitle="(?P<title>[^"]*)"')


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: the page's path, the block's first line, and its content."""

    page: str
    line: int
    language: str
    title: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(path: Path) -> Iterator[Block]:
    """The fenced blocks of a Markdown file, in order."""
    page = str(path.relative_to(ROOT))
    opened: tuple[int, re.Match[str]] | None = None
    held: list[str] = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        mark = _FENCE.match(line)
        if opened is None and mark:
            opened, held = (number, mark), []
        elif opened and mark and not mark["info"] and mark["mark"].startswith(opened[1]["mark"]):
            info = opened[1]["info"].strip()
            title = _TITLE.search(info)
            yield Block(
                page,
                opened[0],
                info.split(" ")[0],
                title["title"] if title else "",
                textwrap.dedent("\n".join(held)) + "\n",
            )
            opened = None
        else:
            held.append(line)
    assert opened is None, f"{page}:{opened[0] if opened else 0} is never closed"


BLOCKS = [block for path in PAGES for block in blocks_of(path)]


def shell(title: str) -> list[Block]:
    """The blocks of commands with this title."""
    return [block for block in BLOCKS if block.language == "sh" and block.title == title]


def commands(text: str) -> list[list[str]]:
    """The commands that bash would start for a text. Starts none of them.

    PATH is empty, so bash passes each command to a function that records it.
    """
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        record = home / "record"
        note = f'printf "%s\\0" "$#" "$@" >>"{record}"'
        for environment in (".venv", ".venv-aws"):
            (home / environment / "bin").mkdir(parents=True)
            (home / environment / "bin" / "activate").touch()
        for name in BY_PATH:
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(f'#!/bin/bash\nset -- {name} "$@"\n{note}\n')
            (home / name).chmod(0o755)
        handled = f"command_not_found_handle() {{ {note}; }}\n"
        bash = shutil.which("bash")
        assert bash
        done = subprocess.run(
            [bash, "--norc", "-c", f"{handled}{text}"],
            cwd=home,
            env={"PATH": "/nowhere", "HOME": directory},
            capture_output=True,
            text=True,
            timeout=HUNG_SECONDS,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        words = record.read_text("utf-8").split("\0")[:-1] if record.exists() else []
    read = []
    while words:
        count = int(words[0])
        read.append(words[1 : 1 + count])
        words = words[1 + count :]
    return read


def copy_of_repository(directory: Path) -> Path:
    """Copy the repository's current files to a working directory with the same environments."""
    # Otherwise a block that begins with the set-up would install the copy's command in them.
    subprocess.run([ROOT / "scripts" / "setup"], cwd=ROOT, check=True)
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in filter(None, listing.split("\0")):
        if (ROOT / name).is_file():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, directory / name)
    for name in (".venv", ".venv-taskcat", ".venv-checkov"):
        (directory / name).symlink_to(ROOT / name)
    return directory
