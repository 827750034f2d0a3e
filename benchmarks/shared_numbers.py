"""Gradients by many numbers that all lanes share: policies, friction models, polynomials and loops, beside `jax.vmap`.

`python benchmarks/shared_numbers.py [--cases NAME …] [--lanes N …] [--steps N] [--adaptive] [--quick]`: two links with a
torque in each joint, RK4 with equal steps. For each case and number of lanes: the first value and the least processor time
of the motion (`ensemble.rollout`) and of the gradient of a cost of its ends by all shared numbers of the case; the same by
plain JAX, a loop over RK4 steps under `vmap`, once with and once without checkpoints of its steps (`jax.checkpoint`). The
largest difference of the gradients is over their largest entry. The last line is one JSON object, in which `ratio` is the
largest quotient of the times of gradient and motion, and `first` the longest time to the first value of a gradient.
"""

import argparse
import json
import time
from functools import partial

import jax

jax.config.update("jax_enable_x64", True)

import equinox as eqx  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import jaxhamel  # noqa: E402
from jaxhamel import ensemble  # noqa: E402
from jaxhamel.mechanics import VectorField, as_control  # noqa: E402

RNG = np.random.default_rng(3)
STEP = 0.01


class Links(jaxhamel.System):
    """Two links of unit mass and length with a torque in each joint; `friction` gives further torques from (q, v)."""

    friction: object
    space = jaxhamel.Euclidean(2)

    def lagrangian(self, t, q, v):
        turning = v[0] * v[0] + 0.5 * v[1] * v[1] + v[0] * v[1] * jnp.cos(q[0] - q[1])
        return turning + 9.81 * (2 * jnp.cos(q[0]) + jnp.cos(q[1]))

    def force(self, t, q, v, control):
        own = self.friction(jnp.concatenate([q, v]))
        return own if control is None else own + control


def none(x):
    return jnp.zeros(2, x.dtype)


class Layers(eqx.Module):
    """A network of two hidden layers, from the four numbers of a state to two torques."""

    layers: list

    @classmethod
    def of(cls, units):
        sizes = [(units, 4), (units, units), (2, units)]
        return cls([_layer(*size) for size in sizes])

    def __call__(self, *given):
        x = jnp.concatenate(given[-2:]) if len(given) > 1 else given[0]
        for weight, bias in self.layers[:-1]:
            x = jnp.tanh(weight @ x + bias)
        weight, bias = self.layers[-1]
        return weight @ x + bias


def _layer(rows, columns):
    scale = 1 / np.sqrt(columns)
    return [
        jnp.asarray(RNG.normal(size=(rows, columns)) * scale),
        jnp.asarray(RNG.normal(size=rows) * 0.1),
    ]


class Polynomial(eqx.Module):
    """Torques that are polynomials of degree 4 in the sines of the angles and 3 in the speeds, 400 coefficients each."""

    coefficients: jax.Array

    @classmethod
    def of(cls):
        return cls(jnp.asarray(RNG.normal(size=(2, 5, 5, 4, 4)) * 0.01))

    def __call__(self, x):
        a, b = (jnp.sin(x[i]) ** jnp.arange(5) for i in (0, 1))
        c, d = (jnp.tanh(x[i]) ** jnp.arange(4) for i in (2, 3))
        basis = a[:, None, None, None] * b[:, None, None] * c[:, None] * d
        return jnp.sum(self.coefficients * basis, axis=(1, 2, 3, 4))


class Table(eqx.Module):
    """A torque in each joint from a table of 20 by 20 numbers over both angles, interpolated linearly."""

    values: jax.Array

    @classmethod
    def of(cls):
        return cls(jnp.asarray(RNG.normal(size=(20, 20)) * 0.3))

    def __call__(self, x):
        place = 10 + 9 * jnp.sin(x[:2])
        at = jnp.floor(place).astype(int)
        a, b = place - at
        corner = lambda i, j: self.values[at[0] + i, at[1] + j]
        low = (1 - a) * corner(0, 0) + a * corner(1, 0)
        high = (1 - a) * corner(0, 1) + a * corner(1, 1)
        return ((1 - b) * low + b * high) * jnp.array([1.0, -0.5])


