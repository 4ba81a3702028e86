"""age encryption of exported files (age-encryption.org/v1), so that only the holder of a key can read a download."""

from collections.abc import Sequence
from pathlib import Path

import pyrage

from spindle.backends.contract import UserError

MOST_RECIPIENTS = 10
SUFFIX = ".age"

Recipient = pyrage.x25519.Recipient | pyrage.ssh.Recipient


def recipients(texts: Sequence[str]) -> list[Recipient]:
    """Public keys to encrypt to; `UserError` names the one that is none."""
    if not texts:
        raise UserError("age_encryption_recipients is empty: name a public key, or leave it out to export as it is.")
    if len(texts) > MOST_RECIPIENTS:
        raise UserError(f"age_encryption_recipients has {len(texts)} keys; at most {MOST_RECIPIENTS} are taken.")
    return [_recipient(text, index) for index, text in enumerate(texts)]


def _recipient(text: str, index: int) -> Recipient:
    kind = pyrage.x25519.Recipient if text.startswith("age1") else pyrage.ssh.Recipient
    try:
        return kind.from_str(text.strip())
    except pyrage.RecipientError as error:
        raise UserError(
            f"age_encryption_recipients[{index}] is {text[:80]!r}, which is no public key ({error}); expected an "
            "X25519 key (age1...), or an SSH public key (ssh-ed25519 or ssh-rsa)."
        ) from error


def encrypt_files(directory: Path, keys: Sequence[Recipient]) -> None:
    """Replace every file of a directory by one that the holder of any of the keys can read, named `*.age`."""
    for file in [path for path in directory.rglob("*") if path.is_file()]:
        pyrage.encrypt_file(str(file), f"{file}{SUFFIX}", keys)
        file.unlink()
