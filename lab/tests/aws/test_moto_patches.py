"""The lab's changes of moto hold for one release of it."""

from __future__ import annotations

import moto
import pytest

from lab.aws import moto_patches
from lab.errors import LabError


class Owner:
    name = "moto's"


def test_changes_are_for_the_installed_release_and_refuse_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moto_patches.apply([(f"{__name__}:Owner", "name", "the lab's")])
    assert Owner.name == "the lab's"
    monkeypatch.setattr(moto, "__version__", "99.0.0")
    with pytest.raises(LabError, match=rf"{moto_patches.VERSION}.*99\.0\.0"):
        moto_patches.apply([(f"{__name__}:Owner", "name", "never")])
    assert Owner.name == "the lab's"
