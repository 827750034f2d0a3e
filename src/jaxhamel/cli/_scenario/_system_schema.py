"""The keys of a system, its rails and its initial state, for each kind."""

from jaxhamel.cli._scenario._validate import Table, Tables, Variants
from jaxhamel.cli._scenario._values import Key, either, number, numbers, rows

POSITIVE = number(positive=True)
INERTIA = either(numbers(3), rows(3))

GRAVITY = Key(number(least=0.0), "acceleration of gravity, along −z", 9.81, "m/s²")
MASSES = Key(numbers(), "the moving masses, one for each rail", [], "kg")

IN_PLANE = {
    "normal": Key(numbers(3), "unit normal of the rail's plane, body frame"),
    "zero": Key(numbers(3), "unit direction of θ = 0 from the centre, perpendicular to `normal`"),
    "centre": Key(numbers(3), "centre of the rail from the geometric centre", [0.0, 0.0, 0.0], "m"),
}
RAILS = Tables(
    Variants(
        by="kind",
        about="shape of the rail",
        tables={
            "circular": Table({"radius": Key(POSITIVE, "radius", unit="m"), **IN_PLANE}),
            "elliptic": Table(
                {
                    "semi_axes": Key(numbers(2), "half axes along `zero` and across", unit="m"),
                    **IN_PLANE,
                }
            ),
            "figure-eight": Table(
                {
                    "size": Key(POSITIVE, "from the crossing to the end of a loop", unit="m"),
                    **IN_PLANE,
                }
            ),
            "straight": Table(
                {
                    "origin": Key(numbers(3), "position at θ = 0, body frame", unit="m"),
                    "direction": Key(numbers(3), "unit direction of growing θ, body frame"),
                }
            ),
        },
    ),
    about="one table for each mass: the curve, fixed in the body, on which it moves",
)

ROLLING_BALL = Table(
    {
        "radius": Key(POSITIVE, "radius of the ball", unit="m"),
        "shell_mass": Key(POSITIVE, "mass of the shell", unit="kg"),
        "shell_inertia": Key(
            INERTIA, "about the shell's centre of mass: principal or matrix", unit="kg m²"
        ),
        "shell_com": Key(
            numbers(3), "centre of mass of the shell, body frame", [0.0, 0.0, 0.0], "m"
        ),
        "masses": MASSES,
        "rails": RAILS,
        "gravity": GRAVITY,
        "external_force": Key(
            numbers(3), "on the geometric centre, space frame", [0.0, 0.0, 0.0], "N"
        ),
    }
)
ACTUATED_DISK = Table(
    {
        "radius": Key(POSITIVE, "radius of the disk", unit="m"),
        "disk_mass": Key(POSITIVE, "mass of the disk", unit="kg"),
        "disk_inertia": Key(POSITIVE, "about the disk's centre of mass", unit="kg m²"),
        "disk_com": Key(numbers(3), "centre of mass of the disk, body frame", [0.0, 0.0, 0.0], "m"),
        "masses": MASSES,
        "rails": RAILS,
        "gravity": GRAVITY,
        "external_force": Key(number(), "on the geometric centre, along x", 0.0, "N"),
    }
)
HEAVY_TOP = Table(
    {
        "mass": Key(POSITIVE, "mass", unit="kg"),
        "inertia": Key(INERTIA, "about the pivot: principal or matrix", unit="kg m²"),
        "com": Key(numbers(3), "centre of mass from the pivot, body frame", unit="m"),
        "gravity": GRAVITY,
    }
)
SUSLOV = Table(
    {
        "inertia": Key(INERTIA, "about the fixed point: principal or matrix", unit="kg m²"),
        "xi": Key(
            numbers(3), "the body axis ξ about which the body does not turn", [0.0, 0.0, 1.0]
        ),
    }
)
FREE_RIGID_BODY = Table({"inertia": Key(INERTIA, "principal or matrix", unit="kg m²")})

SYSTEM = Variants(
    by="kind",
    about="the system",
    required=True,
    tables={
        "rolling-ball": ROLLING_BALL,
        "actuated-disk": ACTUATED_DISK,
        "heavy-top": HEAVY_TOP,
        "suslov": SUSLOV,
        "free-rigid-body": FREE_RIGID_BODY,
    },
)

ORIENTATION = Key(numbers(4), "unit quaternion (w, x, y, z), body to space", [1.0, 0.0, 0.0, 0.0])
OMEGA = Key(numbers(3), "angular velocity, body frame", [0.0, 0.0, 0.0], "rad/s")
INITIAL = {
    "rolling-ball": Table(
        {
            "orientation": ORIENTATION,
            "position": Key(numbers(2), "of the centre over the ground", [0.0, 0.0], "m"),
            "omega": OMEGA,
        }
    ),
    "actuated-disk": Table(
        {
            "angle": Key(number(), "φ; the disk rolls towards −x as it grows", 0.0, "rad"),
            "position": Key(number(), "of the centre along x", 0.0, "m"),
            "rate": Key(number(), "φ̇", 0.0, "rad/s"),
        }
    ),
    "heavy-top": Table({"orientation": ORIENTATION, "omega": OMEGA}),
    "suslov": Table(
        {
            "orientation": ORIENTATION,
            "omega": Key(
                numbers(2), "along the two axes across ξ: (Ω₁, Ω₂) for ξ = e₃", [0.0, 0.0], "rad/s"
            ),
        }
    ),
    "free-rigid-body": Table({"orientation": ORIENTATION, "omega": OMEGA}),
}
