"""Units of the distance from a plan and of the commands, as far as a system's class gives them."""

from collections.abc import Iterator, Sequence

from jaxhamel.geometry import SE2, SE3, SO2, SO3, AbstractSpace, Helical, Product, Schoenflies
from jaxhamel.mechanics import System
from jaxhamel.mechanics._description._declarations import state_of
from jaxhamel.viz._motion._charts_of import names_and_units_of_controls

# Units of exponential coordinates. Those of other spaces are the units that the class gives to its coordinates.
OF_GROUPS: dict[type[AbstractSpace], str] = {
    SO2: "rad",
    SO3: "rad",
    Helical: "rad",
    SE2: "m, rad",
    SE3: "m, rad",
    Schoenflies: "m, rad",
}


def unit_of_distance(system: System) -> str:
    """The units of |log(q*⁻¹ q)|, with ", " between them; empty if the class gives a coordinate no unit."""
    spaces, parts = list(_factors(system.space)), state_of(system).q
    if len(spaces) != len(parts):
        return ""
    found = [OF_GROUPS.get(type(x), part.unit) for x, part in zip(spaces, parts, strict=True)]
    return _together(found)


def unit_of_commands(system: System, m: int) -> str:
    """The units of the m controls, with ", " between them; empty if the class gives one of them no unit."""
    return _together(names_and_units_of_controls(system, m)[1])


def _factors(space: AbstractSpace) -> Iterator[AbstractSpace]:
    """The factors of a space, those of products inside of it too."""
    if not isinstance(space, Product):
        yield space
        return
    for factor in space.spaces:
        yield from _factors(factor)


def _together(units: Sequence[str]) -> str:
    """The different units, sorted; an empty text if there is none, or one is empty."""
    if not units or not all(units):
        return ""
    return ", ".join(sorted({unit for many in units for unit in many.split(", ")}))
