"""The SAM CLI, changed to zip and upload each directory once for all templates that name it.

The SAM CLI remembers its uploads for one template only. Our nested templates share one artifact,
so packaging takes three times as long without this change.
"""

from __future__ import annotations

import functools
import zipfile
from typing import Any

from samcli.cli.main import cli
from samcli.lib.package import utils


class QuickZip(zipfile.ZipFile):
    """Compresses little: an archive of the lab goes from one place of the machine to another."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **({"compresslevel": 1} | options))


zipfile.ZipFile = QuickZip  # type: ignore[misc]
utils.zip_and_upload = functools.cache(utils.zip_and_upload)

if __name__ == "__main__":
    cli(prog_name="sam")
