"""Programs with loops, compiled without the tests' XLA flags. test_whole_loop.py runs this file as a script.

Loops that cannot be one kernel must be found beforehand: XLA fails only when it compiles them, or aborts the process.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxhamel import simulate
from jaxhamel._lanes._xla_cpu import _whole_loop
from jaxhamel._lanes._xla_cpu._jit import known_here
from jaxhamel._lanes._xla_cpu._whole_loop import whole_loop
from jaxhamel.systems import ChaplyginSleigh, FreeRigidBody

jax.config.update("jax_enable_x64", True)
RNG = np.random.default_rng(5)
MATRIX, LONG = RNG.normal(size=(12, 12)) + 8 * np.eye(12), RNG.normal(size=5000)
SMALL = MATRIX[:3, :3]


def turns(f, x, n=3):
    """Applies f n times and keeps each result."""
    step = lambda i, c: (f(c[0]), c[1].at[i].set(c[0]))
    return lax.fori_loop(0, n, step, (x, jnp.zeros((3, *x.shape))))


def solved(x):
    return x + jnp.linalg.solve(MATRIX, x)


def in_order(x):
    return jnp.sort(x) * 0.9 + x[jnp.argsort(x)]


def called_back(x):
    like = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.pure_callback(np.sin, like, x, vmap_method="broadcast_all")


def long_sum(x):
    return x / jnp.sum(x * x) + jnp.max(x)


def of_matrices(x):
    return jnp.tanh(x @ MATRIX / 50)


def of_vector(x):
    return jnp.cross(SMALL @ x, x) / jnp.sqrt(1 + x @ x)


def scattered(x):
    return x.at[jnp.array([0, 2])].add(jnp.arange(2.0) * x[1])


PROGRAMS = {
    solved: (MATRIX[0], False),
    in_order: (MATRIX[0], False),
    called_back: (MATRIX[0], False),
    long_sum: (LONG, False),
    of_matrices: (MATRIX, False),
    scattered: (MATRIX[0], False),
    of_vector: (SMALL[0], True),
    jnp.cumsum: (MATRIX[0], False),
    lambda x: lax.cond(x[0] > 0, lambda: jnp.exp(-x), lambda: x + 1): (SMALL[0], True),
    lambda x: x * 0 + 1: (SMALL[0], True),
    lambda x: jnp.asarray(SMALL[1]): (SMALL[0], True),
}


# The reference need not be compiled with the users' options: this takes a third of the time.
QUICKLY: Any = known_here(
    {
        "xla_cpu_use_fusion_emitters": False,
        "xla_backend_optimization_level": 0,
        "xla_llvm_disable_expensive_passes": True,
    }
)


def check(f, x, marked: bool):
    """Compiles one of the programs alone and checks whether it is marked."""
    compiled = jax.jit(whole_loop(partial(turns, f))).lower(x).compile()
    assert ('inlineable="false"' in compiled.as_text()) == marked, f
    return compiled(x)


def check_all():
    """Compares each program alone, and all of them mapped in one program, with the plain loops."""
    alone = [check(f, x, marked) for f, (x, marked) in PROGRAMS.items()]
    loops = [partial(turns, f) for f in PROGRAMS]
    one = [jnp.asarray(x) for x, _ in PROGRAMS.values()]
    two = [jnp.stack([x, 2 * x]) for x in one]

    def mapped(two):
        return [jax.vmap(whole_loop(loop))(x) for loop, x in zip(loops, two, strict=True)]

    @partial(jax.jit, compiler_options=QUICKLY)
    def plainly(one, two):
        pairs = list(zip(loops, one, two, strict=True))
        return [loop(x) for loop, x, _ in pairs], [jax.vmap(loop)(x) for loop, _, x in pairs]

    close((alone, jax.jit(mapped)(two)), plainly(one, two))


def close(found, wanted):
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        rtol = 1e-11 if a.dtype == jnp.float64 else 3e-5
        np.testing.assert_allclose(a, b, rtol, rtol)


def motions():
    """Systems, initial states, and whether derivatives are compared; one in each precision."""
    single = jnp.float32
    sleigh = ChaplyginSleigh(*jnp.array([2.0, 0.3, -0.4], single))
    yield FreeRigidBody([1.0, 2.0, 2.5]), jnp.array([1.0, 0, 0, 0]), jnp.ones(3), True
    yield sleigh, jnp.zeros(3, single), jnp.ones(2, single), False


def check_motion(system, q0, u0, derivatives: bool):
    ts = jnp.linspace(0, 0.5, 6, dtype=u0.dtype)

    def end(u0):
        motion = simulate(system, q0, u0, ts)
        return jnp.concatenate([jnp.ravel(x[-1]) for x in jax.tree.leaves((motion.q, motion.u))])

    results = []
    for works, options in ((_whole_loop.one_kernel_works, None), (lambda: False, QUICKLY)):
        _whole_loop.one_kernel_works = works
        jax.clear_caches()
        cost = lambda u0: jnp.sum(end(u0) ** 2)
        run = jax.jit(jax.value_and_grad(cost) if derivatives else end, compiler_options=options)
        results.append(run(u0))
    close(*results)


if __name__ == "__main__":
    check_all()
    works = _whole_loop.one_kernel_works
    for motion in motions():
        _whole_loop.one_kernel_works = works
        check_motion(*motion)
    print("as without")
