"""Refuses a mode of differentiation that an adjoint of diffrax lacks, with an error that names the adjoint.

`ForwardMode` has no reverse mode, and `RecursiveCheckpointAdjoint` has neither forward mode nor second derivatives. JAX's
own errors name a loop or a function inside diffrax. So the inputs or the outputs of a solve pass through an identity, whose
derivative rules raise an error first.
"""

from typing import Any

import diffrax
import equinox as eqx
import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

_USE = "Use None, or diffrax.DirectAdjoint(): both modes and second derivatives."
_NO_REVERSE = (
    "`adjoint` is ForwardMode, which has no reverse mode (`jax.grad`, `jax.jacrev`, `jax.vjp`). "
    f"{_USE} diffrax.RecursiveCheckpointAdjoint() has reverse mode alone."
)
_NO_FORWARD = (
    "`adjoint` is RecursiveCheckpointAdjoint, which has no forward mode (`jax.jvp`, `jax.jacfwd`). "
    f"{_USE} diffrax.ForwardMode() has forward mode alone."
)
_NOT_TWICE = f"`adjoint` is RecursiveCheckpointAdjoint, which has no second derivatives. {_USE}"


def refusing_forward_mode(adjoint: diffrax.AbstractAdjoint | None, inputs: Any) -> Any:
    """The inputs of a solve, unchanged; a tangent of them raises an error if the adjoint has no forward mode."""
    if isinstance(adjoint, diffrax.RecursiveCheckpointAdjoint):
        return _each(_with_tangent_only_reversed, inputs)
    return inputs


def refusing_reverse_mode(adjoint: diffrax.AbstractAdjoint | None, outputs: Any) -> Any:
    """The outputs of a solve, unchanged; a cotangent of them raises an error if the adjoint has no reverse mode."""
    if isinstance(adjoint, diffrax.ForwardMode):
        return _each(lambda x: _only_forward_p.bind(x, reason=_NO_REVERSE), outputs)
    return outputs


def _each(function, tree):
    return jax.tree.map(lambda x: function(x) if eqx.is_inexact_array(x) else x, tree)


@jax.custom_jvp
def _with_tangent_only_reversed(x):
    return x


@_with_tangent_only_reversed.defjvp
def _only_reversed_tangent(primals, tangents):
    out = _with_tangent_only_reversed(primals[0])  # keeps the rule for a second differentiation
    return out, _only_reversed_p.bind(tangents[0])


_only_forward_p = Primitive("jaxhamel_only_forward")
_only_reversed_p = Primitive("jaxhamel_only_reversed")


def _refuse_to_transpose(_, x, *, reason):
    raise ValueError(reason)


def _refuse_to_run(x):
    raise ValueError(_NO_FORWARD)


_only_forward_p.def_impl(lambda x, reason: x)
_only_forward_p.def_abstract_eval(lambda x, reason: x)
ad.deflinear2(_only_forward_p, _refuse_to_transpose)
batching.defvectorized(_only_forward_p)
mlir.register_lowering(_only_forward_p, mlir.lower_fun(lambda x, reason: x, False))

_only_reversed_p.def_impl(_refuse_to_run)
_only_reversed_p.def_abstract_eval(lambda x: x)
ad.deflinear2(_only_reversed_p, lambda ct, _: [_only_forward_p.bind(ct, reason=_NOT_TWICE)])
batching.defvectorized(_only_reversed_p)
mlir.register_lowering(_only_reversed_p, mlir.lower_fun(_refuse_to_run, False))
