"""All versions of the same numbers, and their differences."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxhamel
from jaxhamel import ensemble
from jaxhamel.mechanics import ROUTES, as_control
from jaxhamel.mechanics._constraints._multipliers import multiplier_of_motion
from tests.n_version.coordinates import by_coordinates
from tests.n_version.kinds import wave

EPS = np.finfo(float).eps
LARGE = 10  # beyond this dimension systems are computed one after another


def of_each(one, n, *batch):
    """Applies `one` to each system of a batch. Beyond `LARGE` it uses `lax.map`, since LAPACK's batched calls can
    deadlock (jaxlib 0.10, docs/performance.md)."""
    if n <= LARGE:
        return jax.vmap(one)(*batch)
    return jax.lax.map(lambda given: one(*given), batch)


def control_of(kind):
    """The control, if a system of this kind takes one."""
    return as_control(wave) if kind.force or kind.prescribed or kind.bodies else None


@eqx.filter_jit
def accelerations(batch, control):
    """Name → u̇ `(count, k)` by each route and in coordinates; λ by two of them; the condition number of each."""

    def one(system, t, q, u):
        found = {name: route(system, t, q, u, control) for name, route in ROUTES.items()}
        other, multiplier, condition = by_coordinates(system, t, q, u, control)
        own = multiplier_of_motion(system, t, q, u, other, control)
        return found | {"coordinates": other}, (own, multiplier), condition

    return of_each(one, batch[0].space.dim, *batch)


@eqx.filter_jit
def derivatives(batch, tangents, control):
    """Name → the derivative of u̇ along one direction in parameters, t, q and u, by each route and in coordinates."""
    forms = ROUTES | {"coordinates": lambda *args: by_coordinates(*args)[0]}

    def one(state, tangent):
        return {
            name: eqx.filter_jvp(lambda *state, f=f: f(*state, control), state, tangent)[1]
            for name, f in forms.items()
        }

    return of_each(one, batch[0].space.dim, batch, tangents)


@eqx.filter_jit
def in_single_precision(batch, control):
    """u̇ `(count, k)` by the default route, everything in float32."""
    single = lambda x: x.astype(jnp.float32) if eqx.is_inexact_array(x) else x
    batch = jax.tree.map(single, batch)
    one = lambda *state: ROUTES["gauss"](*state, control)
    return of_each(one, batch[0].space.dim, *batch)


def directions(seed, batch):
    """A random direction in all numbers of a batch, tangent to its groups: q is moved by `rate`."""
    generator = np.random.default_rng(seed)
    normal = lambda x: jnp.asarray(generator.normal(size=x.shape), x.dtype)
    system, t, q, u = batch
    count, n = u.shape[0], system.space.dim
    v = jnp.asarray(generator.normal(size=(count, n)), u.dtype)
    weights = jax.tree.map(normal, system.weights)
    if "points" in weights:  # an inertia stays symmetric
        root = weights["points"]["inertia"]
        weights["points"]["inertia"] = root + jnp.swapaxes(root, 1, 2)
    space = jax.tree.map(jnp.zeros_like, system.space)
    d_system = eqx.tree_at(lambda s: (s.weights, s.space), system, (weights, space))
    d_q = jax.vmap(lambda system, q, v: system.space.rate(q, v))(system, q, v)
    return d_system, jnp.zeros_like(t), d_q, normal(u)


@eqx.filter_jit
def in_lanes(batch, control):
    """u̇ `(count, k)` of the default route by `ensemble.lanes`."""
    return ensemble.lanes(lambda *state: ROUTES["gauss"](*state, control))(*batch)


TS = np.array([0.0, 0.05, 0.1])


def motions(batch, control):
    """Name → the last (q, u) as one array, by each form in which an ensemble is integrated, in pairs that should be
    equal.

    Equal steps of Tsit5 by `simulate` under `vmap`, `ensemble.simulate` and `rollout`; adaptive steps by the first two.
    """
    system, _, q, u = batch

    def vmapped(options):
        run = lambda *state: jaxhamel.simulate(*state, TS, control, **options)
        return eqx.filter_jit(jax.vmap(run))(system, q, u)

    axes = {"in_axes": (0, 0, 0, None)}
    equal = {"dt": 0.025, "solver": diffrax.Tsit5()}
    adaptive = {"rtol": 1e-8, "atol": 1e-10}
    found = {}
    for name, options in (("equal", equal), ("adaptive", adaptive)):
        one = vmapped(options | {"max_steps": 100})
        many = ensemble.simulate(system, q, u, TS, control, **axes, **options)
        found[name] = {"vmap": last(one.q, one.u), "ensemble": last(many.q, many.u)}
    rolled = ensemble.rollout(system, q, u, TS, control, dt=0.025, method=diffrax.Tsit5(), **axes)
    found["equal"]["rollout"] = last(*rolled)
    return found


def last(q, u):
    """The state at the last time, with a row for each trajectory."""
    leaves = [np.asarray(x)[:, -1].reshape(len(u), -1) for x in jax.tree.leaves((q, u))]
    return np.concatenate(leaves, axis=1)


def difference(found, reference):
    """For each version, its largest difference from the reference in each system, relative to 1 + the reference's size:
    name → (count,)."""
    wanted = np.asarray(found[reference])
    if wanted.shape[1] == 0:
        return {}
    scale = 1.0 + np.max(np.abs(wanted), axis=1)
    return {
        name: np.max(np.abs(np.asarray(value) - wanted), axis=1) / scale
        for name, value in found.items()
        if name != reference
    }
