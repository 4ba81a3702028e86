"""Checkpoint addresses: `tinker://<training run>/<kind>/<name>`."""

import re
from dataclasses import dataclass
from enum import StrEnum

from spindle.backends.contract import UserError

RUN = re.compile(r"[A-Za-z0-9-]{1,64}:train:[0-9]{1,9}")
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.=+@-]{0,127}")


class Kind(StrEnum):
    """Namespaces: one name may be in use in each."""

    TRAINING = "weights"
    """Adapter and optimizer state, to train on from."""
    SAMPLER = "sampler_weights"
    """The adapter alone, to sample from."""
    EXTERNAL = "external_weights"
    """The adapter as other programs read it, possibly encrypted, to download."""


@dataclass(frozen=True)
class CheckpointPath:
    """The address of one checkpoint."""

    run: str
    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"tinker://{self.run}/{self.kind}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> "CheckpointPath":
        """Read an address; `UserError` says what is wrong with it."""
        scheme, _, rest = text.partition("://")
        parts = rest.split("/")
        kinds = [kind.value for kind in Kind]
        if scheme != "tinker" or len(parts) != 3 or not RUN.fullmatch(parts[0]) or parts[1] not in kinds:
            raise UserError(
                f"{text!r} is not a checkpoint path: expected tinker://<training run>/{{{' or '.join(kinds)}}}/<name>."
            )
        return cls(parts[0], Kind(parts[1]), checked_name(parts[2]))


def checked_name(name: str | None) -> str:
    """A checkpoint name as it is, or `UserError`."""
    if name is None or not NAME.fullmatch(name):
        raise UserError(
            f"{name!r} cannot name a checkpoint: expected 1 to 128 letters, digits or any of . _ - + = @, "
            "starting with a letter, digit or _."
        )
    return name
