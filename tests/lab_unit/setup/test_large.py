"""A lab has large programs only if a plan asks for them, and jars only as they are locked."""

from __future__ import annotations

import hashlib
import io
import json
import re
import urllib.request
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
    monkeypatch.setattr(urllib.request, "urlopen", lambda *_, **__: io.BytesIO(b"a jar"))
    right = hashlib.sha256(b"a jar").hexdigest()
    large._jar(tmp_path, right, "org/a/1/a-1.jar")
    assert (tmp_path / "a-1.jar").read_bytes() == b"a jar"
    with pytest.raises(LabError, match="checksum"):
        large._jar(tmp_path, "0" * 64, "org/b/1/b-1.jar")
    assert not (tmp_path / "b-1.jar").exists()
