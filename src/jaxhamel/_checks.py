"""Every check of what a user passes: the message names the argument, what it got, what it accepts
and what to do.

Values are checked where they are concrete, at the boundary (construction, the call of `simulate`),
never inside a right-hand side, where one check by value costs a factor of three in time.
"""

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer


def concrete(value):
    """The value as a NumPy array, or None where there is nothing to look at.

    Under jit, vmap or grad the leaves are tracers, and None or a placeholder while a pytree is
    rebuilt: values are checked only where they are known, which is where a user's numbers enter.
    """
    known = int | float | np.number | np.ndarray | jax.Array
    if isinstance(value, Tracer) or not isinstance(value, known):
        return None
    return np.asarray(value)


def check_shape(name: str, value, shape: tuple[int | str, ...], next_step: str = "") -> None:
    """`value` has the given shape; an entry that is a string (an axis name) accepts any length."""
    got = getattr(value, "shape", None)
    if got is None or _same_shape(tuple(got), shape):
        return
    wanted = ", ".join(str(axis) for axis in shape) + ("," if len(shape) == 1 else "")
    raise ValueError(
        f"`{name}` has shape {tuple(got)}; it must have shape ({wanted}). {next_step}".rstrip()
    )


def _same_shape(got, wanted) -> bool:
    return len(got) == len(wanted) and all(
        isinstance(want, str) or want == have for want, have in zip(wanted, got, strict=True)
    )


def check_finite(name: str, value) -> None:
    """No NaN and no infinity."""
    array = concrete(value)
    if array is not None and not np.all(np.isfinite(array)):
        raise ValueError(
            f"`{name}` is {_short(array)}; every entry must be a finite number. "
            "Look where it was computed for a missing value or a division by zero."
        )


def check_positive(
    name: str, value, next_step: str = "Give it in SI units, larger than zero."
) -> None:
    """Every entry is finite and > 0."""
    check_finite(name, value)
    array = concrete(value)
    if array is not None and not np.all(array > 0):
        raise ValueError(f"`{name}` is {_short(array)}; it must be positive. {next_step}")


def check_not_negative(name: str, value, next_step: str = "Give it in SI units.") -> None:
    """Every entry is finite and >= 0."""
    check_finite(name, value)
    array = concrete(value)
    if array is not None and not np.all(array >= 0):
        raise ValueError(
            f"`{name}` is {_short(array)}; no entry may be negative, zero or more is accepted. "
            f"{next_step}"
        )


def check_inertia(name: str, value) -> None:
    """An inertia that a rigid body can have: symmetric, positive definite, triangle inequality.

    **Arguments:**

    - `name`: the argument as the user knows it.
    - `value`: `(3,)` principal moments along the body axes, or `(3, 3)`, kg m². Of tracers only
        the shape is known, and only that is checked.

    **Raises:** ValueError that names the argument, what it got, what it accepts and what to do.
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
    """Eigenvalues, ascending; symmetry is checked here because eigvalsh reads one triangle only."""
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
    largest, others = moments[2], moments[0] + moments[1]
    if largest > others + slack:
        raise ValueError(
            f"`{name}` has the principal moments {moments}; no rigid body has one larger than the "
            f"sum of the other two (the triangle inequality), and {largest:.6g} > {others:.6g}. "
            "Check the units, the point it is taken about, the sign of the products of inertia."
        )


def _rounding(array) -> float:
    """Slack for the rounding of the array's own precision, relative to its largest entry."""
    precision = np.finfo(array.dtype).eps if np.issubdtype(array.dtype, np.floating) else 0.0
    return 64.0 * float(precision) * float(np.max(np.abs(array)))


def check_unit_vectors(name: str, value) -> None:
    """Every vector (last axis 3) has length 1, to 1e-5."""
    check_finite(name, value)
    array = concrete(value)
    if array is None:
        return
    length = np.sqrt(np.sum(array * array, axis=-1))
    if np.any(np.abs(length - 1.0) > _UNIT):
        raise ValueError(
            f"`{name}` has vectors of length {_short(length)}; each must be a unit vector. "
            f"Divide it by `np.linalg.norm({name}, axis=-1, keepdims=True)`."
        )


