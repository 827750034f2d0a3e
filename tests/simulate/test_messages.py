"""Mistakes of a user give a one-line message that names them, from each entry point, and no traceback of JAX."""

import traceback
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel as jh
from jaxhamel import systems


class Plane(jh.System):
    mass: jax.Array
    space = jh.Euclidean(2)

    def lagrangian(self, t, q, v):
        return 0.5 * self.mass * jnp.dot(v, v) - jnp.dot(q, q)


class Branches(Plane):
    def force(self, t, q, v, control):
        if v[0] > 0:  # here
            return -v
        return v


class Loops(Plane):
    def force(self, t, q, v, control):
        return sum((v for _ in range(q[0].astype(int))), v)


class Numpy(Plane):
    def frame(self, t, q):
        return np.diag(np.exp(q))


class Masked(Plane):
    def drift(self, t, q):
        return q[q > 0]


class Misfits(Plane):
    def force(self, t, q, v, control):
        return jnp.ones((2, 3)) @ v


class Mixes(Plane):
    def force(self, t, q, v, control):
        return v * jnp.ones(2, jnp.float32)


class Constrained(Plane):
    n_constraints = 3


class Halves(Plane):
    n_constraints = 0.5  # pyright: ignore[reportAssignmentType]


class Nowhere(jh.System):
    mass: jax.Array

    def lagrangian(self, t, q, v):
        return 0.5 * self.mass * jnp.dot(v, v)


class OfAClass(Plane):
    space = jh.SO3


class Tells(Plane):
    def force(self, t, q, v, control):
        raise KeyError("my own")


