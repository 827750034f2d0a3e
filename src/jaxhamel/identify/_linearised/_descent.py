"""A minimum by gradients, for long programs that run only some hundred times: they are compiled in less time."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optimistix as optx

from jaxhamel._compiled import compiled
from jaxhamel._lanes._xla_cpu._jit import known_here
from jaxhamel._search._loop import AbstractSearch, Verdict

# XLA's newer CPU code generator takes longer to compile (docs/performance.md#identification).
WITHOUT = {"xla_cpu_use_fusion_emitters": False}


class BFGSSearch(AbstractSearch):
    """Steps of optimistix' BFGS one by one; the first only evaluates where it begins."""

    unit = "step"

    def __init__(self, cost, p, arrays, max_steps: int, tolerance: float):
        super().__init__(max_steps + 1)
        solver = optx.BFGS(rtol=tolerance, atol=tolerance)
        function = lambda p, arrays: (cost(p, arrays), None)  # noqa: E731
        options, tags = {}, frozenset()
        shape = jax.eval_shape(lambda: jnp.zeros((), p.dtype)), None
        self.p, self.arrays = p, arrays  # p is the best so far: no step up is accepted
        self.state = solver.init(function, p, arrays, options, *shape, tags)
        self.step = _jit(lambda p, state, a: solver.step(function, p, a, options, state, tags))
        self.over = lambda p, state: solver.terminate(function, p, arrays, options, state, tags)[0]

    def advance(self) -> None:
        self.p, self.state, _ = self.step(self.p, self.state, self.arrays)
        self.note(cost=float(self.state.f_info.f))

    def verdict(self) -> Verdict | None:
        return Verdict(True, "converged") if bool(self.over(self.p, self.state)) else None

    def report(self) -> tuple[int, float]:
        """The number of the step and the cost."""
        return len(self.rows) - 1, self.rows[-1]["cost"]


def _jit(f: Callable[..., Any]) -> Callable[..., Any]:
    """`equinox.filter_jit(f)`; it must not be called inside another transform."""
    return compiled(f, compiler_options=known_here(WITHOUT))
