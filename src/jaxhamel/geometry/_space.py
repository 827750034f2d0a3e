"""A configuration space: a Lie group, its exponential coordinates, its left-trivialised velocity.

Every space here is a group, vector spaces included. A configuration q is stored as an array (a
tuple of arrays on a product), a velocity v = q⁻¹ q̇ as `(dim,)`. With φ(t) exponential coordinates
around q,

    retract(q, φ) = q · exp(φ) ,      v = dexp(−φ) φ̇ ,      c^c_ab e_c = [e_a, e_b] .
"""

import inspect
from abc import abstractmethod
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._shapes import shapes_of
from jaxhamel._typing import Configuration, Velocity
from jaxhamel.geometry._checks import check_operand

P = ParamSpec("P")
T = TypeVar("T")

# The arguments of each operation: q stands for a configuration (or its rate), v for a velocity or increment `(dim,)`.
_OPERANDS = {
    **{"compose": "qq", "inverse": "q", "exp": "v", "log": "q", "Ad": "q", "ad": "v", "dexp": "v"},
    **{"dexpinv": "v", "rate": "qv", "velocity": "qq", "matrix": "q", "normalise": "q"},
    **{"retract": "qv", "local": "qq"},
}


def checked(method: Callable[P, T]) -> Callable[P, T]:
    """Decorates an operation of a space with a check of its arguments' shapes, which takes no time in a compiled program."""
    signature, kinds = inspect.signature(method), _OPERANDS[method.__name__]
    names = tuple(signature.parameters)[1:]

    @wraps(method)
    def operation(*args: P.args, **kwargs: P.kwargs) -> T:
        space, *given = signature.bind(*args, **kwargs).args if kwargs else args
        for kind, name, value in zip(kinds, names, given, strict=False):
            _check_operand(space, method.__name__, kind, name, value)
        return method(*args, **kwargs)

    return operation


