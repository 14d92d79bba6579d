"""Keeps the server small: it holds archives for moments and runs many threads."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os

from lab.aws.account import REGION

# <malloc.h>
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8


def prepare() -> None:
    """Let the C library give memory back, and moto keep stored objects in files."""
    # moto keeps objects of up to 16 MiB in memory unless told otherwise.
    os.environ.setdefault("MOTO_S3_DEFAULT_KEY_BUFFER_SIZE", str(64 * 1024))
    with contextlib.suppress(OSError, AttributeError):  # another C library has other ways
        library = ctypes.CDLL(None)
        # Every thread would get a heap of its own, and each keeps what it once needed.
        library.mallopt(_M_ARENA_MAX, 2)
        library.mallopt(_M_MMAP_THRESHOLD, 256 * 1024)
        library.mallopt(_M_TRIM_THRESHOLD, 256 * 1024)


def forget_other_regions() -> None:
    """Drop moto's instance type offerings for the Regions there are not."""
    from moto.ec2.models import instance_types

    for offerings in instance_types.INSTANCE_TYPE_OFFERINGS.values():
        for region in [name for name in offerings if name != REGION]:
            del offerings[region]
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
