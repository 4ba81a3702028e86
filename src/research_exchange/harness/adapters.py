"""The numbers of an adapter, downloaded through the stock SDK: what hashes, updates and gradients are taken of."""

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import httpx
import numpy as np
import safetensors.numpy
import tinker
from numpy.typing import NDArray

from research_exchange.harness.errors import HarnessError
from research_exchange.harness.service import rest_client

__all__ = ["Adapter", "download_adapter"]

WEIGHTS = "adapter_model.safetensors"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
DOWNLOAD_SECONDS = 600.0
LIFETIME_SECONDS = 3600
"""Of the copy on the service, the shortest that the protocol knows; it is deleted as soon as it was read."""


@dataclass(frozen=True)
class Adapter:
    """All matrices of one adapter, float32, by name."""

    tensors: Mapping[str, NDArray[np.float32]]

    @cached_property
    def sha256(self) -> str:
        """Over names, shapes and bytes in the order of the names; how a file was laid out plays no part."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.tensors.items()):
            digest.update(json.dumps([name, list(tensor.shape)]).encode())
            digest.update(np.ascontiguousarray(tensor).tobytes())
        return digest.hexdigest()

    def minus(self, other: "Adapter") -> NDArray[np.float64]:
        """[numbers] All differences, matrix by matrix in the order of the names, in double precision.

        Raises:
            HarnessError: the two have different matrices.
        """
        if {name: tensor.shape for name, tensor in self.tensors.items()} != {
            name: tensor.shape for name, tensor in other.tensors.items()
        }:
            raise HarnessError("The two adapters have different matrices; compare adapters of one model and rank.")
        return np.concatenate(
            [
                (tensor.astype(np.float64) - other.tensors[name].astype(np.float64)).ravel()
                for name, tensor in sorted(self.tensors.items())
            ]
        )


def download_adapter(service: tinker.ServiceClient, client: tinker.TrainingClient) -> Adapter:
    """The adapter of a training client as it is now; the copy on the service is deleted afterwards.

    Raises:
        HarnessError: the download lacks the weights, or they are no safetensors file of float numbers.
    """
    rest = rest_client(service)
    path = client.save_weights_external(f"measured-{uuid.uuid4().hex}", ttl_seconds=LIFETIME_SECONDS).result().path
    try:
        urls = rest.get_external_weights_urls(path).result().urls
        if WEIGHTS not in urls:
            raise HarnessError(f"The download of an adapter has no {WEIGHTS}; it has {', '.join(sorted(urls))}.")
        raw = _get(urls[WEIGHTS])
    finally:
        rest.delete_checkpoint_from_tinker_path(path).result()
    try:
        return Adapter({name: tensor.astype(np.float32) for name, tensor in safetensors.numpy.load(raw).items()})
    except Exception as error:
        raise HarnessError(f"The downloaded {WEIGHTS} cannot be read ({type(error).__name__}).") from error


def _get(url: str) -> bytes:
    """The address is signed, so it takes no headers, and no error may repeat it."""
    is_local = httpx.URL(url).host in LOOPBACK
    try:
        answer = httpx.get(url, timeout=DOWNLOAD_SECONDS, follow_redirects=True, trust_env=not is_local)
    except httpx.HTTPError as error:
        raise HarnessError(f"The download of an adapter failed ({type(error).__name__}).") from None
    if not answer.is_success:
        raise HarnessError(f"The download of an adapter was refused with HTTP {answer.status_code}.")
    return answer.content
