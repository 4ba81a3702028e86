"""What prompts were computed to: hidden states, keys and values, kept for requests that ask for the same prompt."""

import weakref
from collections import OrderedDict
from dataclasses import dataclass
from weakref import WeakValueDictionary

from torch import Tensor

from spindle.backends.contract import Array
from spindle.backends.lora import Adapter

BYTES = 256 << 20
"""How much of lately computed prompts a batch keeps."""

_Key = tuple["weakref.ref[Adapter] | None", bytes]


@dataclass(eq=False)
class Prompt:
    """A prompt under an adapter, computed when first needed."""

    tokens: Array
    """int64 [P]"""
    adapter: Adapter | None
    states: Tensor | None = None
    """Final hidden states [P, hidden]; None until computed."""
    memory: object = None
    """What the decoder goes on from."""
    size: int = 0
    """Bytes of states and memory; 0 until computed, and when the memory serves once only."""

    @property
    def computed(self) -> Tensor:
        """The states, of a prompt that is computed."""
        if self.states is None:
            raise RuntimeError("the prompt has not been computed")
        return self.states

    def release(self) -> None:
        """Forget what was computed, once all rows that start from it have."""
        self.states, self.memory, self.size = None, None, 0


@dataclass(frozen=True)
class _Kept:
    states: Tensor | None
    memory: object
    size: int


class Prompts:
    """Prompts in use, and those computed lately, the oldest of which go when they exceed `BYTES`.

    A snapshot that leaves memory is not held by its prompts: they are never found again, and age out.
    """

    def __init__(self) -> None:
        self._used: WeakValueDictionary[_Key, Prompt] = WeakValueDictionary()
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._bytes = 0

    def find(self, tokens: Array, adapter: Adapter | None) -> Prompt:
        """The prompt, computed already if it was lately."""
        key = _key(tokens, adapter)
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
        prompt = self._used.get(key)
        if prompt is None:
            prompt = self._used[key] = Prompt(tokens, adapter)
        if prompt.states is None and kept is not None:
            prompt.states, prompt.memory, prompt.size = kept.states, kept.memory, kept.size
        return prompt

    def keep(self, prompt: Prompt) -> None:
        """Remember what a prompt was computed to."""
        key = _key(prompt.tokens, prompt.adapter)
        if not prompt.size or key in self._kept:
            return
        self._kept[key] = _Kept(prompt.states, prompt.memory, prompt.size)
        self._bytes += prompt.size
        while self._bytes > BYTES:
            self._bytes -= self._kept.popitem(last=False)[1].size


def _key(tokens: Array, adapter: Adapter | None) -> _Key:
    return (None if adapter is None else weakref.ref(adapter), tokens.astype("int64").tobytes())