def check_perpendicular(name: str, value, other_name: str, other) -> None:
    """Two arrays of unit vectors, perpendicular row by row, to 1e-5."""
    array, reference = concrete(value), concrete(other)
    if array is None or reference is None:
        return
    cosine = np.sum(array * reference, axis=-1)
    if np.any(np.abs(cosine) > _UNIT):
        raise ValueError(
            f"`{name}` must be perpendicular to `{other_name}`, row by row; the cosines of their "
            f"angles are {_short(cosine)}. "
            f"Subtract the part along `{other_name}` and make it a unit vector again."
        )


def _short(array) -> str:
    return np.array2string(np.asarray(array), precision=6, threshold=12)


_UNIT = 1e-5  # loose enough for vectors written with seven digits or in single precision


def check_frames(name: str, value, count: int) -> None:
    """`value` has one row for each time of a picture, and every entry is finite."""
    array = np.asarray(value)
    if array.ndim == 0 or len(array) != count:
        raise ValueError(
            f"`{name}` has shape {array.shape}; its first axis must have length {count}, one row for each entry of `ts`. "
            "Give arrays sampled at the same times."
        )
    if not np.all(np.isfinite(array)):
        row = int(np.argwhere(~np.isfinite(array))[0][0])
        raise ValueError(
            f"`{name}` is not finite at row {row}; a picture needs finite numbers. "
            "Cut the arrays before the time at which the simulation broke down."
        )


def check_route(route, routes) -> None:
    """A route to the equations of motion, by name."""
    if route is not None and route not in routes:
        raise ValueError(
            f"`route` is {route!r}; it must be one of {', '.join(map(repr, routes))}, "
            "or None for the fastest."
        )


def check_state(system, q, u) -> None:
    """A configuration of the system's space and as many quasi-velocities as are independent."""
    system.space.check(q, "q")
    k = system.n_independent
    if k < 0:
        raise ValueError(
            f"`n_constraints` of {type(system).__name__} is {system.n_constraints}; its space has "
            f"only {system.space.dim} dimensions. Count the constraint one-forms again."
        )
    next_step = (
        f"{type(system).__name__} has {k} independent quasi-velocities: {system.space.dim} "
        f"dimensions less {system.n_constraints} constraints."
    )
    check_shape("u", u, (k,), next_step)
    check_finite("u", u)


def check_frame_at(system, t, q) -> None:
    """A(t, q) is (n, n), finite and regular, and its constraint rows are independent."""
    n, m = system.space.dim, system.n_constraints
    matrix = system.frame(t, q)
    check_shape("frame(t, q)", matrix, (n, n), "It is A of u = A v, one row a quasi-velocity.")
    check_finite("frame(t, q)", matrix)
    array = concrete(matrix)
    if array is None or n == 0:
        return
    smallest = _smallest_relative_singular_value(array[:m])
    if smallest < _singular(array):
        raise ValueError(
            f"the first {m} rows of `frame(t, q)` are dependent constraint one-forms at t = {t}: "
            f"their smallest singular value is {smallest:.3g} of the largest. Constraints must be "
            "independent; drop the one that follows from the others and lower `n_constraints`."
        )
    smallest = _smallest_relative_singular_value(array)
    if smallest < _singular(array):
        raise ValueError(
            f"`frame(t, q)` is singular at t = {t}: its smallest singular value is {smallest:.3g} "
            "of the largest. A of u = A v must be invertible; choose other quasi-velocities for "
            "the free directions, or another start if the frame has a singular configuration."
        )


def _smallest_relative_singular_value(rows) -> float:
    if rows.shape[0] == 0:
        return 1.0
    values = np.linalg.svd(rows, compute_uv=False)
    return float(values[-1] / values[0]) if values[0] > 0 else 0.0


