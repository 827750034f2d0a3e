"""A method of a system that returns a wrong value is named in one line before anything is computed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel as jh
from jaxhamel.mechanics._examination._boundary import check_methods

N = 4


class Plain(jh.System):
    """A system whose methods return given values."""

    given: dict
    space = jh.Euclidean(N)
    n_constraints = 1

    def lagrangian(self, t, q, v):
        return self._or("lagrangian", 0.5 * jnp.dot(v, v))

    def frame(self, t, q):
        return self._or("frame", jnp.eye(N))

    def inverse_frame(self, t, q):
        return self._or("inverse_frame", jnp.eye(N))

    def drift(self, t, q):
        return self._or("drift", jnp.zeros(N))

    def force(self, t, q, v, control):
        return self._or("force", jnp.zeros(N))

    def bodies(self, t, q, v, control):
        return self._or("bodies", None)

    def invariants(self, t, q, u, control):
        return self._or("invariants", {})

    def constraints(self, t, q):
        return self._or("constraints", None)

    def holonomic(self, t, q):
        return self._or("holonomic", q[:1])

    def _or(self, name, usual):
        return self.given.get(name, usual)


VELOCITY = jnp.ones((2, 3))


def points(velocity=VELOCITY, **others):
    fields = {"mass": jnp.ones(2), "force": jnp.zeros((2, 3)), "axes": jnp.zeros(3)} | others
    return (jh.Points(velocity=velocity, **fields),)


ONES = jnp.ones(N)
BAD = {
    "lagrangian of shape (1,)": (
        "lagrangian", ONES[:1], ValueError,
        r"`lagrangian\(t, q, v\)` has shape \(1,\), as Plain.*shape \(\): one number.*jnp.sum",
    ),
    "lagrangian missing": (
        "lagrangian", None, TypeError,
        r"`lagrangian\(t, q, v\)` is None, as Plain.*Is a `return` missing",
    ),
    "force missing": (
        "force", None, TypeError,
        r"`force.* is None, as Plain.*Is a `return` missing. A `control` that is not given is None",
    ),
    "lagrangian of shape (4,)": (
        "lagrangian", ONES, ValueError,
        r"`lagrangian\(t, q, v\)` has shape \(4,\)",
    ),
    "force a number": (
        "force", 2.0, ValueError,
        r"`force\(t, q, v, control\)` has shape \(\), as Plain.*shape \(4,\).*would act on all of them",
    ),
    "force (1,)": (
        "force", ONES[:1], ValueError,
        r"`force.* has shape \(1,\).*shape \(4,\).*would act on all of them",
    ),
    "force (2,)": (
        "force", ONES[:2], ValueError,
        r"`force.* has shape \(2,\), as Plain.*shape \(4,\): Q dual to v",
    ),
    "force a column": (
        "force", ONES[:, None], ValueError,
        r"`force.* has shape \(4, 1\)",
    ),
    "force a list": (
        "force", [1.0, 2.0, 3.0, 4.0], TypeError,
        r"`force.* is a list of 4, as Plain.*jnp.array",
    ),
    "force single": (
        "force", ONES.astype(jnp.float32), TypeError,
        r"`force.* is float32 as Plain returns it, and the state \(q, u\) is float64",
    ),
    "force whole": (
        "force", jnp.arange(N), TypeError,
        r"`force.* is int64 as Plain.*real floating numbers",
    ),
    "force complex": (
        "force", ONES.astype(complex), TypeError,
        r"`force.* is complex128",
    ),
    "force a word": (
        "force", "none", TypeError,
        r"`force.* is a str",
    ),
    "frame of lists": (
        "frame", np.eye(N).tolist(), TypeError,
        r"`frame\(t, q\)` is a list of 4.*\(4, 4\).*jnp.array",
    ),
    "frame a tuple": (
        "frame", tuple(jnp.eye(N)), TypeError,
        r"`frame\(t, q\)` is a tuple of 4.*jnp.stack",
    ),
    "frame of the constraints": (
        "frame", jnp.ones((1, N)), ValueError,
        r"`frame\(t, q\)` has shape \(1, 4\).*one row for each of the 4 quasi-velocities",
    ),
    "inverse frame": (
        "inverse_frame", jnp.ones((N, 3)), ValueError,
        r"`inverse_frame\(t, q\)` has shape \(4, 3\).*None where",
    ),
    "drift a number": (
        "drift", 1.0, ValueError,
        r"`drift\(t, q\)` has shape \(\).*shape \(4,\)",
    ),
    "drift of the constraints": (
        "drift", ONES[:1], ValueError,
        r"`drift\(t, q\)` has shape \(1,\)",
    ),
    "bodies empty": (
        "bodies", (), TypeError,
        r"`bodies` of Plain returned a tuple of 0.*Points and Spins in a tuple",
    ),
    "bodies not in a tuple": (
        "bodies", points()[0], TypeError,
        r"`bodies` of Plain returned a Points.*in a tuple",
    ),
    "bodies of numbers": (
        "bodies", (1.0,), TypeError,
        r"`bodies` of Plain returned .*entry 0.*Points or jaxhamel.Spins",
    ),
    "bodies in a plane": (
        "bodies", points(jnp.ones((2, 2))), ValueError,
        r"`velocity` of Points 0 from `bodies` of Plain is of shape \(2, 2\).*\(2, 3\)",
    ),
    "bodies and masses": (
        "bodies", points(mass=jnp.ones(3)), ValueError,
        r"`velocity` of Points 0.*shape \(2, 3\).*\(3, 3\)",
    ),
    "bodies without force": (
        "bodies", points(force=None), ValueError,
        r"`force` of Points 0.* is None.*\(2, 3\)",
    ),
    "holonomic a number": (
        "holonomic", ONES[0], ValueError,
        r"`holonomic\(t, q\)` has shape \(\), as Plain.*shape \(h,\): one value for each.*jnp.stack",
    ),
    "holonomic empty": (
        "holonomic", ONES[:0], ValueError,
        r"`holonomic\(t, q\)` has shape \(0,\)",
    ),
    "holonomic missing": (
        "holonomic", None, TypeError,
        r"`holonomic\(t, q\)` is None.*`return` missing",
    ),
    "holonomic whole": (
        "holonomic", jnp.arange(2), TypeError,
        r"`holonomic\(t, q\)` is int.*real floating numbers",
    ),
    "constraints single": (
        "constraints", jnp.ones((2, N), jnp.float32), TypeError,
        r"`constraints\(t, q\)` is float32.*state \(q, u\) is float64",
    ),
    "constraints a row": (
        "constraints", ONES, ValueError,
        r"`constraints\(t, q\)` has shape \(4,\), as Plain.*shape \(r, 4\): one row for each",
    ),
    "invariants": (
        "invariants", jnp.ones(2), TypeError,
        r"`invariants` of Plain returned .*a dictionary",
    ),
    "invariants without arrays": (
        "invariants", {"energy": None}, TypeError,
        r"`invariants` of Plain returned .*energy.*dictionary of arrays",
    ),
}  # fmt: skip
Q, U = jnp.zeros(N), jnp.zeros(N - 1)


@pytest.mark.parametrize("case", BAD)
def test_method_is_named(case):
    name, value, error, message = BAD[case]
    with pytest.raises(error, match=message):
        check_methods(Plain({name: value}), jnp.zeros(()), Q, U, None)


@pytest.mark.parametrize(
    "call",
    [
        lambda system: jh.acceleration(system, 0.0, Q, U),
        lambda system: jh.constraint_force(system, 0.0, Q, U),
        lambda system: jh.energy(system, 0.0, Q, U),
        lambda system: jh.momentum(system, 0.0, Q, U),
        lambda system: jh.power_balance(system, 0.0, Q, U),
        lambda system: jh.simulate(system, Q, U, [0.0, 1.0]),
        lambda system: jax.jit(lambda q: jh.simulate(system, q, U, [0.0, 1.0]).u_end)(Q),
    ],
)
def test_every_way_in(call):
    with pytest.raises(ValueError, match=r"`force\(t, q, v, control\)` has shape \(1,\)"):
        call(Plain({"force": ONES[:1]}))


def test_what_is_right_passes_and_is_traced_once():
    calls = []

    class Counted(Plain):
        def force(self, t, q, v, control):
            calls.append(1)
            return super().force(t, q, v, control)

    for mass in (1.0, 2.0):
        system = Counted({"mass": jnp.asarray(mass), "bodies": points(), "drift": np.zeros(N)})
        check_methods(system, jnp.zeros(()), Q, U, None)
    assert len(calls) == 1
    check_methods(system, jnp.zeros(()), Q, U, jnp.sin)
    assert len(calls) == 2


def test_generators_of_bodies_are_taken():
    class Generated(Plain):
        def bodies(self, t, q, v, control):
            yield from points()

    check_methods(Generated({}), jnp.zeros(()), Q, U, None)
