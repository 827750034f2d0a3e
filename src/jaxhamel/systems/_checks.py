"""Checks of inertias, rails, axes of bodies and surfaces of the ground."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel._checks._values import UNIT_TOLERANCE, check_finite, check_shape, concrete, inline
from jaxhamel._shapes import Seen
from jaxhamel._words import counted


def check_inertia(name: str, value) -> None:
    """Checks that a rigid body can have the inertia: symmetric, positive definite, with the triangle inequality.

    **Arguments:**

    - `name`: name of the argument in the user's call.
    - `value`: `(3,)` principal moments along the body axes, or `(3, 3)`, kg m². For tracers only the shape is checked.

    **Raises:** `ValueError` that names the argument, its value, the accepted values and the remedy.
    """
    shape = tuple(getattr(value, "shape", (3,)))
    if shape not in ((3,), (3, 3)):
        raise ValueError(
            f"`{name}` has shape {shape}; an inertia is (3,), the principal moments along the body "
            "axes, or (3, 3), the whole symmetric matrix, in kg m². "
            "For a batch of bodies make the system inside `jax.vmap`."
        )
    check_finite(name, value)
    array = concrete(value)
    if array is not None:
        _check_moments(name, _principal_moments(name, array), _rounding(array))


def _principal_moments(name, array):
    """Eigenvalues in ascending order; the symmetry is checked first, since eigvalsh reads one triangle only."""
    if array.ndim == 1:
        return np.sort(array)
    asymmetry = np.max(np.abs(array - array.T))
    if asymmetry > _rounding(array):
        raise ValueError(
            f"`{name}` is not symmetric: it differs from its transpose by up to {asymmetry:.3g}. "
            "An inertia matrix is symmetric: look at its products of inertia, "
            "or take (I + I.T) / 2 if the difference is rounding."
        )
    return np.linalg.eigvalsh(array)


def _check_moments(name, moments, slack) -> None:
    if moments[0] <= 0:
        raise ValueError(
            f"`{name}` has the principal moments {moments}; all three must be positive "
            "(a positive definite inertia). "
            "Give a thin rod or a point a small positive moment about every axis."
        )
    _check_triangle(name, moments, slack)


def _check_triangle(name, moments, slack) -> None:
    largest, others = moments[2], moments[0] + moments[1]
    if largest > others + slack:
        raise ValueError(
            f"`{name}` has the principal moments {moments}; no rigid body has one larger than the "
            f"sum of the other two (the triangle inequality), and {largest:.6g} > {others:.6g}. "
            "Check the units, the point it is taken about, the sign of the products of inertia."
        )


def _rounding(array) -> float:
    """Tolerance for rounding errors in the array's own precision, relative to its largest entry."""
    precision = np.finfo(array.dtype).eps if np.issubdtype(array.dtype, np.floating) else 0.0
    return 64.0 * float(precision) * float(np.max(np.abs(array)))


def check_inertias(name: str, value, n: int) -> None:
    """Like `check_inertia` for n bodies, `(n, 3)` or `(n, 3, 3)`; zero moments are allowed, as those of a point or a rod."""
    shape = tuple(getattr(value, "shape", (n, 3)))
    if shape not in ((n, 3), (n, 3, 3)):
        raise ValueError(
            f"`{name}` has shape {shape}; it must be ({n}, 3), principal moments of each body, or "
            f"({n}, 3, 3), in kg m². Give one row for each; zeros for a point mass."
        )
    check_finite(name, value)
    array = concrete(value)
    for place, body in enumerate(() if array is None else array):
        moments, slack = _principal_moments(f"{name}[{place}]", body), _rounding(body)
        if moments[0] < -slack:
            raise ValueError(
                f"`{name}[{place}]` has the principal moments {moments}; none may be negative. "
                "Check the signs of the products of inertia, and the point it is taken about."
            )
        _check_triangle(f"{name}[{place}]", moments, slack)


def check_pendula(masses, inertias, axes, coms) -> None:
    """Checks that each pendulum has a positive moment of inertia about its axis: a·J a + m |a × c|² > 0."""
    m, inertia, a, c = (concrete(value) for value in (masses, inertias, axes, coms))
    if m is None or inertia is None or a is None or c is None:
        return
    offset = np.cross(a, c)
    about = np.einsum("ni,nij,nj->n", a, inertia, a) + m * np.sum(offset * offset, axis=1)
    if np.any(about <= 0):
        raise ValueError(
            f"`coms` and `inertias` give the pendula the moments of inertia {inline(about)} about "
            "their axes; each must be positive, or a torque has nothing to turn. Move the centre "
            "of mass off the axis, or give the pendulum an inertia."
        )


def check_rotors(inertia, axes, rotor_inertias) -> None:
    """Checks that a rigid body can have the ball's inertia minus the axial inertias of its rotors."""
    whole, a, j = (concrete(value) for value in (inertia, axes, rotor_inertias))
    if whole is None or a is None or j is None:
        return
    whole = np.diag(whole) if whole.ndim == 1 else whole
    left = np.linalg.eigvalsh(whole - np.einsum("n,ni,nj->ij", j, a, a))
    if left[0] <= 0:
        raise ValueError(
            f"`inertia` less the rotors' own about their axes has the principal moments {left}; "
            "all must be positive, because `inertia` is that of the ball with its rotors held. "
            "Add the rotors to `inertia`, or make `rotor_inertias` smaller."
        )


