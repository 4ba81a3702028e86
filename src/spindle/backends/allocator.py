"""How the C library hands out the memory of tensors on a CPU."""

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8
"""Parameters of `mallopt` (malloc.h)."""


def keep_memory() -> None:
    """Let the process keep what tensors free, for the next ones; to be called before there are threads.

    The GNU C library returns large blocks to the system at once and asks for them again, page by page, a moment later.
    Measured on training passes of a 135M model, that is a tenth of the time, and more than half of it for operations
    such as a sigmoid. Other C libraries are left as they are.
    """
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if library is not None and hasattr(library, "gnu_get_libc_version"):
        library.mallopt(_MMAP_MAX, 0)
        library.mallopt(_TRIM_THRESHOLD, (1 << 31) - 1)
        library.mallopt(_ARENA_MAX, 1)  # what one thread freed serves another
