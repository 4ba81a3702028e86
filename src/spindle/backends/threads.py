"""How torch computes: beside the client's script on the same cores, and the same bytes whoever else is served."""

import os


def share_cores() -> None:
    """Let idle threads of torch sleep soon rather than spin; to be called before torch is first imported.

    A thread that spins for its partner keeps the core that the partner waits for: measured on two cores beside another
    busy process, decoding is 17 times faster with sleeping threads. Spinning for a few microseconds first costs little
    there, and where the cores are free it makes decoding a quarter faster. Settings in the environment win.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "5000")
        os.environ["OMP_WAIT_POLICY"] = "passive"


def repeat_products() -> None:
    """Make a row of a matrix product the same, to the bit, whatever rows are beside it; before torch's first product.

    Without it MKL chooses kernels, and how to divide sums among threads, by the number of rows. Its strict mode costs
    nothing from 64 rows up, and half as much again for a single row (measured on the shapes of SmolLM2-135M).
    """
    os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
