"""GSM8K, 8 792 grade-school word problems (Cobbe et al. 2021), from a local copy or from the Hugging Face hub."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

from research_exchange.harness.errors import HarnessError
from research_exchange.harness.evaluator import Item
from research_exchange.harness.grading import numeric_answer

__all__ = ["HUB_NAME", "SIZES", "Gsm8k", "Split", "load"]

Split = Literal["train", "test"]
HUB_NAME = "openai/gsm8k"
SIZES: Mapping[Split, int] = {"train": 7473, "test": 1319}
"""Problems of each split as published."""


@dataclass(frozen=True)
class Gsm8k:
    """One split, in the order of its file."""

    split: Split
    items: tuple[Item, ...]
    """Ids are `gsm8k-test-0` and so on; each reference is the number after `####`, in canonical form."""
    source: str
    """A file name, or the hub's name of the file at the revision that was downloaded."""
    sha256: str
    """Of the file's bytes."""

    def record(self) -> dict[str, Any]:
        """What was loaded, for the effective config."""
        return {
            "name": "gsm8k",
            "split": self.split,
            "source": self.source,
            "sha256": self.sha256,
            "n_examples": len(self.items),
        }


def load(split: Split, source: Path | None = None, *, revision: str | None = None) -> Gsm8k:
    """One split of GSM8K.

    Args:
        source: A file, or a folder with `test.jsonl`, `test.parquet` or a Parquet file as the hub names it
            (`test-00000-of-00001.parquet`); None to download it.
        revision: The hub's commit to download; the newest where it is None. The record says which one it was.

    Raises:
        HarnessError: if there is no such file, it cannot be downloaded or read, or a row is no problem with an answer.
    """
    if source is None:
        return _of_file(split, *_download(split, revision))
    file = source if source.is_file() else _find(split, source)
    return _of_file(split, file, file.name)


def _find(split: Split, folder: Path) -> Path:
    for pattern in (f"{split}.jsonl", f"{split}.parquet", f"{split}-*.parquet"):
        found = sorted(folder.rglob(pattern))
        if len(found) == 1:
            return found[0]
        if found:
            raise HarnessError(f"{folder} holds {len(found)} files {pattern} of GSM8K; name the one that is meant.")
    raise HarnessError(
        f"{folder} holds no {split}.jsonl or {split}*.parquet of GSM8K; name the folder or file that does."
    )


def _download(split: Split, revision: str | None) -> tuple[Path, str]:
    """The hub's file in the local cache, and its name with the revision."""
    try:
        from huggingface_hub import hf_hub_download
    except ImportError:
        raise HarnessError(
            "GSM8K is downloaded by huggingface_hub, which is not installed: "
            "pip install 'research-exchange[hub]', or load a local copy."
        ) from None
    name = f"main/{split}-00000-of-00001.parquet"
    try:
        path = Path(hf_hub_download(HUB_NAME, name, repo_type="dataset", revision=revision))
    except (OSError, ValueError) as error:
        raise HarnessError(
            f"{HUB_NAME} could not be downloaded ({type(error).__name__}); check the connection, or load a local copy."
        ) from error
    commit = path.parents[1].name
    return path, f"{HUB_NAME}@{commit}/{name}"


def _of_file(split: Split, path: Path, source: str) -> Gsm8k:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise HarnessError(f"{path} cannot be read ({error.strerror}); name a JSON Lines or Parquet file.") from None
    rows = _parquet(content, path) if content.startswith(b"PAR1") else _json_lines(content, path)
    items = tuple(_item(split, number, row, path) for number, row in enumerate(rows))
    return Gsm8k(split, items, source, hashlib.sha256(content).hexdigest())


def _parquet(content: bytes, path: Path) -> list[Any]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise HarnessError(
            f"{path} is a Parquet file, which takes pyarrow: pip install 'research-exchange[hub]', or load JSON Lines."
        ) from None
    try:
        rows: list[Any] = parquet.read_table(BytesIO(content)).to_pylist()
    except ArrowException as error:
        raise HarnessError(f"{path} is a damaged Parquet file ({type(error).__name__}); fetch it again.") from None
    return rows


def _json_lines(content: bytes, path: Path) -> list[Any]:
    rows = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        try:
            rows += [json.loads(line)] if line.strip() else []
        except ValueError:
            raise HarnessError(f"{path}: line {number} is not JSON; fetch the file again.") from None
    return rows


def _item(split: Split, number: int, row: Any, path: Path) -> Item:
    question, answer = (row.get("question"), row.get("answer")) if isinstance(row, dict) else (None, None)
    if not isinstance(question, str) or not isinstance(answer, str):
        raise HarnessError(f"{path}: row {number + 1} has no question and answer as texts; this is not GSM8K.")
    reference = numeric_answer(answer) if "####" in answer else ""
    if not reference:
        raise HarnessError(f"{path}: the answer in row {number + 1} has no number after ####; this is not GSM8K.")
    return Item(f"gsm8k-{split}-{number}", question, reference)