def _singular(array) -> float:
    return 100.0 * float(np.finfo(array.dtype).eps)


def check_control_value(t, control, shape, meaning: str) -> None:
    """A control gives an array of the given shape at time t, finite."""
    accepts = f"a callable of t (or a constant) with values of shape {shape}: {meaning}"
    if control is None:
        raise ValueError(f"`control` is missing; this system takes {accepts}.")
    value = control(t)
    if getattr(value, "shape", None) != shape:
        got = getattr(value, "shape", type(value).__name__)
        raise ValueError(f"`control` has values of shape {got}; it must be {accepts}.")
    array = concrete(value)
    if array is not None and not np.all(np.isfinite(array)):
        raise ValueError(
            f"`control` is {_short(array)} at t = {t}; it must be finite at all times. "
            "Look for a NaN among its coefficients or a time outside its span."
        )


def check_lie_group(solver, space, abstract_space: type) -> None:
    """A solver that LieGroup can wrap, and a space."""
    import diffrax

    if not isinstance(solver, diffrax.AbstractERK | diffrax.Euler):
        raise TypeError(
            f"`solver` is {_kind(solver)}; LieGroup wraps an explicit Runge-Kutta method of diffrax, "
            "for example diffrax.Tsit5() or diffrax.Dopri8()."
        )
    if not isinstance(space, abstract_space):
        raise TypeError(
            f"`space` is {_kind(space)}; LieGroup needs the configuration space, "
            "for example LieGroup(diffrax.Tsit5(), system.space)."
        )


def check_lie_group_state(space, y) -> None:
    """y = (q, rest) with q shaped as a configuration of `space`: structure and shapes only."""
    wanted = jax.eval_shape(space.identity)
    if isinstance(y, tuple) and len(y) == 2 and _shapes(y[0]) == _shapes(wanted):
        return
    raise ValueError(
        f"`y0` has the shapes {_shapes(y)}; LieGroup steps a pair (q, rest) with q of shapes "
        f"{_shapes(wanted)} ({type(space).__name__}). Under BacksolveAdjoint the backward state is no "
        "such pair: use RecursiveCheckpointAdjoint, DirectAdjoint or ForwardMode with LieGroup."
    )


def _kind(value) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return "None" if value is None else f"of type {type(value).__name__}"


def _shapes(tree):
    return jax.tree.map(lambda leaf: tuple(np.shape(leaf)), tree)


