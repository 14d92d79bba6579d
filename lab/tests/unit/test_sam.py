"""The lab's SAM CLI zips a directory again only when something in it changed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# In a process of its own: importing lab.sam changes zipfile for the whole process.
PROGRAM = """
import pathlib, sys, zipfile
from lab import sam

sam.ARCHIVES, code = (pathlib.Path(sys.argv[1], name) for name in ("archives", "code"))
code.mkdir()
script = code / "index.py"

def zipped():
    with sam.kept_archive(str(code), sam.utils.make_zip_with_lambda_permissions) as (path, _):
        with zipfile.ZipFile(path) as archive:
            mode = archive.getinfo("index.py").external_attr >> 16 & 0o777
            print(archive.read("index.py").decode(), oct(mode), pathlib.Path(path).stat().st_ino)

for text, mode in (("1", 0o644), ("1", 0o644), ("2", 0o644), ("2", 0o755)):
    script.write_text(text)
    script.chmod(mode)
    zipped()
"""


def test_an_archive_has_what_its_directory_has_now(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=True
    )
    entries = [line.split() for line in done.stdout.splitlines()]
    assert [(text, mode) for text, mode, _ in entries] == [
        ("1", "0o644"),
        ("1", "0o644"),
        ("2", "0o644"),
        ("2", "0o755"),
    ]
    assert entries[0] == entries[1]
