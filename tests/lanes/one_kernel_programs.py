"""Programs in one kernel that could abort the process. test_one_lane.py runs this file as a script and sees an abort.

XLA aborts with an internal error at a marked call with an unused argument: one that the program does not use, or one
whose use XLA's simplifier has removed.
"""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxhamel import ensemble
from jaxhamel._lanes._one_lane import one_lane
from jaxhamel._lanes._xla_cpu._one_kernel import as_one_kernel
from jaxhamel.ensemble import _simulate_lanes
from jaxhamel.ensemble._adaptive_steps import _adaptive_paths
from jaxhamel.systems import FreeRigidBody

jax.config.update("jax_enable_x64", True)

ARGUMENTS = (
    jnp.arange(3.0),
    jnp.array(2.0),
    jnp.zeros((2, 0)),
    jnp.arange(2),
    jnp.array(True),
    jnp.ones((1, 1), jnp.float32),
    jnp.ones(1, jnp.float16),
)

PROGRAMS = {
    "uses one": lambda x, a, *_: (x * a,),
    "uses none": lambda *_: (jnp.ones(2), jnp.array(3)),
    "is its arguments": lambda *each: each + each,
    "cancels": lambda x, a, e, n, b, *_: ((n - n) + 1, b & False, n * 0, jnp.where(b, a, a)),
    "is not finite": lambda x, a, *_: ((x - x) / 0.0, jnp.sum(x) * jnp.nan, a / jnp.inf),
    "picks": lambda x, a, e, n, b, *_: (
        lax.dynamic_index_in_dim(x, n[0], keepdims=False),
        lax.dynamic_index_in_dim(jnp.linspace(0.0, 1.0, 500), n[1], keepdims=False),
    ),
    "twice the same": lambda x, a, *_: (jnp.sin(x), jnp.sin(x), x[:0]),
    "decides": lambda x, a, e, n, b, f, h: (jnp.where(b, x, -x), f > 0, jnp.sum(h), n[0] // n[1]),
}


def total(results):
    return sum(jnp.sum(jnp.asarray(r, float)) for r in results)


def repeated(f, *each):
    return lax.fori_loop(0, 3, lambda _, c: c + total(f(*each)), jnp.zeros(()))


def by_turns(f, *each):
    step = lambda c, _: (c + total(f(*each)), c)
    return lax.scan(step, jnp.zeros(()), None, length=2)


def in_a_branch(f, *each):
    return lax.cond(each[4], lambda: total(f(*each)), lambda: jnp.zeros(()))


def remembered(f, *each):
    return jax.grad(jax.checkpoint(lambda x: total(f(x, *each[1:]))))(each[0])


def twofold(f, *each):
    return jax.hessian(lambda x, a: total(f(x, a, *each[2:])), (0, 1))(*each[:2])


def many(f, *each):
    return jax.vmap(f)(*(jnp.stack([x, x]) for x in each))


def first_only(f, *each):
    return f(*each)[0]


def last_only(f, *each):
    return f(*each)[-1]


def all_of(f, *each):
    return f(*each)


def of_constants(f, *each):
    return f(*map(np.asarray, ARGUMENTS))


def of_equal_constants(f, *each):
    return f(*(jnp.broadcast_to(jnp.asarray(2, x.dtype), x.shape) for x in each))


IN_KERNELS = (
    all_of,
    of_constants,
    of_equal_constants,
    first_only,
    last_only,
    repeated,
    in_a_branch,
)
IN_LANES = (all_of, of_constants, of_equal_constants, by_turns, many, remembered, twofold)


def check(ways, transformed):
    """Compares the transformed functions with the plain ones, except for numbers that are not finite, since lanes take
    0·NaN as 0.

    Each way has one program with all functions, since compiling eight programs would take longer.
    """
    wanted = jax.jit(lambda *each: [all_by(way, lambda f: f)(*each) for way in ways])(*ARGUMENTS)
    for way, right in zip(ways, wanted, strict=True):
        found = jax.jit(all_by(way, transformed))(*ARGUMENTS)
        for name in PROGRAMS:
            for a, b in zip(*map(jax.tree.leaves, (found[name], right[name])), strict=True):
                assert (a.shape, a.dtype) == (b.shape, b.dtype), (name, way)
                if name != "is not finite":
                    np.testing.assert_allclose(
                        np.asarray(a, float), np.asarray(b, float), rtol=1e-6
                    )


def all_by(way, transformed):
    return lambda *each: {name: way(transformed(f), *each) for name, f in PROGRAMS.items()}


def lane(f):
    return lambda *each: one_lane(lambda each: f(*each))(each)


def outside_of_jit():
    """A call of few lanes without `jit`. Were its kernel's function a program by itself, XLA would meet a fusion there."""
    x = jnp.arange(20.0).reshape(10, 2)
    found = ensemble.lanes(few)(x, x + 1)
    for a, b in zip(found, jax.vmap(few)(x, x + 1), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)


def few(x, y):
    return jnp.stack([x[0] + 2 * y[1] - y[0], 3 * x[1] + jnp.sin(y[1])]), x[0] * y[0]


def gradient_of_three():
    """Compiles the gradient of an adaptive ensemble of three, in which XLA replaces arguments by constants. FEWEST is
    lowered so that three lanes are enough; a method of two stages makes the program half as long."""
    for module in (_adaptive_paths, _simulate_lanes):
        module.FEWEST = 0
    q0, u0 = np.tile([1.0, 0, 0, 0], (3, 1)), jnp.ones((3, 3))
    ts = np.linspace(0.0, 0.4, 6)

    def cost(inertia, u0):
        body, given = FreeRigidBody(inertia), {"in_axes": (None, 0, 0, None), "rtol": 1e-8}
        motion = ensemble.simulate(body, q0, u0, ts, solver=diffrax.Heun(), **given)
        return jnp.sum(motion.u[:, -1] ** 2) + jnp.sum(motion.t_end)

    jax.jit(jax.grad(cost, (0, 1))).lower(jnp.array([1.0, 2.0, 2.5]), u0).compile()


if __name__ == "__main__":
    outside_of_jit()
    gradient_of_three()
    check(IN_KERNELS, as_one_kernel)
    check(IN_LANES, lane)
    print("no program ended the process")