def check_dimension(name: str, value) -> None:
    """A dimension is a Python integer >= 0."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise TypeError(
            f"`{name}` is {value!r}; a dimension must be an integer, 0 or more. "
            "It fixes shapes, so give a plain int, not an array."
        )
    if value < 0:
        raise ValueError(f"`{name}` is {value}; a dimension must be 0 or more. Give its size.")


def check_spaces(spaces: tuple, kind: type) -> None:
    """The factors of a product: one or more configuration spaces."""
    if not spaces:
        raise ValueError(
            "`Product` got no spaces; it takes one or more. Use Euclidean(0) for a single point."
        )
    for i, space in enumerate(spaces):
        if not isinstance(space, kind):
            raise TypeError(
                f"`spaces[{i}]` of Product is {space!r}; it must be a configuration space. "
                "Write them as arguments, with parentheses: Product(SO3(), Euclidean(2))."
            )


def check_coordinates(name: str, value, shape: tuple[int, ...], what: str) -> None:
    """The stored coordinates of a configuration: an array of the right shape, finite."""
    if not hasattr(value, "shape"):
        raise TypeError(
            f"`{name}` is {value!r}; it must be an array of shape {shape}: {what}. "
            "Wrap it in `jax.numpy.asarray(..., dtype=float)`."
        )
    check_shape(name, value, shape, f"It is {what}.")
    check_finite(name, value)


def check_unit_quaternion(name: str, value) -> None:
    """The first four numbers are a unit quaternion: to 1e-6, in single precision to 1e-4."""
    array = concrete(value)
    if array is None:
        return
    norm = float(np.linalg.norm(array[:4].astype(np.float64)))
    single = np.issubdtype(array.dtype, np.floating) and np.finfo(array.dtype).eps > 1e-8
    if abs(norm - 1.0) > (1e-4 if single else 1e-6):
        raise ValueError(
            f"`{name}` has a quaternion of norm {norm:.9g}; it must be a unit quaternion "
            "(w, x, y, z). Divide it by its norm, or use `space.normalise`."
        )


def check_tuple(name: str, value, length: int) -> None:
    """The configuration of a product is a tuple with one entry for each factor."""
    got = len(value) if isinstance(value, tuple | list) else None
    if not isinstance(value, tuple) or got != length:
        kind = type(value).__name__ + ("" if got is None else f" of length {got}")
        raise ValueError(
            f"`{name}` is a {kind}; it must be a tuple of {length} configurations, one for each "
            "factor of the Product. `space.identity()` shows the structure."
        )


def check_last_axes(name: str, value, axes: tuple[int, ...], what: str) -> None:
    """The last axes have the given lengths; any axes may go before."""
    got = tuple(np.shape(value))
    if got[-len(axes) :] != axes:
        wanted = ", ".join(str(axis) for axis in axes)
        raise ValueError(
            f"`{name}` has shape {got}; it must have shape (..., {wanted}): {what}. "
            "Put the batch axes first."
        )


def check_vector(name: str, value) -> None:
    """An array with one axis."""
    if not hasattr(value, "shape") or len(value.shape) != 1:
        got = f"shape {value.shape}" if hasattr(value, "shape") else f"type {type(value).__name__}"
        raise ValueError(
            f"`{name}` has {got}; without a `space` it must be a point of Euclidean(n), an array "
            "of shape (n,). Give `space=` for any other configuration."
        )


def check_frame_matrix(name: str, value, n: int) -> None:
    """A(q) is (n, n), finite and regular."""
    check_shape(name, value, (n, n), "It is A of u = A v, one row a quasi-velocity.")
    check_finite(name, value)
    array = concrete(value)
    if array is None or n == 0:
        return
    smallest = _smallest_relative_singular_value(array)
    if smallest < _singular(array):
        raise ValueError(
            f"`{name}` is singular: its smallest singular value is {smallest:.3g} of the largest. "
            "A of u = A v must be invertible; choose another frame or move q away from where this "
            "one breaks down."
        )


def check_frame_axis(name: str, value) -> None:
    """A vector that e_3 can be turned into by a unique shortest rotation: not zero, not along -e_3."""
    check_finite(name, value)
    array = concrete(value)
    if array is None:
        return
    length = float(np.sqrt(np.sum(array * array)))
    if length == 0.0 or array[2] < -(1.0 - _UNIT) * length:
        raise ValueError(
            f"`{name}` is {_short(array)}; it must be a vector that is neither zero nor along "
            f"(0, 0, -1), where its frame is singular. `-{name}` is the same constraint."
        )


def check_rails(rails, n_masses: int) -> None:
    """Rails for the moving masses: callable, and where they say how many they carry, as many."""
    if n_masses and not callable(rails):
        raise ValueError(
            f"`rails` is {rails!r} but `masses` has {n_masses} entries; rails are a callable "
            "theta (n,) -> positions (n, 3). Use CircularRails, StraightRails, ..."
        )
    carried = getattr(rails, "n_masses", n_masses)
    if carried != n_masses:
        raise ValueError(
            f"`rails` carry {carried} masses but `masses` has {n_masses} entries; "
            "both must be the same number. Give every mass its rail."
        )


def check_arrays(**named) -> None:
    """Every leaf can become a real array."""
    for name, value in named.items():
        for leaf in jax.tree.leaves(value, is_leaf=lambda x: x is None):
            kind = getattr(leaf, "dtype", None)
            kind = np.asarray(leaf).dtype if kind is None else np.dtype(kind)
            if kind.kind not in "iufV":  # V: bfloat16 and its like
                raise TypeError(
                    f"`{name}` is {_kind(leaf)} of dtype {kind}; it must be made of real numbers. "
                    "Give an array, a list of numbers, or a tuple of those on a product space."
                )


def check_simulation(system, q0, u0, ts, control, steps) -> None:
    """What `simulate` is given, where it is concrete: times, state, frame, control, tolerances."""
    check_times(ts)
    check_steps(**steps)
    system.space.check(q0, "q0")
    k = system.space.dim - system.n_constraints
    check_shape("u0", u0, (k,), f"{type(system).__name__} has {k} independent quasi-velocities.")
    check_finite("u0", u0)
    check_control_along(ts, control)
    system.check_control(ts[0], control)
    check_frame_at(system, ts[0], q0)


def check_times(ts) -> None:
    """One-dimensional, not empty, finite, strictly increasing."""
    check_shape("ts", ts, ("T",), "Give the times in a list or an array, ts[0] the initial time.")
    if ts.shape[0] == 0:
        raise ValueError("`ts` is empty; it must have at least the initial time as `ts[0]`.")
    check_finite("ts", ts)
    array = concrete(ts)
    if array is None or np.all(np.diff(array) > 0):
        return
    at = int(np.argmax(np.diff(array) <= 0))
    raise ValueError(
        f"`ts` is out of order: ts[{at}] = {array[at]:.9g} and ts[{at + 1}] = {array[at + 1]:.9g}; "
        "times must be strictly increasing. Sort them, or drop repeated ones; to go backwards in "
        "time use diffrax.diffeqsolve with jaxhamel.vector_field."
    )


def check_steps(rtol, atol, dt) -> None:
    """Tolerances or a step, each a positive scalar."""
    if dt is not None and (rtol is not None or atol is not None):
        raise ValueError(
            "`dt` is given together with `rtol` or `atol`; give `dt` alone for fixed steps, or the "
            "tolerances alone for adaptive ones."
        )
    for name, value in {"rtol": rtol, "atol": atol, "dt": dt}.items():
        if value is None:
            continue
        check_arrays(**{name: value})
        if np.shape(value) != ():
            raise ValueError(f"`{name}` has shape {np.shape(value)}; it must be one number.")
        check_positive(name, value, "It is a step [s] or a tolerance, say dt=0.01 or rtol=1e-8.")


def check_control_along(ts, control) -> None:
    """A control is finite at all times of `ts`, where both are concrete."""
    times = concrete(ts)
    if control is None or times is None or _any_tracer(control):
        return
    values = _evaluate_control(control, ts)
    if _any_tracer(values):  # the control closes over traced values
        return
    for leaf in jax.tree.leaves(values):
        bad = ~np.isfinite(np.asarray(leaf)).reshape(len(times), -1).all(axis=1)
        if bad.any():
            raise ValueError(
                f"`control` is not finite at t = {times[np.argmax(bad)]:.9g}: "
                f"{_short(np.asarray(leaf)[np.argmax(bad)])}. It must be finite at all times; look "
                "for a NaN among its coefficients or a time outside its span."
            )


def check_options(solver, adjoint, max_steps, route) -> None:
    """Solver and adjoint are diffrax's, max_steps is a positive integer."""
    import diffrax

    if solver is not None and not isinstance(solver, diffrax.AbstractSolver):
        raise TypeError(
            f"`solver` is {_kind(solver)}; it must be a diffrax solver such as diffrax.Tsit5() or "
            "jaxhamel.LieGroup(diffrax.Dopri8(), system.space), with the parentheses."
        )
    if adjoint is not None and not isinstance(adjoint, diffrax.AbstractAdjoint):
        raise TypeError(
            f"`adjoint` is {_kind(adjoint)}; it must be a diffrax adjoint such as "
            "diffrax.ForwardMode(), or None to have it chosen."
        )
    is_count = isinstance(max_steps, int | np.integer) and not isinstance(max_steps, bool)
    if max_steps is not None and not (is_count and max_steps > 0):
        raise ValueError(
            f"`max_steps` is {max_steps!r}; it must be a positive whole number, or None."
        )


