"""Reading a model directory into a frozen `transformers` network."""

from typing import Any

import torch

from spindle.backends.contract import BaseModel, UserError
from spindle.backends.quiet import quiet_transformers


def load_network(model: BaseModel, device: torch.device, dtype: torch.dtype) -> Any:
    """The network of a model, frozen.

    Raises `UserError` where weights are missing, which `transformers` would draw at random.
    """
    with quiet_transformers():
        import transformers

        # The top of the package imports this one architecture; the automatic classes take twice as long.
        network_class = getattr(transformers, model.architecture)
        network, notes = network_class.from_pretrained(
            model.path, dtype=dtype, local_files_only=True, output_loading_info=True
        )
    lacking = sorted({*notes["missing_keys"], *(name for name, *_ in notes["mismatched_keys"])})
    if lacking:
        raise UserError(
            f"base model {model.name!r}: the weights in {model.path} lack {len(lacking)} tensors of the shape that "
            f"{model.architecture} needs, such as {lacking[0]}; save the whole model there."
        )
    network.requires_grad_(False)
    return network.to(device).eval()
