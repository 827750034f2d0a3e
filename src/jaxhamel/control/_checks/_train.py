"""Checks of a training: its loss, its policy, its checkpoint."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from jaxhamel._checks._arguments import check_called_with, check_count, check_random_key
from jaxhamel._checks._traced import called
from jaxhamel._checks._values import described, type_of
from jaxhamel._saved_arrays import saved_arrays


def check_training(loss, policy, updates, key, optimiser) -> None:
    """A policy with numbers to learn, an optimiser of optax, and a loss of it that is one real number."""
    check_called_with("loss", loss, 2, "of (policy, key)")
    check_count("updates", updates)
    check_random_key("key", key)
    if not hasattr(optimiser, "init") or not hasattr(optimiser, "update"):
        raise TypeError(
            f"`optimiser` is {type_of(optimiser)}; it must be one of optax, such as optax.adam(1e-2)."
        )
    if not jax.tree.leaves(eqx.filter(policy, eqx.is_inexact_array)):
        raise ValueError(
            "`policy` has no floating array to learn. Give a pytree with some, such as an equinox.nn.MLP."
        )
    value = called("`loss`", loss, policy, key)
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape != () or dtype is None or not np.issubdtype(dtype, np.floating):
        got = type_of(value) if shape is None else f"an array of shape {shape} and {dtype}"
        raise ValueError(f"`loss` gives {got}; it must give one real number, such as a mean.")


def check_checkpoint(checkpoint: Any) -> Path | None:
    """The path of a checkpoint, if there is to be one."""
    if checkpoint is None:
        return None
    if not isinstance(checkpoint, str | Path):
        raise TypeError(
            f"`checkpoint` is {described(checkpoint)}; it must be the name of a file, or None."
        )
    return Path(checkpoint)


def check_losses_file(path: Path, leaves: list[Any]) -> dict[str, np.ndarray]:
    """The arrays of a checkpoint of the same policy and optimiser."""
    try:
        with saved_arrays(path) as file:
            found = {name: file.read(name) for name in file.names}
    except ValueError as error:
        raise ValueError(
            f"`checkpoint` is {str(path)!r}, which is no checkpoint of a training ({error}). Give another name."
        ) from None
    wanted = {f"state {i}": (x.shape, x.dtype) for i, x in enumerate(leaves)}
    got = {name: (x.shape, x.dtype) for name, x in found.items() if name != "losses"}
    losses = found.get("losses")
    if got != wanted or losses is None or losses.dtype != float or losses.ndim != 1:
        raise ValueError(
            f"`checkpoint` is {str(path)!r}, of another policy or optimiser: other shapes. Give another name."
        )
    if not all(np.all(np.isfinite(x)) for x in found.values()):
        raise ValueError(
            f"`checkpoint` is {str(path)!r}, which has numbers that are not finite. Give another name."
        )
    return found