def check_adjoint(adjoint, solver) -> None:
    """BacksolveAdjoint integrates a state backwards that is no configuration."""
    import diffrax

    if isinstance(adjoint, diffrax.BacksolveAdjoint) and hasattr(solver, "space"):
        raise ValueError(
            "`adjoint` is BacksolveAdjoint, which cannot step the state of a LieGroup solver "
            "backwards; use diffrax.RecursiveCheckpointAdjoint(), diffrax.ForwardMode(), or None."
        )


def check_dense(interpolation) -> None:
    """There is something to interpolate."""
    if interpolation is None:
        raise ValueError(
            "this trajectory has only the states at `ts`; call simulate(..., dense=True) to be "
            "able to evaluate it in between."
        )


def _any_tracer(tree) -> bool:
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree))


@eqx.filter_jit
def _evaluate_control(control, ts):
    return jax.vmap(control)(ts)


# --- control ----------------------------------------------------------------------------------------------------------


def check_spline(coefficients, t0, t1, degree) -> None:
    """Coefficients `(J, n)`, more than the degree; times in order."""
    check_shape("coefficients", coefficients, ("n_coefficients", "n"), "One row for each basis.")
    check_finite("coefficients", coefficients)
    if not isinstance(degree, int) or not 2 <= degree <= 9:
        raise ValueError(
            f"`degree` is {degree!r}; it must be a whole number from 2 to 9. Take 5, or 3."
        )
    if coefficients.shape[0] <= degree:
        raise ValueError(
            f"`coefficients` has {coefficients.shape[0]} rows; a spline of degree {degree} takes "
            f"at least {degree + 1}. Give more coefficients or a lower `degree`."
        )
    _check_span("t0", t0, "t1", t1)


