"""Checks of the unknown parameters: paths, bounds, priors, inertias."""

import numpy as np
from jax.tree_util import tree_flatten_with_path

from jaxhamel._checks._values import (
    check_finite,
    check_positive,
    concrete,
    described,
    inline,
    path_of,
    type_of,
)
from jaxhamel.identify._parameters._paths import leaf_of
from jaxhamel.systems._checks import check_inertia


def check_realisable(name: str, value) -> None:
    """Checks that an inertia is that of a body with volume: each principal moment is less than the sum of the other two."""
    check_inertia(name, value)
    array = concrete(value)
    if array is None:
        return
    moments = np.sort(array) if array.ndim == 1 else np.linalg.eigvalsh(array)
    if moments[0] + moments[1] - moments[2] <= 1e-9 * moments[2]:
        raise ValueError(
            f"`{name}` has the principal moments {inline(moments)}, those of a flat body: the largest is the sum of the "
            "others, so that the logarithm of the thickness is infinite. Start with a body of some thickness: make the "
            "largest moment a percent smaller."
        )


def check_prior(
    mean, std, relative: bool, exact: str = "For a value that is known exactly use `frozen`."
) -> None:
    """Checks that the prior has a finite mean and a positive width; a relative one needs a positive mean."""
    check_finite("mean", mean)
    if not np.all(np.asarray(std) > 0):
        raise ValueError(
            f"`std` is {inline(std)}; it must be a positive standard deviation. {exact}"
        )
    if relative:
        check_positive("mean", mean, "A relative prior is one of log x.")


def check_path_is_text(path) -> None:
    """Checks that the path of a leaf is a string."""
    if not isinstance(path, str):
        raise TypeError(
            f"`path` is {described(path)}; it must be the path of a leaf in words, such as 'shell_mass' or 'rails.radius'."
        )


def check_path(system, path) -> None:
    """Checks that the path leads to a floating-point leaf of the system."""
    try:
        place = leaf_of(system, str(path))
    except (AttributeError, LookupError, TypeError):
        place = None
    kind = getattr(place, "dtype", None)
    if kind is not None and np.dtype(kind).kind in "fV":
        return
    if kind is not None or isinstance(place, int | float):
        raise ValueError(
            f"`{path}` of {type(system).__name__} is {type_of(place)}{'' if kind is None else f' and dtype {kind}'}; a "
            f"parameter must be a JAX array of floating-point numbers. Give jnp.asarray({place}, float)."
        )
    raise ValueError(
        f"`{path}` is no parameter of {type(system).__name__}; it has {', '.join(_paths(system))}. "
        "Give one of these paths."
    )


def _paths(system) -> list[str]:
    return [path_of(keys) for keys, _ in tree_flatten_with_path(system)[0]]


def check_unit(path: str, unit) -> None:
    """Checks that a unit is text, since numbers in its place are meant for later arguments."""
    if not isinstance(unit, str):
        raise TypeError(
            f"`unit` of `{path}` is {described(unit)}; it must be text, such as 'kg'. Give all other arguments by name, "
            "such as lower=0.1, upper=2.0, frozen=True."
        )


def check_frozen(path: str, frozen, shape: tuple[int, ...]) -> tuple[bool, ...]:
    """The mask of frozen entries, checked and flattened: one value for each entry of a leaf with this shape."""
    mask = np.asarray(frozen)
    if mask.dtype != bool or mask.shape not in ((), shape):
        raise ValueError(
            f"`frozen` of `{path}` is {frozen!r}; it must be True, False, or such a value for each entry, "
            f"shape {shape}."
        )
    return tuple(np.broadcast_to(mask, shape).ravel().tolist())


def check_frozen_names(path: str, frozen, names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the frozen parts of a body as a tuple; checks that each is one of `names`."""
    given = (frozen,) if isinstance(frozen, str) else tuple(frozen)
    if not set(given) <= set(names):
        raise ValueError(
            f"`frozen` of `{path}` is {given}; it may name {', '.join(map(repr, names))}, in a tuple."
        )
    return given


def check_inside(path: str, values, lower: float, upper: float) -> None:
    """Checks that the bounds are in order and that the start lies strictly between them."""
    for name, bound in (("lower", lower), ("upper", upper)):
        check_finite(f"{name}` of `{path}", bound)
    if not lower < upper:
        raise ValueError(
            f"`lower` of `{path}` is {lower:g} and `upper` {upper:g}; each lower bound must be below its upper one."
        )
    if not np.all((values > lower) & (values < upper)):
        raise ValueError(
            f"`{path}` is {inline(values)}; it must start inside its bounds, {lower:g} to {upper:g}, not on them. "
            "Move the start or the bounds."
        )


def check_parameters(parameters) -> None:
    """Checks that no array of the system, and no part of one, belongs to two parameters."""
    paths = [
        getattr(p, key) for p in parameters for key in ("path", "mass", "com") if hasattr(p, key)
    ]
    twice = {path for path in paths if paths.count(path) > 1}
    inside = {
        f"{part} with {whole}" for whole in paths for part in paths if part.startswith(f"{whole}.")
    }
    if twice or inside:
        raise ValueError(
            f"`parameters` has {', '.join(sorted(twice | inside))} more than once; give each number once."
        )