class Terms(eqx.Module):
    """Torques that a loop sums: 95 terms of four shared numbers each."""

    terms: jax.Array

    @classmethod
    def of(cls):
        return cls(jnp.asarray(RNG.normal(size=(95, 4)) * 0.1))

    def __call__(self, x):
        def one(total, term):
            swing = term[0] * jnp.sin(term[1] + term[2] * x[0] + term[3] * x[3])
            return total + swing * jnp.array([1.0, 0.5]), None

        return jax.lax.scan(one, jnp.zeros(2, x.dtype), self.terms)[0]


class Recurrent(eqx.Module):
    """Torques from a hidden state, which a loop of six turns computes from a state."""

    layers: list

    @classmethod
    def of(cls, units):
        return cls([_layer(*size) for size in ((units, units), (units, 4), (2, units))])

    def __call__(self, *given):
        (hidden, bias), (first, more), (last, end) = self.layers
        x = jnp.concatenate(given[-2:])

        def turn(h, k):
            return jnp.tanh(hidden @ h + bias + first @ (x * jnp.cos(k)) + more), None

        h = jax.lax.scan(turn, jnp.zeros_like(bias), jnp.arange(6.0).astype(x.dtype))[0]
        return last @ h + end


class Repeated(eqx.Module):
    """Torques that a loop of six turns sums, each from the same network of functions of a state."""

    network: Layers

    @classmethod
    def of(cls, units):
        return cls(Layers.of(units))

    def __call__(self, *given):
        x = jnp.concatenate(given[-2:])

        def turn(k, total):
            s, swing = k / 6, x[2] * jnp.exp(-k / 6 * x[2] ** 2)
            y = jnp.stack([jnp.sin(x[0] * s), jnp.cos(x[1] + s), swing, x[3] + total[0]])
            return total + 0.2 * self.network(y) * jnp.sin(x[0] - x[1])

        return jax.lax.fori_loop(0, 6, turn, jnp.zeros(2, x.dtype))


class Many(eqx.Module):
    """Torques with 360 shared numbers in small arrays: 60 terms, each with two vectors of three numbers."""

    terms: list

    @classmethod
    def of(cls):
        return cls([[jnp.asarray(RNG.normal(size=3) * 0.1) for _ in range(2)] for _ in range(60)])

    def __call__(self, x):
        total = jnp.zeros(2, x.dtype)
        for a, b in self.terms:
            total = total + a[0] * jnp.tanh(jnp.stack([a @ x[:3], b @ x[1:]]))
        return total


CASES = {
    "policy of 16 units": (None, partial(Layers.of, 16)),
    "policy of 32 units": (None, partial(Layers.of, 32)),
    "policy of 64 units": (None, partial(Layers.of, 64)),
    "friction of 32 units": (partial(Layers.of, 32), None),
    "polynomial": (Polynomial.of, None),
    "table": (Table.of, None),
    "loop over terms": (Terms.of, None),
    "small arrays": (Many.of, None),
    "recurrent network": (None, partial(Recurrent.of, 32)),
    "network in a loop": (None, partial(Repeated.of, 32)),
}


def model_of(case):
    """System and control of a case; the first leaves of the one with shared numbers are what is differentiated."""
    friction, policy = CASES[case]
    system = Links(none if friction is None else friction())
    return system, None if policy is None else jaxhamel.Feedback(policy())


def by_lanes(ts, options, model, q, u):
    system, control = model
    return ensemble.rollout(system, q, u, ts, control, in_axes=(None, 0, 0, None), **options)