class AbstractSpace(eqx.Module):
    """A configuration space Q that is a Lie group, with the operations that mechanics needs.

    A space is a pytree whose only leaves are parameters such as a pitch; without such arrays it is hashable. It takes
    almost no time to construct, so that `space = Product(SO3(), Euclidean(2))` can be a class attribute.

    Every operation checks the shapes of its arguments, also those of a subclass.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in _OPERANDS.keys() & vars(cls).keys():
            setattr(cls, name, checked(vars(cls)[name]))

    @property
    @abstractmethod
    def dim(self) -> int:
        """n, the number of degrees of freedom (not of stored numbers)."""

    @abstractmethod
    def identity(self, dtype: Any = None) -> Configuration:
        """The neutral element e, in `dtype` (default: JAX's default float)."""

    @abstractmethod
    def compose(self, q1: Configuration, q2: Configuration) -> Configuration:
        """q1 · q2."""

    @abstractmethod
    def inverse(self, q: Configuration) -> Configuration:
        """q⁻¹."""

    @abstractmethod
    def exp(self, delta: Velocity) -> Configuration:
        """exp(δ), δ `(dim,)`: the flow of the constant velocity δ from e after unit time."""

    @abstractmethod
    def log(self, q: Configuration) -> Velocity:
        """The smallest δ with exp(δ) = q, `(dim,)`; discontinuous half a turn away from e."""

    @abstractmethod
    def Ad(self, q: Configuration) -> Float[Array, "n n"]:
        """Ad_q: exp(Ad_q δ) = q exp(δ) q⁻¹; takes a body velocity to the spatial one."""

    @abstractmethod
    def ad(self, delta: Velocity) -> Float[Array, "n n"]:
        """ad_δ: ad(x) y = [x, y], so ad(x)[c, b] = c^c_ab x^a."""

    @abstractmethod
    def dexp(self, delta: Velocity) -> Float[Array, "n n"]:
        """dexp_δ = Σ ad_δ^k / (k+1)!, the right-trivialised differential of exp, `(dim, dim)`.

        The spatial velocity of exp(φ(t)) is dexp(φ) φ̇, its body velocity dexp(−φ) φ̇. Books on
        robotics call dexp(φ) the left and dexp(−φ) the right Jacobian.
        """

    @abstractmethod
    def dexpinv(self, delta: Velocity) -> Float[Array, "n n"]:
        """dexp_δ⁻¹ = Σ B_k ad_δ^k / k! in closed form; singular where a rotation is a full turn."""

    @abstractmethod
    def rate(self, q: Configuration, v: Velocity) -> Configuration:
        """q̇ in storage coordinates at body velocity v; linear in v, structure and shapes of q."""

    @abstractmethod
    def velocity(self, q: Configuration, qdot: Configuration) -> Velocity:
        """v of a storage rate q̇: the left inverse of `rate`, `velocity(q, rate(q, v)) = v`."""

    @abstractmethod
    def matrix(self, q: Configuration) -> Float[Array, "d d"]:
        """A faithful matrix representation: `matrix(compose(a, b)) = matrix(a) @ matrix(b)`."""

    @abstractmethod
    def normalise(self, q: Configuration) -> Configuration:
        """q with quaternions scaled to unit norm; other coordinates, including angles, are unchanged."""

    @property
    def stored(self) -> Any:
        """The arrays a configuration is stored in: structure and shapes of `identity()`."""
        leaves, structure = jax.tree.flatten(self)
        return _identity_of(self) if leaves else _without_arrays(structure, jnp.result_type(float))

    @property
    def independent(self) -> bool:
        """Whether a configuration is stored as `dim` numbers, each of which may have any value.

        A quaternion, four numbers with the length 1 for three dimensions, is not stored so.
        """
        return sum(part.size for part in jax.tree.leaves(self.stored)) == self.dim

    @property
    def projects(self) -> bool:
        """Whether `normalise` projects numbers near a configuration onto the group: a solver may then add increments to the
        stored numbers and normalise the sum.
        """
        return self.independent

    @abstractmethod
    def check(self, q: Configuration, name: str = "q") -> None:
        """Raise `ValueError` unless q is a finite configuration of this space.

        Values are checked on the host and only if they are concrete: call this at a boundary, never in a right-hand side.
        """

    @checked
    def retract(self, q: Configuration, delta: Velocity) -> Configuration:
        """q · exp(δ): a step of body increment δ `(dim,)` from q."""
        return self.compose(q, self.exp(delta))

    @checked
    def local(self, q0: Configuration, q1: Configuration) -> Velocity:
        """δ = log(q0⁻¹ q1), the inverse of `retract`: `retract(q0, local(q0, q1))` is q1."""
        return self.log(self.compose(self.inverse(q0), q1))

    def structure_constants(self, dtype: Any = None) -> Float[Array, "n n n"]:
        """c[c, a, b] = c^c_ab of [e_a, e_b] = c^c_ab e_c: γ of the body frame of the group."""
        rows = jax.vmap(self.ad)(jnp.eye(self.dim, dtype=dtype))
        return jnp.swapaxes(rows, 0, 1)


def _check_operand(space: Any, method: str, kind: str, name: str, value: Any) -> None:
    wanted = _stored_structure(space) if kind == "q" else jax.ShapeDtypeStruct((space.dim,), float)
    what = (
        "as that of `space.identity()`" if kind == "q" else "one number for each degree of freedom"
    )
    check_operand(f"{type(space).__name__}.{method}", name, value, wanted, what)


_STORED: dict[Any, Any] = {}


def _stored_structure(space: AbstractSpace) -> Any:
    """`space.stored`, cached for each structure of a space and shapes of its arrays."""
    leaves, structure = jax.tree.flatten(space)
    kind = structure, tuple(map(np.shape, leaves))
    if kind not in _STORED:
        if len(_STORED) >= 1024:
            _STORED.clear()
        _STORED[kind] = space.stored
    return _STORED[kind]


@shapes_of
def _identity_of(space: AbstractSpace) -> Configuration:
    return space.identity()


@lru_cache(maxsize=256)
def _without_arrays(structure: Any, dtype: Any) -> Configuration:
    """The identity of a space without arrays, from its pytree structure; `dtype`, JAX's default, is a key of the cache."""
    return _identity_of(jax.tree.unflatten(structure, ()))


class AbstractAbelianSpace(AbstractSpace):
    """A commutative group stored in its own exponential coordinates: exp is the identity map."""

    def identity(self, dtype: Any = None) -> Float[Array, " n"]:
        return jnp.zeros(self.dim, dtype=dtype)

    def compose(self, q1: Configuration, q2: Configuration) -> Configuration:
        return q1 + q2

    def inverse(self, q: Configuration) -> Configuration:
        return -q

    def exp(self, delta: Velocity) -> Configuration:
        return delta

    def Ad(self, q: Configuration) -> Float[Array, "n n"]:
        return jnp.eye(self.dim, dtype=q.dtype)

    def ad(self, delta: Velocity) -> Float[Array, "n n"]:
        return jnp.zeros((self.dim, self.dim), dtype=delta.dtype)

    def dexp(self, delta: Velocity) -> Float[Array, "n n"]:
        return jnp.eye(self.dim, dtype=delta.dtype)

    def dexpinv(self, delta: Velocity) -> Float[Array, "n n"]:
        return jnp.eye(self.dim, dtype=delta.dtype)

    def rate(self, q: Configuration, v: Velocity) -> Configuration:
        return v

    def velocity(self, q: Configuration, qdot: Configuration) -> Velocity:
        return qdot

    def normalise(self, q: Configuration) -> Configuration:
        return q