ONE, Q, U, TS = jnp.asarray(1.0), jnp.ones(2), jnp.zeros(2), np.array([0.0, 1.0])
SPACE = r"a system has a configuration space as class attribute, with parentheses"
SYSTEMS = {
    "if": (
        Branches(ONE),
        TypeError,
        r"`force` of Branches decides by the value.*jnp.where.*test_messages.py: if v\[0\] > 0",
    ),
    "range": (Loops(ONE), TypeError, r"`force` of Loops needs the value of a traced array.*range"),
    "NumPy": (Numpy(ONE), TypeError, r"`frame` of Numpy gives a traced array to NumPy: use jax.numpy.*np.exp"),
    "mask": (Masked(ONE), TypeError, r"`drift` of Masked takes entries by a traced mask.*jnp.where"),
    "shapes within": (
        Misfits(ONE),
        TypeError,
        r"`force` of Misfits fails: dot_general.*It is line \d+ of .*jnp.ones\(\(2, 3\)\) @ v",
    ),
    "dtypes": (Mixes(ONE), TypeError, r"`force` of Mixes mixes float32 and float64.*one floating dtype"),
    "constraints": (Constrained(ONE), ValueError, r"`n_constraints` of Constrained is 3.*only 2 dimensions"),
    "half a constraint": (Halves(ONE), TypeError, r"`n_constraints` of Halves is 0.5.*whole number"),
    "no space": (Nowhere(ONE), TypeError, rf"`space` of Nowhere is missing; {SPACE}"),
    "space class": (OfAClass(ONE), TypeError, rf"`space` of OfAClass is the class SO3; {SPACE}"),
    "None": (None, TypeError, r"`system` is None; it must be a jaxhamel.System"),
    "class": (Plane, TypeError, r"`system` is the class Plane; it must be a jaxhamel.System with its values"),
    "word": (Plane("heavy"), TypeError, r"`mass` is 'heavy': no number"),  # pyright: ignore[reportArgumentType]
    "complex": (Plane(jnp.asarray(1j)), TypeError, r"`lagrangian` of Plane mixes complex and float64"),
    "NaN": (Plane(jnp.asarray(jnp.nan)), ValueError, r"`mass` of Plane is nan"),
    "own error": (Tells(ONE), KeyError, "my own"),
}  # fmt: skip
AXES = (None, 0, 0, None)
WAYS = {
    "acceleration": lambda system: jh.acceleration(system, 0.0, Q, U),
    "simulate": lambda system: jh.simulate(system, Q, U, TS),
    "ensemble": lambda system: jh.ensemble.simulate(system, Q[None], U[None], TS, in_axes=AXES),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", SYSTEMS)
def test_system(case, way):
    system, kind, message = SYSTEMS[case]
    with pytest.raises(kind, match=message) as caught:
        WAYS[way](system)
    assert "\n" not in str(caught.value)
    assert not getattr(caught.value, "__notes__", None) or case == "own error"
    last = Path(traceback.extract_tb(caught.value.__traceback__)[-1].filename)
    assert not last.is_relative_to(Path(jax.__file__).parent)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert not any("_lanes" in frame.filename for frame in frames)


class Two(jh.System):
    first: Any
    second: list
    third: list = jh.parameter(default=[1.0, 2.0])  # a default of its own for each system
    space = jh.Euclidean(2)

    def lagrangian(self, t, q, v):
        return (self.first + self.second[0] * v[0]) * v[1]


def test_a_default_may_be_a_list():
    np.testing.assert_array_equal(Two(1.0, [2.0]).third, [1.0, 2.0])


POSE = (jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.zeros(2))
SLEIGH = systems.ChaplyginSleigh(1.0, 1.0, 1.0)
BLADE = systems.KnifeEdge(1.0, 1.0, 0.0)
PLANE = Plane(ONE)


def ball(**changed):
    rails = systems.CircularRails(jnp.ones(1), jnp.eye(3)[1:2], jnp.eye(3)[:1])
    given = {
        "radius": 1.0, "shell_mass": 1.0, "shell_inertia": jnp.ones(3), "shell_com": jnp.zeros(3),
        "masses": jnp.ones(1), "rails": rails,
    }  # fmt: skip
    return systems.RollingBall(**given | changed)


def gimbal(theta):
    up = jnp.sin(theta[1])
    return jnp.stack([jnp.cos(theta[0]) * up, jnp.sin(theta[0]) * up, jnp.cos(theta[1])])[None]


def rolled_out(q):
    ts = jnp.linspace(0.0, 1.0, 3)
    return jh.ensemble.rollout(PLANE, q, U, ts, dt=0.1, in_axes=(None, 0, None, None))


ARGUMENTS = {
    "control a word": (
        lambda: jh.simulate(PLANE, Q, U, TS, "hello"),
        TypeError,
        r"`control` is 'hello'; it must be a callable of t",
    ),
    "a control for none": (
        lambda: jh.simulate(PLANE, Q, U, TS, 1.0),
        ValueError,
        r"`control` is given, but Plane takes none.*Leave it out",
    ),
    "a control for none, at once": (
        lambda: jh.acceleration(BLADE, 0.0, jnp.zeros(3), U, 1.0),
        ValueError,
        r"`control` is given, but KnifeEdge takes none",
    ),
    "a control for none, many": (
        lambda: jh.ensemble.simulate(PLANE, Q[None], U[None], TS, 1.0, in_axes=AXES),
        ValueError,
        r"`control` is given, but Plane takes none",
    ),
    "control missing": (
        lambda: jh.energy(ball(), 0.0, POSE, jnp.zeros(3)),
        ValueError,
        r"`control` is missing; this system takes",
    ),
    "swapped": (
        lambda: jh.acceleration(SLEIGH, 0.0, jnp.zeros(2), jnp.zeros(3)),
        ValueError,
        r"`q` and `u` are swapped: q is the configuration, of shape \(3,\)",
    ),
    "swapped at the start": (
        lambda: jh.simulate(SLEIGH, jnp.zeros(2), jnp.zeros(3), TS),
        ValueError,
        r"`q0` and `u0` are swapped",
    ),
    "swapped tuple": (
        lambda: jh.acceleration(ball(), 0.0, jnp.zeros(3), POSE, jnp.zeros(1)),
        TypeError,
        r"`u` is a tuple of 2.*q, then u",
    ),
    "swapped tuple at the start": (
        lambda: jh.simulate(ball(), jnp.zeros(3), POSE, TS, jnp.zeros(1)),
        TypeError,
        r"`u0` is a tuple of 2",
    ),
    "no time": (lambda: jh.acceleration(PLANE, None, Q, U), TypeError, r"`t` is None"),
    "times": (
        lambda: jh.acceleration(PLANE, jnp.zeros(2), Q, U),
        ValueError,
        r"`t` has shape \(2,\); it must be one time",
    ),
    "no ts": (lambda: jh.simulate(PLANE, Q, U, None), TypeError, r"`ts` is None"),
    "no u": (lambda: jh.momentum(PLANE, 0.0, Q, None), TypeError, r"`u` is None"),
    "ragged u0": (lambda: jh.simulate(PLANE, Q, [1.0, [2.0, 3.0]], TS), ValueError, r"`u0` is ragged.*\(\) and \(2,\)"),
    "ragged u": (lambda: jh.acceleration(PLANE, 0.0, Q, [1.0, [2.0]]), ValueError, r"`u` is ragged"),
    "ragged u0 of many": (
        lambda: jh.ensemble.simulate(PLANE, Q[None], [[1.0, 2.0], [3.0]], TS, in_axes=AXES),
        ValueError,
        r"`u0` is ragged.*\(1,\) and \(2,\)",
    ),
    "v of two": (lambda: jh.quasi_velocity(PLANE, 0.0, Q, None), TypeError, r"`v` is None"),
    "mass a word": (lambda: ball(shell_mass="heavy"), TypeError, r"`shell_mass` is 'heavy'; it must be a real number"),
    "mass complex": (lambda: ball(shell_mass=1j), TypeError, r"`shell_mass` is 1j; it must be a real number"),
    "masses complex": (lambda: ball(masses=jnp.ones(1, complex)), TypeError, r"`masses` is .*it must be a real number"),
    "mass a class": (lambda: ball(shell_mass=Plane), TypeError, r"`shell_mass` is the class Plane; it must be a real"),
    "mass of 400 digits": (lambda: ball(shell_mass=10**400), TypeError, r"`shell_mass` is of type int; it must be a real"),
    "inertia of 400 digits": (lambda: systems.FreeRigidBody([1.0, 1.0, 10**400]), TypeError, r"`inertia` is of type list"),
    "lanes of a word": (lambda: jh.ensemble.lanes("sin"), TypeError, r"`f` is of type str; it must be a callable"),
    "mass None": (lambda: ball(shell_mass=None), TypeError, r"`shell_mass` is None; it must be a real number"),
    "masses a dict": (lambda: ball(masses={"first": 1.0}), TypeError, r"`masses` is \{'first': 1.0\}; it must be a real"),
    "masses ragged": (lambda: ball(masses=[1.0, [2.0, 3.0]]), ValueError, r"`masses` is ragged"),
    "inertia ragged": (lambda: systems.FreeRigidBody([1.0, [2.0]]), ValueError, r"`inertia` is ragged"),
    "own mass None": (lambda: jh.simulate(Plane(None), Q, U, TS), TypeError, r"of the fields of Plane `mass` is None"),
    "own mass a list": (lambda: jh.simulate(Plane([1.0, 2.0]), Q, U, TS), TypeError, r"`mass` is \[1.0, 2.0\]: no number"),
    "own words beside a list": (
        lambda: jh.simulate(Two("5", [1.0, 2.0]), Q, U, TS),
        TypeError,
        r"\(of the fields of Two `first` is '5': no number\)",
    ),
    "own mass words": (
        lambda: jh.acceleration(Plane(np.array(["heavy"])), 0.0, Q, U),
        TypeError,
        r"`mass` of Plane: entries are no numbers",
    ),
    "control a class": (lambda: jh.energy(ball(), 0.0, POSE, jnp.zeros(3), Plane), TypeError, r"`control` is the class"),
    "control of words, many": (
        lambda: jh.ensemble.simulate(PLANE, Q[None], U[None], TS, np.array(["a"]), in_axes=AXES),
        TypeError,
        r"`control` is .*; it must be a callable of t",
    ),
    "control complex": (lambda: jh.acceleration(PLANE, 0.0, Q, U, 1j), TypeError, r"`control` is 1j; it must be a callable"),
    "a gimbal": (
        lambda: ball(rails=gimbal),
        ValueError,
        r"`rails` ask for more coordinates than theta has, 1 for 1 mass.*positions \(1, 3\)",
    ),
    "rails without axis": (
        lambda: ball(rails=lambda theta: jnp.ones(3) * theta[0]),
        ValueError,
        r"`rails` give an array of shape \(3,\) for theta of shape \(1,\)",
    ),
    "missing argument": (
        lambda: systems.ChaplyginSleigh(1.0, 1.0),
        TypeError,
        r"ChaplyginSleigh.*missing 1 required positional argument: 'offset'",
    ),
    "times by jnp": (
        lambda: jax.jit(rolled_out)(Q[None]),
        ValueError,
        r"`ts` is traced.*np.linspace in place of jnp.linspace",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ARGUMENTS)
def test_argument(case):
    call, kind, message = ARGUMENTS[case]
    with pytest.raises(kind, match=message):
        call()


def test_a_list_of_arrays_is_no_ragged_one():
    found = jh.simulate(PLANE, [1.0, jnp.asarray(1.0)], [0.0, 0.0], [0.0, 0.5, 1.0], dt=0.5)
    np.testing.assert_array_equal(found.q[0], Q)