def by_vmap(ts, keep, model, q, u):
    """RK4 steps in plain JAX, each lane's under `vmap`."""
    system, control = model
    field, h, count = VectorField(), ts[1] / round(ts[1] / STEP), round(ts[1] / STEP)

    def rate(y):
        return field(0.0, y, (system, as_control(control)))

    def moved(y, a, k):
        return jax.tree.map(lambda x, k: x + a * k, y, k)

    def one(y, _):
        k1 = rate(y)
        k2 = rate(moved(y, h / 2, k1))
        k3 = rate(moved(y, h / 2, k2))
        k4 = rate(moved(y, h, k3))
        total = jax.tree.map(lambda a, b, c, d: (a + 2 * b + 2 * c + d) / 6, k1, k2, k3, k4)
        return moved(y, h, total), None

    one = one if keep else jax.checkpoint(one)
    return jax.vmap(lambda q, u: jax.lax.scan(one, (q, u), None, length=count)[0])(q, u)


def cost(run, model, q, u):
    """A mean over the ends of all lanes."""
    ends = run(model, q, u)
    pick = (lambda x: x[:, -1]) if ends[0].ndim == 3 else lambda x: x
    return jnp.mean(jnp.sin(pick(ends[0])) ** 2) + 0.1 * jnp.mean(pick(ends[1]) ** 2)


def timed(jit, function, *given, runs=4):
    """(processor seconds to the first value, the least processor seconds of some runs, value)."""
    run = jit(function)
    begun = time.process_time()
    value = jax.block_until_ready(run(*given))
    first, used = time.process_time() - begun, []
    for _ in range(runs):
        begun = time.process_time()
        jax.block_until_ready(run(*given))
        used.append(time.process_time() - begun)
    return first, min(used), value


def differences(found, expected):
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    return max(float(jnp.abs(a - b).max() / jnp.abs(b).max()) for a, b in pairs)


def measure(case, lanes, steps, adaptive, vmap):
    """Prints the times of one case, in ns for each lane and right-hand side (4 in a step), and returns those of lanes."""
    model = model_of(case)
    q = jnp.asarray(RNG.uniform(-1, 1, (lanes, 2)))
    u, ts = jnp.asarray(RNG.uniform(-1, 1, (lanes, 2))), np.array([0.0, steps * STEP])
    options = {"rtol": 1e-6, "atol": 1e-6} if adaptive else {"dt": STEP}
    forms = {"lanes": (ensemble.jit, partial(by_lanes, ts, options))}
    if vmap:
        forms |= {"vmap": (eqx.filter_jit, partial(by_vmap, ts, True))}
        forms |= {"vmap, checkpoints": (eqx.filter_jit, partial(by_vmap, ts, False))}
    out, scale = {}, 1e9 / (4 * steps * lanes)
    for name, (jit, run) in forms.items():
        first, motion, _ = timed(jit, lambda *x, run=run: cost(run, *x), model, q, u)
        loss = eqx.filter_grad(lambda *x, run=run: cost(run, *x))
        begun, back, gradient = timed(jit, loss, model, q, u)
        out[name] = {"first": begun, "ratio": back / motion, "value": gradient}
        print(
            f"{case:22} {lanes:6} {name:18} motion {first:5.2f} s, {motion * scale:7.1f} ns; "
            f"gradient {begun:5.2f} s, {back * scale:7.1f} ns, {back / motion:.2f} times the motion",
            flush=True,
        )
    if vmap:
        error = differences(out["lanes"]["value"], out["vmap"]["value"])
        print(f"{'':22} largest difference of the gradients {error:.1e}")
    return out["lanes"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--lanes", nargs="*", type=int, default=[1024])
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument(
        "--adaptive", action="store_true", help="adaptive steps in place of equal ones"
    )
    parser.add_argument("--alone", action="store_true", help="without `vmap` beside it")
    parser.add_argument("--quick", action="store_true", help="one case with few lanes")
    given = parser.parse_args()
    if given.quick:
        given.cases, given.lanes, given.steps = ["policy of 32 units"], [256], 10
    found = [
        measure(case, lanes, given.steps, given.adaptive, not given.alone)
        for case in given.cases
        for lanes in given.lanes
    ]
    ratio = max(x["ratio"] for x in found)
    first = max(x["first"] for x in found)
    print(json.dumps({"benchmark": "shared_numbers", "ratio": ratio, "first": first}))


if __name__ == "__main__":
    main()
