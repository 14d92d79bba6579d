"""A lab has large programs only if a plan asks for them, and jars only as they are locked."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from lab import stack
from lab.errors import LabError
from lab.setup import large

PLANS = sorted((stack.REPOSITORY / "docs").glob("[pc]*s/*.json"))


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_plan_or_campaign_asks_for_them_if_it_has_such_a_test(path: Path) -> None:
    text = path.read_text("utf-8")
    assert large.asks(json.loads(text)) == bool(re.search("cassandra", text))


def test_a_jar_with_another_checksum_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maven = tmp_path / "bin" / "mvn"
    maven.parent.mkdir()
    maven.write_text(
        "#!/bin/sh\nfor word; do case $word in -DoutputDirectory=*) to=${word#*=};; esac; done\n"
        'mkdir "$to"; printf "a jar" | tee "$to/a-1.jar" "$to/b-1.jar" >"$to/c-1.jar"\n'
    )
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{maven.parent}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    locked = tmp_path / "jars.txt"
    monkeypatch.setattr(large, "_JARS", locked)
    right = hashlib.sha256(b"a jar").hexdigest()
    locked.write_text(f"{right}  a-1.jar\n{right}  b-1.jar\n")
    assert {jar.name for jar in large._jars().iterdir()} == {"a-1.jar", "b-1.jar"}
    locked.write_text(f"{right}  a-1.jar\n{'0' * 64}  b-1.jar\n")
    with pytest.raises(LabError, match=r"b-1\.jar"):
        large._jars()
