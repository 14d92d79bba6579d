"""The SAM CLI, zipping and uploading each directory once however many templates name it.

Its own memory of what it has uploaded ends with a template, and ours share one artifact between
nested templates: without this, packaging would take three times as long.
"""

from __future__ import annotations

import functools

from samcli.cli.main import cli
from samcli.lib.package import utils

utils.zip_and_upload = functools.cache(utils.zip_and_upload)

if __name__ == "__main__":
    cli(prog_name="sam")
