"""Checks of a training: its loss, its policy, its checkpoint."""

from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import equinox as eqx
import jax
import numpy as np

from jaxhamel._checks._arguments import check_count
from jaxhamel._checks._traced import called
from jaxhamel._checks._values import check_callable, type_of
from jaxhamel.control._checks._closed_loop import check_is_key


def check_training(loss, policy, updates, key, optimiser) -> None:
    """A policy with numbers to learn, an optimiser of optax, and a loss of it that is one real number."""
    check_callable("loss", loss, "of (policy, key)")
    check_count("updates", updates)
    if key is None:
        raise TypeError(
            "`key` is None; it must be one JAX random key, for example jax.random.key(0)."
        )
    check_is_key(key)
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


def check_losses_file(path: Path, leaves: list[Any]) -> dict[str, np.ndarray]:
    """The arrays of a checkpoint of the same policy and optimiser."""
    if not is_zipfile(path):
        raise ValueError(
            f"`checkpoint` is {str(path)!r}, which is no checkpoint of a training. Give another name."
        )
    with np.load(path, allow_pickle=False) as file:
        found = dict(file)
    wanted = {f"state {i}": (x.shape, x.dtype) for i, x in enumerate(leaves)}
    got = {name: (x.shape, x.dtype) for name, x in found.items() if name != "losses"}
    if got != wanted or "losses" not in found:
        raise ValueError(
            f"`checkpoint` is {str(path)!r}, of another policy or optimiser: other shapes. Give another name."
        )
    return found
