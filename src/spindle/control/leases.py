"""Directories that are being read outlive their checkpoint: the last reader removes what is to go."""

import shutil
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Leases:
    """Who reads which directory. Safe to use from several threads."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _readers: Counter[Path] = field(default_factory=Counter)
    _retired: set[Path] = field(default_factory=set)

    def take(self, directory: Path) -> None:
        """Keep a directory until it is given back."""
        with self._lock:
            self._readers[directory] += 1

    def give_back(self, directory: Path) -> None:
        """End what `take` began."""
        with self._lock:
            self._readers[directory] -= 1
            if self._readers[directory] > 0:
                return
            del self._readers[directory]
            if directory not in self._retired:
                return
            self._retired.discard(directory)
        shutil.rmtree(directory, ignore_errors=True)

    def retire(self, directory: Path) -> None:
        """Remove a directory, now or when its last reader is done."""
        with self._lock:
            if self._readers[directory] > 0:
                self._retired.add(directory)
                return
        shutil.rmtree(directory, ignore_errors=True)
