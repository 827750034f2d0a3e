"""Ordinary differential equations as systems, for all functions of the package that take a system."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration, Control, QuasiVelocity, Time
from jaxhamel.geometry import AbstractSpace, Euclidean
from jaxhamel.mechanics._checks._ode import check_function, check_rate, check_space
from jaxhamel.mechanics._controls._control import Feedback, at_state
from jaxhamel.mechanics._controls._kinematic import Kinematic, _Driven
from jaxhamel.mechanics._description._declarations import State, state_of
from jaxhamel.mechanics._system import System


class ODE(Kinematic):
    """An ordinary differential equation as a system:

        ẏ = function(t, y, control(t)) ,      on a group  q̇ = rate(q, function(t, q, control(t))) .

    Its state is y alone, in place of q; u has shape (0,). It has no Lagrangian, hence neither energy nor forces.

    ```python
    van_der_pol = jaxhamel.ODE(lambda t, y, c: jnp.array([y[1], (1 - y[0] ** 2) * y[1] - y[0] + c[0]]), 2)
    jaxhamel.simulate(van_der_pol, jnp.array([0.0, 1.0]), jnp.zeros(0), ts, control=jnp.zeros(1))
    ```

    **Arguments:**

    - `function`: the right-hand side, a callable pytree (t, y, value of the control) → `(n,)` of jax.numpy operations, whose
      arrays are the parameters. On a group it gives the left-trivialised velocity. Without a control it receives None.
    - `space`: the number n of equations, or a space such as `jaxhamel.SE2()`.

    **Raises:** `TypeError` or `ValueError` for other arguments, and, with the first control, if `function` does not give
    `(n,)` real numbers.
    """

    system: System
    function: Callable[..., Any]

    def __init__(self, function: Callable[..., Any], space: int | AbstractSpace):
        check_function(function)
        check_space(space)
        self.function = function
        self.system = _Manifold(Euclidean(space) if isinstance(space, int) else space)

    @property
    def n_controls(self) -> int | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """None, since the control may have any number of entries."""
        return None

    @property
    def state_names(self) -> State:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The names of q; u has no parts, and the entries of the control have no names."""
        return State(state_of(self.system).q, ())

    def driven(self, control: Control) -> Kinematic:
        """The system whose prescribed velocity is `function` with the control built in."""
        return _Driven(self.system, Feedback(_Along(self.function, control)))

    def check_control(self, t: Time, control: Control) -> None:
        """Checks that `function` returns `(n,)` real numbers with this control."""
        check_rate(self.function, self.space, t, control)


class _Manifold(System):
    """A configuration space without dynamics."""

    manifold: AbstractSpace = eqx.field(static=True)

    @property
    def space(self) -> AbstractSpace:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.manifold


class _Along(eqx.Module):
    """The right-hand side function(t, q, control(t)) as a function of (t, q, u), for a `Feedback`."""

    function: Callable[..., Any]
    control: Any

    def __call__(self, t: Time, q: Configuration, u: QuasiVelocity) -> Float[Array, " n"]:
        control = at_state(self.control, t, q, u)
        return self.function(t, q, None if control is None else control(t))
