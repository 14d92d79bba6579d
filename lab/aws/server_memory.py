"""Keeps the server's memory small: it holds archives for a short time and runs many threads."""

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
    """Make the C library return memory to the system, and moto keep stored objects in files."""
    # By default moto keeps objects of up to 16 MiB in memory.
    os.environ.setdefault("MOTO_S3_DEFAULT_KEY_BUFFER_SIZE", str(64 * 1024))
    with contextlib.suppress(OSError, AttributeError):  # another C library lacks mallopt
        library = ctypes.CDLL(None)
        # By default every thread gets a heap of its own, which keeps the most it ever needed.
        library.mallopt(_M_ARENA_MAX, 2)
        library.mallopt(_M_MMAP_THRESHOLD, 256 * 1024)
        library.mallopt(_M_TRIM_THRESHOLD, 256 * 1024)


def forget_other_regions() -> None:
    """Drop moto's instance type offerings of the Regions that the lab does not have.

    What is left stays to the end, so the garbage collector does not read it again and again.
    """
    from moto.ec2.models import instance_types

    for offerings in instance_types.INSTANCE_TYPE_OFFERINGS.values():
        for region in [name for name in offerings if name != REGION]:
            del offerings[region]
    gc.collect()
    gc.freeze()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
