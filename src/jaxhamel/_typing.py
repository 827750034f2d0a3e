"""Shape vocabulary: one letter for one meaning in every annotation of the package.

| mathematics | axis or type here | meaning                                                      |
|-------------|-------------------|--------------------------------------------------------------|
| n           | `n`               | dimension of the configuration space Q                       |
| m           | `m`               | number of constraint one-forms (the first rows of A)         |
| n − m       | `k`               | number of independent quasi-velocities                       |
| q           | `Configuration`   | configuration: an array, or a tuple of arrays on a product   |
| v           | `Velocity`        | left-trivialised (body) velocity, `(n,)`                     |
| u           | `QuasiVelocity`   | independent quasi-velocities u = A(q) v (+ a), `(k,)`        |
| A, B = A⁻¹  | `Frame`           | frame matrix and its inverse, `(n, n)`                       |
| γ^c_ab      | `Hamel`           | Hamel coefficients, index order `[c, a, b]`                  |
"""

from typing import TYPE_CHECKING, Any, TypeAlias

from jaxtyping import Array, Float, PyTree, Shaped

Scalar: TypeAlias = Float[Array, ""]
Time: TypeAlias = float | Scalar
if TYPE_CHECKING:  # type checkers know no pytrees
    Configuration: TypeAlias = Any
else:
    Configuration: TypeAlias = PyTree[Shaped[Array, "..."]]
Velocity: TypeAlias = Float[Array, " n"]
QuasiVelocity: TypeAlias = Float[Array, " k"]
Multiplier: TypeAlias = Float[Array, " m"]
Frame: TypeAlias = Float[Array, "n n"]
Hamel: TypeAlias = Float[Array, "n n n"]
Quaternion: TypeAlias = Float[Array, " 4"]
Vector3: TypeAlias = Float[Array, " 3"]
Control: TypeAlias = Any
