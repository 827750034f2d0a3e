"""`citation`: BibTeX entries of the sources of the package, and of the systems and methods that were used."""

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
    "mueller2023": """@article{mueller2023hamel,
    title={Hamel's equations and geometric mechanics of constrained and floating multibody and space systems},
    author={M{\\"u}ller, Andreas},
    journal={Proceedings of the Royal Society A}, volume={479}, pages={20220732}, year={2023}
}""",
    "bloch2003": """@book{bloch2003nonholonomic,
    title={Nonholonomic Mechanics and Control},
    author={Bloch, Anthony M.}, publisher={Springer}, year={2003}
}""",
    "weltner1979": """@article{weltner1979stable,
    title={Stable circular orbits of freely moving balls on rotating discs},
    author={Weltner, Klaus},
    journal={American Journal of Physics}, volume={47}, pages={984--986}, year={1979}
}""",
    "lesaux2005": """@article{lesaux2005dynamics,
    title={Dynamics of a Rolling Disk in the Presence of Dry Friction},
    author={Le Saux, C. and Leine, R. I. and Glocker, C.},
    journal={Journal of Nonlinear Science}, volume={15}, pages={27--61}, year={2005}, doi={10.1007/s00332-004-0655-4}
}""",
    "kane1982": """@article{kane1982realistic,
    title={Realistic mathematical modeling of the rattleback},
    author={Kane, Thomas R. and Levinson, David A.},
    journal={International Journal of Non-Linear Mechanics}, volume={17}, pages={175--186}, year={1982}
}""",
    "bloch1996": """@article{bloch1996nonholonomic,
    title={Nonholonomic Mechanical Systems with Symmetry},
    author={Bloch, Anthony M. and Krishnaprasad, P. S. and Marsden, Jerrold E. and Murray, Richard M.},
    journal={Archive for Rational Mechanics and Analysis}, volume={136}, pages={21--99}, year={1996}
}""",
    "shammas2007": """@article{shammas2007geometric,
    title={Geometric Motion Planning Analysis for Two Classes of Underactuated Mechanical Systems},
    author={Shammas, Elie A. and Choset, Howie and Rizzi, Alfred A.},
    journal={The International Journal of Robotics Research}, volume={26}, pages={1043--1073}, year={2007}
}""",
    "borisov2012": """@article{borisov2012how,
    title={How to control Chaplygin's sphere using rotors},
    author={Borisov, Alexey V. and Kilin, Alexander A. and Mamaev, Ivan S.},
    journal={Regular and Chaotic Dynamics}, volume={17}, pages={258--272}, year={2012}
}""",
    "pravecek2025": """@article{pravecek2025empirically,
    title={Empirically Compensated Setpoint Tracking for Spherical Robots With Pressurized Soft-Shells},
    author={Pravecek, D. J. and others},
    journal={IEEE Robotics and Automation Letters}, volume={10}, number={3}, pages={2136--2143}, year={2025}
}""",
    "canudas1995": """@article{canudas1995new,
    title={A new model for control of systems with friction},
    author={Canudas de Wit, C. and Olsson, H. and {\\AA}str{\\"o}m, K. J. and Lischinsky, P.},
    journal={IEEE Transactions on Automatic Control}, volume={40}, pages={419--425}, year={1995}
}""",
    "meijaard2007": """@article{meijaard2007linearized,
    title={Linearized dynamics equations for the balance and steer of a bicycle: a benchmark and review},
    author={Meijaard, J. P. and Papadopoulos, Jim M. and Ruina, Andy and Schwab, A. L.},
    journal={Proceedings of the Royal Society A}, volume={463}, pages={1955--1982}, year={2007}
}""",
    "celledoni2003": """@article{celledoni2003commutator,
    title={Commutator-free Lie group methods},
    author={Celledoni, Elena and Marthinsen, Arne and Owren, Brynjulf},
    journal={Future Generation Computer Systems}, volume={19}, pages={341--352}, year={2003}
}""",
    "munthe-kaas1999": """@article{munthekaas1999high,
    title={High order Runge--Kutta methods on manifolds},
    author={Munthe-Kaas, Hans}, journal={Applied Numerical Mathematics}, volume={29}, pages={115--127}, year={1999}
}""",
    "cortes2001": """@article{cortes2001nonholonomic,
    title={Non-holonomic integrators},
    author={Cort{\\'e}s, Jorge and Mart{\\'i}nez, Sonia},
    journal={Nonlinearity}, volume={14}, pages={1365--1392}, year={2001}
}""",
    "ball2015": """@incollection{ball2015hamel,
    title={Hamel's Formalism and Variational Integrators},
    author={Ball, Kenneth R. and Zenkov, Dmitry V.},
    booktitle={Geometry, Mechanics, and Dynamics}, publisher={Springer}, year={2015}, doi={10.1007/978-1-4939-2441-7_20}
}""",
    "rucker2022": """@article{rucker2022smooth,
    title={Smooth Parameterization of Rigid-Body Inertia},
    author={Rucker, Caleb and Wensing, Patrick M.},
    journal={IEEE Robotics and Automation Letters}, volume={7}, number={2}, pages={2771--2778}, year={2022},
    doi={10.1109/LRA.2022.3144517}
}""",
    "kelly2017": """@article{kelly2017introduction,
    title={An Introduction to Trajectory Optimization: How to Do Your Own Direct Collocation},
    author={Kelly, Matthew}, journal={SIAM Review}, volume={59}, number={4}, pages={849--904}, year={2017},
    doi={10.1137/16M1062569}
}""",
    "kane1969": """@article{kane1969dynamical,
    title={A Dynamical Explanation of the Falling Cat Phenomenon},
    author={Kane, Thomas R. and Scher, M. P.},
    journal={International Journal of Solids and Structures}, volume={5}, number={7}, pages={663--670}, year={1969},
    doi={10.1016/0020-7683(69)90086-9}
}""",
    "hairer2006": """@book{hairer2006geometric,
    title={Geometric Numerical Integration},
    author={Hairer, Ernst and Lubich, Christian and Wanner, Gerhard}, publisher={Springer}, edition={2}, year={2006}
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
    "LieGroup": ("munthe-kaas1999",),
    "Projected": ("hairer2006",),
    "AbstractCommutatorFree": ("celledoni2003",),
    "Variational": ("cortes2001", "ball2015"),
    "RollingBall": ("putkaradze2018",),
    "RollingPendulumBall": ("putkaradze2018",),
    "RollingRotorBall": ("borisov2012", "putkaradze2018"),
    "ActuatedDisk": ("putkaradze2018",),
    "HeavyTop": ("putkaradze2018",),
    "Suslov": ("putkaradze2018",),
    "ChaplyginSleigh": ("bloch2003",),
    "KnifeEdge": ("bloch2003",),
    "Snakeboard": ("bloch1996",),
    "CoupledSnakeboard": ("bloch1996", "shammas2007"),
    "NonSpinningBall": ("mueller2023",),
    "Satellite": ("mueller2023",),
    "SatelliteMixed": ("mueller2023",),
    "SoftRollingPendulum": ("pravecek2025", "canudas1995"),
    "SpaceRobot": ("mueller2023",),
    "CartPole": ("kelly2017",),
    "FallingCat": ("kane1969",),
    "TwoWheelSatellite": ("mueller2023",),
    "BallOnTurntable": ("weltner1979",),
    "UnderwaterBody": ("massa-vignolo",),
    "RigidBody": ("massa-vignolo",),
    "RollingDisk": ("lesaux2005",),
    "Rattleback": ("kane1982",),
    "WhippleBicycle": ("meijaard2007",),
    "BodyInertia": ("rucker2022",),
    "RotationalInertia": ("rucker2022",),
    "Points": ("massa-vignolo",),
    "Spins": ("massa-vignolo",),
}


def citation(*used: Any) -> str:
    """BibTeX entries of the sources of the given objects (systems, bodies, solvers), and of the general sources.

    **Arguments:** `*used`: objects of this package or their classes.

    **Returns:** BibTeX entries, each once.
    """
    classes = (item if isinstance(item, type) else type(item) for item in used)
    names = [base.__name__ for cls in classes for base in cls.__mro__]
    keys = [key for name in names for key in _BY_NAME.get(name, ())]
    return "\n\n".join(_PAPERS[key] for key in dict.fromkeys((*keys, *_ALWAYS)))
