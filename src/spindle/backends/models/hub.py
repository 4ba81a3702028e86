"""Fetching models from the Hugging Face hub, or whatever speaks its protocol at `HF_ENDPOINT`.

The files land in Spindle's own cache, never in the user's. The token is the one that `huggingface_hub` finds by itself:
`HF_TOKEN`, else what `hf auth login` left. An interrupted pull goes on where it stopped.
"""

import glob
import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from spindle.backends.models import cache as store
from spindle.backends.models.directory import InstalledModel, ModelError, inspect
from spindle.backends.models.progress import Progress

if TYPE_CHECKING:
    from huggingface_hub.hf_api import ModelInfo

WANTED = (
    "config.json",
    "generation_config.json",
    "model*.safetensors",
    "model.safetensors.index.json",
    "added_tokens.json",
    "chat_template*",
    "merges.txt",
    "special_tokens_map.json",
    "tokenizer*",
    "vocab.*",
)
"""What serving a model takes. Code is never fetched."""


def pull(name: str, cache: Path, progress: Callable[[Progress], None]) -> InstalledModel:
    """Install a model from the hub, or bring it up to date. Raises `ModelError`."""
    from huggingface_hub import HfApi, constants, hf_hub_download, snapshot_download
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    folder = store.repository(cache, name)
    progress(Progress(f"Asking {constants.ENDPOINT}", 0.0))
    with _in_words(name, constants.ENDPOINT):
        info = HfApi().model_info(name, files_metadata=True)
        revision, files = _revision(name, info), _files(name, info)
        _check_room(name, cache, sum(files.values()) - store.size(folder / "blobs"))
        config = hf_hub_download(name, "config.json", revision=revision, cache_dir=cache)
        inspect(name, Path(config).parent, weights=False)
        with _watched(folder / "blobs", sum(files.values()), f"Downloading {name}", progress):
            wanted = [glob.escape(file) for file in files]
            snapshot_download(name, revision=revision, cache_dir=cache, allow_patterns=wanted)
    store.publish(cache, name, revision)
    progress(Progress("Ready", 1.0))
    return store.remember(cache, name, revision, f"{constants.ENDPOINT}/{name}")


@contextmanager
def _in_words(name: str, hub: str) -> Iterator[None]:
    """Say as a `ModelError` why the hub did not give a model."""
    import httpx
    from huggingface_hub import errors

    token = "a token in HF_TOKEN or by `hf auth login`"
    instead = f"`spindle models add {name}=PATH`"
    try:
        yield
    except errors.GatedRepoError:
        raise ModelError(f"{name} is gated: accept its terms at {hub}/{name}, and give {token}.") from None
    except errors.RepositoryNotFoundError:
        raise ModelError(f"{hub} has no model {name}, or it is private: check the name, or give {token}.") from None
    except errors.OfflineModeIsEnabled:
        raise ModelError(f"HF_HUB_OFFLINE forbids to ask {hub} for {name}; unset it, or use {instead}.") from None
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        raise ModelError(f"{hub} answered HTTP {status} when asked for {name}; try again later.") from None
    except (
        httpx.HTTPError,
        errors.LocalEntryNotFoundError,
        errors.FileMetadataError,
        errors.XetDownloadError,
    ) as error:
        raise ModelError(
            f"The connection to {hub} failed for {name} ({type(error).__name__}); check the network and HF_ENDPOINT, "
            f"or copy the model here and use {instead}."
        ) from None


def _revision(name: str, info: "ModelInfo") -> str:
    if info.sha is None:
        raise ModelError(f"The hub names no revision of {name}; try again later.")
    return info.sha


def _files(name: str, info: "ModelInfo") -> dict[str, int]:
    """Bytes of each file to fetch."""
    sizes = {file.rfilename: file.size or 0 for file in info.siblings or ()}
    files = {file: size for file, size in sizes.items() if any(fnmatch(file, wanted) for wanted in WANTED)}
    files = {file: size for file, size in files.items() if "/" not in file}
    missing = [need for need in ("config.json", "model*.safetensors") if not any(fnmatch(f, need) for f in files)]
    if missing:
        raise ModelError(
            f"{name} on the hub has no {' and no '.join(missing)}; choose a model that is published for transformers, "
            "with safetensors weights."
        )
    return files


def _check_room(name: str, cache: Path, missing: int) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(cache).free
    if missing > free:
        raise ModelError(
            f"{name} needs {missing / 1e9:.1f} GB more in {cache}, where {free / 1e9:.1f} GB are free; make room, "
            "or choose another folder with --data."
        )


@contextmanager
def _watched(folder: Path, total: int, stage: str, progress: Callable[[Progress], None]) -> Iterator[None]:
    """Report how much of `total` bytes has arrived in a folder."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.2):
            progress(Progress(stage, min(1.0, store.size(folder) / max(1, total))))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
