"""Why a run is started, in the words of the contract (R-005)."""

from enum import StrEnum

__all__ = ["LaunchMode"]


class LaunchMode(StrEnum):
    """Why a run was started (R-005)."""

    ORDINARY = "ordinary"
    """Execute the selected saved version."""
    REDO = "redo"
    """Repeat the same version to see whether its result comes out again (R-006)."""
