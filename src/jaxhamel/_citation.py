"""The references of what a user used: BibTeX read out of docstrings' sources, one table."""

from typing import Any

_PAPERS = {
    "mueller2021": """@article{mueller2021hamel,
    title={Hamel Coefficients and the Boltzmann--Hamel Equations for the Rigid Body},
    author={M{\\"u}ller, Andreas},
    journal={Journal of Nonlinear Science}, volume={31}, year={2021}, doi={10.1007/s00332-021-09692-7}
}""",
    "from2012": """@article{from2012explicit,
    title={An Explicit Formulation of Singularity-Free Dynamic Equations of Mechanical Systems in
        Lagrangian Form -- Part one: Single Rigid Bodies},
    author={From, P{\\aa}l Johan},
    journal={Modeling, Identification and Control}, year={2012}
}""",
    "massa-vignolo": """@misc{massa_vignolo,
    title={Newton--Euler, Lagrange and Kirchhoff formulations of rigid body dynamics: a unified approach},
    author={Massa, Enrico and Vignolo, Stefano}
}""",
    "putkaradze2018": """@article{putkaradze2018dynamics,
    title={On the dynamics of a rolling ball actuated by internal point masses},
    author={Putkaradze, Vakhtang and Rogers, Stuart},
    journal={Meccanica}, volume={53}, pages={3839--3868}, year={2018}, doi={10.1007/s11012-018-0904-5}
}""",
    "diffrax": """@phdthesis{kidger2021on,
    title={On Neural Differential Equations},
    author={Kidger, Patrick}, school={University of Oxford}, year={2021}
}""",
    "jax": """@software{jax2018github,
    title={JAX: composable transformations of Python+NumPy programs},
    author={Bradbury, James and Frostig, Roy and Hawkins, Peter and Johnson, Matthew James and Leary, Chris and others},
    url={http://github.com/jax-ml/jax}, year={2018}
}""",
}

_ALWAYS = ("mueller2021", "from2012", "diffrax", "jax")
_BY_NAME = {
    "RollingBall": ("putkaradze2018",),
    "ActuatedDisk": ("putkaradze2018",),
    "HeavyTop": ("putkaradze2018",),
    "Suslov": ("putkaradze2018",),
    "Points": ("massa-vignolo",),
    "Spins": ("massa-vignolo",),
}


def citation(*used: Any) -> str:
    """BibTeX of what stands behind the objects given: systems, bodies; the general sources always.

    **Arguments:** `*used`: objects of this package or their classes.

    **Returns:** BibTeX entries, each once.
    """
    classes = (item if isinstance(item, type) else type(item) for item in used)
    names = [base.__name__ for cls in classes for base in cls.__mro__]
    keys = [key for name in names for key in _BY_NAME.get(name, ())]
    return "\n\n".join(_PAPERS[key] for key in dict.fromkeys((*keys, *_ALWAYS)))