def check_added_mass(name: str, value) -> None:
    """Checks that the added mass of a fluid is `(6, 6)`, symmetric and without negative eigenvalues."""
    check_shape(name, value, (6, 6), "It is for (omega, v), angular first.")
    check_finite(name, value)
    array = concrete(value)
    if array is None:
        return
    asymmetry, slack = np.max(np.abs(array - array.T)), _rounding(array)
    smallest = np.linalg.eigvalsh(array)[0]
    if asymmetry > slack or smallest < -slack:
        raise ValueError(
            f"`{name}` differs from its transpose by up to {asymmetry:.3g} and has the smallest "
            f"eigenvalue {smallest:.6g}; it must be symmetric, without negative eigenvalues. "
            "Check the order (omega, v) and the signs of the coupling blocks."
        )


def check_axisymmetric(name: str, matrix) -> None:
    """Checks that an inertia `(3, 3)` has the form diag(A, A, C)."""
    array = concrete(matrix)
    if array is None:
        return
    axial = np.diag([array[0, 0], array[0, 0], array[2, 2]])
    if np.max(np.abs(array - axial)) > UNIT_TOLERANCE * np.max(np.abs(array)):
        raise ValueError(
            f"`{name}` is {inline(array)}; this formula holds for (A, A, C) alone, the same about e_1 and e_2. "
            "For any other use `jaxhamel.mechanics.relative_equilibrium` or `jaxhamel.simulate`."
        )


def check_frame_axis(name: str, value) -> None:
    """Checks that a vector is neither zero nor along −e_3, so that a unique shortest rotation takes e_3 to it."""
    check_finite(name, value)
    array = concrete(value)
    if array is None:
        return
    length = float(np.sqrt(np.sum(array * array)))
    if length == 0.0 or array[2] < -(1.0 - UNIT_TOLERANCE) * length:
        raise ValueError(
            f"`{name}` is {inline(array)}; it must be a vector that is neither zero nor along "
            f"(0, 0, -1), where its frame is singular. `-{name}` is the same constraint."
        )


def check_ground(ground) -> None:
    """Checks that the ground is None or a callable of coordinates `(2,)` that gives a height or a point `(3,)`."""
    if ground is None:
        return
    accepts = (
        "a callable of x (2,) that gives the height there, a number, or a point in space, (3,)"
    )
    if not callable(ground) or isinstance(ground, type):
        got = getattr(ground, "tolist", ground.__repr__)()
        raise ValueError(
            f"`ground` is {got}; it is {accepts}, such as systems.Terrain, or None for the plane."
        )
    with _GROUNDS.once(ground) as is_new:
        if is_new:
            found = jax.eval_shape(ground, jax.ShapeDtypeStruct((2,), jnp.result_type(float)))
            shape = getattr(found, "shape", None)
            if shape not in ((), (3,)):
                got = (
                    f"an array of shape {shape}"
                    if shape is not None
                    else f"a {type(found).__name__}"
                )
                raise ValueError(f"`ground` gives {got} for x of shape (2,); it is {accepts}.")


_GROUNDS = Seen()  # the surfaces checked before, by class and shapes


def check_rails(rails, n_masses: int) -> None:
    """Checks that the rails are callable, and that the number of masses that they state, if any, is that of the system."""
    if n_masses and (not callable(rails) or isinstance(rails, type)):
        raise ValueError(
            f"`rails` is {rails!r} but `masses` has {n_masses} entries; rails are a callable "
            "theta (n,) -> positions (n, 3). Use CircularRails, StraightRails, ..."
        )
    carried = getattr(rails, "n_masses", n_masses)
    if carried != n_masses:
        raise ValueError(
            f"`rails` carry {counted(carried, 'mass', 'masses')} but `masses` has {counted(n_masses, 'entry')}; "
            "both must be the same number. Give every mass its rail."
        )
    with _RAILS.once(rails, n_masses) as is_new:
        if n_masses and is_new:
            _check_positions(rails, n_masses)


_RAILS = Seen()  # the rails checked before, by class and shapes: each kind is traced once


def _check_positions(rails, n: int) -> None:
    """Checks that rails map θ `(n,)` to `(n, 3)`.

    The rails are called with NumPy arrays, which raise for an index beyond θ; JAX would clip it.
    """
    accepts = (
        f"rails are a callable theta ({n},) -> positions ({n}, 3), one coordinate for each mass"
    )
    try:
        found = jax.eval_shape(lambda: rails(np.zeros(n)))
    except IndexError as error:
        raise ValueError(
            f"`rails` ask for more coordinates than theta has, {n} for {counted(n, 'mass', 'masses')} ({error}); {accepts}."
        ) from None
    except (TypeError, AttributeError):
        return  # the rails do not accept NumPy arrays
    if getattr(found, "shape", None) != (n, 3):
        got = getattr(found, "shape", None)
        said = f"an array of shape {got}" if got is not None else f"a {type(found).__name__}"
        raise ValueError(f"`rails` give {said} for theta of shape ({n},); {accepts}.")