def _check_span(first: str, t0, last: str, t1) -> None:
    check_finite(first, t0)
    check_finite(last, t1)
    start, end = concrete(t0), concrete(t1)
    if start is not None and end is not None and not start < end:
        raise ValueError(
            f"`{first}` is {start:.9g} and `{last}` is {end:.9g}; times must increase. Swap them?"
        )


def check_samples(ts, values, n_coefficients) -> None:
    """Samples to fit a spline to: increasing times, a row of values for each, enough of them."""
    check_times(ts)
    check_shape("values", values, (len(ts), "n"), "One row for each time.")
    check_finite("values", values)
    if len(ts) < n_coefficients:
        raise ValueError(
            f"`ts` has {len(ts)} samples; {n_coefficients} coefficients take at least as many. "
            "Give more samples or fewer coefficients."
        )


def check_fourier(mean, cosine, sine, period) -> None:
    """Shapes that belong together, a positive period."""
    check_shape("mean", mean, ("n",))
    check_shape("cosine", cosine, ("n_harmonics", mean.shape[0]), "One row for each harmonic.")
    check_shape("sine", sine, cosine.shape, "As many rows as `cosine`.")
    for name, value in (("mean", mean), ("cosine", cosine), ("sine", sine)):
        check_finite(name, value)
    check_positive("period", period)


def check_limits(lower, upper) -> None:
    """lower < upper, of one shape."""
    check_shape("upper", upper, lower.shape, "The shape of `lower`.")
    low, high = concrete(lower), concrete(upper)
    if low is not None and high is not None and not np.all(low < high):
        raise ValueError(
            f"`lower` is {_short(low)} and `upper` is {_short(high)}; each lower limit must be "
            "below its upper one. Swap them?"
        )


