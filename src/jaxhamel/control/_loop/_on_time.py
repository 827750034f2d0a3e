"""Deadlines on the clock: a command is there in time, however long the law's computations take."""

from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel.control._checks._controllers import check_deadline


class OnTime:
    """Calls a law with memory on a robot, once in each sampling period, with a deadline on the clock:

        command = step(memory, t, q, u)   if it is ready within `deadline` seconds, else   held(memory, t) .

    The step runs in a thread. A late step continues; its plan is used as soon as it is ready. Until then `held`, the last
    plan moved in time, gives the commands, and these samples are counted in `missed`. `prepare` compiles the programs
    before the first sample.

    **Arguments:** `law`: with `start`, `step`, `held` and `resumed`, such as `RecedingHorizon`; `deadline` [s].

    **Attributes:** `samples`: the number of calls so far; `missed`: the number of calls whose step was late; `memory`: the
    law's memory.

    **Raises:** `TypeError` or `ValueError` for a law without `held` or a deadline that is not positive. An error in a
    step is raised by the call that finds it.
    """

    def __init__(self, law: Any, deadline: float):
        check_deadline(law, deadline)
        self.law: Any = law
        self.deadline: float = float(deadline)
        self.memory: Any = law.start()
        self.samples: int = 0
        self.missed: int = 0
        self._step = eqx.filter_jit(lambda law, *given: law.step(*given))
        self._held = eqx.filter_jit(lambda law, *given: law.held(*given))
        self._thread = ThreadPoolExecutor(1)
        self._late: Future[Any] | None = None

    def prepare(self, t: float, *seen: Any) -> None:
        """Compiles both programs and computes the first plan, from the state of the first sample; without a deadline."""
        _checks.check_finite("t", t)
        _, planned = jax.block_until_ready(self._step(self.law, self.memory, t, *seen))
        jax.block_until_ready(self._held(self.law, planned, t))
        self.memory = planned

    def __call__(self, t: float, *seen: Any) -> Float[np.ndarray, " p"]:
        """The command of the sample at t; `seen`: q and u, or the observation that the law's `step` takes in their place."""
        self.samples += 1
        if self._late is not None and self._late.done():
            self.memory = self.law.resumed(self._late.result()[1], self.memory)
            self._late = None
        if self._late is None:
            step = self._thread.submit(self._computed, self.memory, t, *seen)
            try:
                command, self.memory = step.result(self.deadline)
                return np.asarray(command)
            except TooLate:
                self._late = step
        self.missed += 1
        command, self.memory = self._held(self.law, self.memory, t)
        return np.asarray(command)

    def _computed(self, *given: Any) -> tuple[Array, Any]:
        return jax.block_until_ready(self._step(self.law, *given))