def check_ramp(ramp, period) -> None:
    """0 <= ramp <= period."""
    check_not_negative("ramp", ramp, "Give the time in which speed is gained, in s.")
    value, whole = concrete(ramp), concrete(period)
    if value is not None and whole is not None and value > whole:
        raise ValueError(
            f"`ramp` is {value:.9g} s and `period` {whole:.9g} s; the start can take no longer "
            "than the whole. Shorten `ramp`."
        )


def check_callable(name: str, value, signature: str) -> None:
    """A function is a function."""
    if not callable(value):
        raise TypeError(f"`{name}` is {_kind(value)}; it must be a callable {signature}.")


def check_control_problem(problem) -> None:
    """The state is one of the system's, times increase, the curve is finite along them, the guess fits."""
    check_state(problem.system, problem.q0, problem.u0)
    problem.system.space.check(problem.q0, "q0")
    check_finite("u0", problem.u0)
    check_times(problem.ts)
    check_callable("curve", problem.curve, "pytree t -> (n,), such as control.Spline")
    check_control_along(problem.ts, problem.curve)
    for name, kind in (("costs", "running"), ("constraints", "residual")):
        for item in getattr(problem, name):
            if not hasattr(item, kind):
                raise TypeError(
                    f"`{name}` holds {_kind(item)}; it takes objects of jaxhamel.control with a "
                    f"method `{kind}`, in a tuple."
                )
    _check_guess(problem)


def _check_guess(problem) -> None:
    given, start = problem.guess, (problem.q0, problem.u0)
    nodes = len(problem.ts)
    wanted = jax.tree.map(lambda x: (nodes, *x.shape), start)
    got = jax.tree.map(lambda x: tuple(x.shape), given)
    if wanted != got:
        raise ValueError(
            f"`guess` has shapes {got}; it must be (q, u) at each of the {nodes} times of `ts`: "
            f"{wanted}. Leave it out to start from (q0, u0) everywhere."
        )
    for leaf in jax.tree.leaves(given):
        check_finite("guess", leaf)


def check_shooting(method) -> None:
    """Steps even and positive, an explicit Runge–Kutta solver, limits positive."""
    if not isinstance(method.steps, int) or method.steps < 2 or method.steps % 2:
        raise ValueError(
            f"`steps` is {method.steps!r}; it must be an even number, 2 or more, best "
            "a multiple of 6, for the rule that integrates costs."
        )
    if not hasattr(method.solver, "tableau") or not hasattr(method.solver.tableau, "a_lower"):
        raise TypeError(
            f"`solver` is {_kind(method.solver)}; multiple shooting takes an explicit Runge–Kutta "
            "method of diffrax, such as diffrax.Dopri8() or diffrax.Tsit5()."
        )
    for name in ("max_iterations", "max_seconds", "damping", "penalty", "defect_tolerance"):
        check_positive(name, getattr(method, name), "Give a number larger than zero.")


def check_samples_per_interval(samples) -> None:
    """An even number, for the quadrature."""
    if not isinstance(samples, int) or samples < 2 or samples % 2:
        raise ValueError(
            f"`samples` is {samples!r}; it must be an even number, 2 or more, best a multiple of "
            "6, for the rule that integrates costs."
        )


def check_optimiser(optimiser) -> None:
    """An optax optimiser."""
    if not hasattr(optimiser, "init") or not hasattr(optimiser, "update"):
        raise TypeError(
            f"`optimiser` is {_kind(optimiser)}; it must be an optax optimiser such as "
            "optax.adam(1e-2) or optax.lbfgs(), with the parentheses."
        )


def check_method(method, name: str) -> None:
    """A method of optimisation, able to do what is asked."""
    if not callable(getattr(method, name, None)) or isinstance(method, type):
        raise TypeError(
            f"`method` is {_kind(method)}; it must be one that can `{name}`: "
            "control.MultipleShooting(), control.GradientDescent(optax.adam(1e-2)) or, for one "
            "start, control.SingleShooting()."
        )
