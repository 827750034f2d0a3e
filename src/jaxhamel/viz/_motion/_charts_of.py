"""The charts of a motion: its path, its tracking error, every output, every part of the state, and the invariants."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jaxhamel.mechanics import Output, Part
from jaxhamel.mechanics._description._declarations import state_of
from jaxhamel.viz._charts import Chart
from jaxhamel.viz._figures._one_motion import (
    angles_figure,
    cost_figure,
    error_figure,
    forces_figure,
    path_figure,
    quantities_figure,
)
from jaxhamel.viz._motion._numbers import axes_of_position, error_of, position, relative_changes
from jaxhamel.viz._motion._relief import contours, is_height, surface_of
from jaxhamel.viz._motion._run import ShownMotion
from jaxhamel.viz._style import in_label

SYMBOLS = {
    "Omega": "Ω",
    "omega": "ω",
    "theta": "θ",
    "phi": "φ",
    "psi": "ψ",
    "sigma": "σ",
    "lambda": "λ",
}
DOTS = {None: "", "_dot": "\u0307", "_ddot": "\u0308"}
CONTROL = "control"  # the identifier of the chart of the control
LOW = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def charts_of(run: ShownMotion) -> list[Chart]:
    """All charts for which the motion has data."""
    return list(_charts(run))


def _charts(run: ShownMotion) -> Iterator[Chart]:
    yield from _path(run)
    for output in run.along.outputs:
        yield from _output_chart(run, output)
    for part, values in run.parts:
        yield from _part_chart(run, part, values)
    if run.control_chart:
        yield from _control_chart(run)
    if run.costs is not None and len(run.costs):
        yield Chart("cost", cost_figure(run.costs), "Cost at every iteration of the optimiser")
    yield from _drift_chart(run)


def _path(run: ShownMotion) -> Iterator[Chart]:
    """Yields the charts of the path seen from above and of the distance from the reference path, if they exist."""
    place = from_above(run)
    if place is not None and place.shape[1] > 1:
        first, second = (*axes_of_position(run), "x", "y")[:2]
        level = (first, second) == ("x", "y")
        title = (
            "Path on the ground"
            if run.system.on_ground
            else "Path, from above"
            if level
            else "Path"
        )
        reference = None if run.reference is None else run.reference[:, :2]
        look = {"title": title, "labels": (first, second), "obstacles": edges_of(run)}
        look["heights"] = contours(run)
        figure = path_figure(place[:, :2], reference, **look)
        yield Chart("path", figure, f"Path of the body{', seen from above' if level else ''}")
    if (error := error_of(run)) is not None:
        words = "Distance of the body from the reference path over time"
        yield Chart("error", error_figure(run.ts, error), words)


def from_above(run: ShownMotion) -> np.ndarray | None:
    """The position of the body, `(T, d)`: its coordinates x, y, z, or, if the system does not name its state, x and y of its
    first frame; on a surface with other coordinates the contact point. None without such coordinates, or if the first
    frame does not move.
    """
    ground = surface_of(run.system)
    if ground is not None and not is_height(ground) and run.along.contact is not None:
        return np.asarray(run.along.contact)  # the coordinates on such a surface are not x and y
    if run.system.state_names is not None or not run.along.places:
        return position(run)
    seen = np.asarray(run.along.places[0][1])[:, :2]
    return seen if np.ptp(seen, axis=0).any() else None


def edges_of(run: ShownMotion) -> list[tuple[str, np.ndarray]]:
    """The name and the edge `(P, 2)` of each obstacle seen from above, at the start of the motion and, if the obstacle has
    moved, also at the end.
    """
    found = []
    for name, line in run.obstacles:
        found.append((name, line[0, :, :2]))
        if np.any(line[-1] != line[0]):
            found.append((f"{name} at the end", line[-1, :, :2]))
    return found


def _output_chart(run: ShownMotion, output: Output) -> Iterator[Chart]:
    """Yields the chart of an output of the system: of its path, its rail parameters, its contact force, or quantities."""
    values = np.asarray(output.value)
    match output.name:
        case "path":
            figure = path_figure(values[:, :2], title=output.about, obstacles=edges_of(run))
            yield Chart("path", figure, f"{output.about}")
        case "angles":
            words = "Position of each mass on its rail over time"
            unit = ", ".join(dict.fromkeys(output.unit.split(", ")))
            label = with_unit("rail parameter θ", unit)
            yield Chart("angles", angles_figure(run.ts, values, ylabel=label), words)
        case "forces":
            weight = None if output.level is None else float(np.max(output.level))
            limit = run.friction_limit
            figure = forces_figure(run.ts, values, weight=weight, friction_limit=limit)
            yield Chart("forces", figure, "Normal force and friction needed over time")
        case _:
            names = [symbol(name) for name in output.columns]
            title = output.about or output.name
            label = with_unit(common(names), output.unit)
            yield quantities_chart(run, output.name, values, names, title, label)


def _part_chart(run: ShownMotion, part: Part, values: np.ndarray) -> Iterator[Chart]:
    """Yields the chart of a part of the state over time, without the coordinates x and y, which the chart of the path shows,
    and without a height z that is constant.
    """
    columns = part.names(values.shape[1])
    names = list(part.symbols or map(symbol, columns))
    shown = list(range(len(columns)))
    if {"x", "y"} <= set(columns):
        shown = [
            i for i in shown if columns[i] not in ("x", "y") and _moves(columns[i], values[:, i])
        ]
    if not part.chart or not shown:
        return
    names, units = [names[i] for i in shown], part.units(len(columns))
    title = title_of(part) if len(shown) == len(columns) else capitalised(", ".join(names))
    names, label = legend_and_label(names, [units[i] for i in shown], part.key.replace("_", " "))
    yield quantities_chart(run, part.key, values[:, shown], names, title, label)


def _control_chart(run: ShownMotion) -> Iterator[Chart]:
    """Yields the chart of the control, unless it is zero throughout or moves masses on rails, which have their own chart."""
    values = run.along.control
    if values is None or not np.any(values) or run.output("angles") is not None:
        return
    names, label = names_and_label(*names_and_units_of_controls(run.system, values.shape[1]))
    yield quantities_chart(run, CONTROL, values, names, "Control", label)


def names_and_units_of_controls(system: Any, m: int) -> tuple[list[str], list[str]]:
    """The name and the unit of each of the m controls, as the system declares them; if it does not name as many, control_1 …
    control_m without units.
    """
    parts = state_of(system).control
    fixed = sum(part.size or 0 for part in parts)
    sizes = [part.size or m - fixed for part in parts]
    if sum(sizes) != m:
        return [f"control_{i + 1}" for i in range(m)], []
    many = list(zip(parts, sizes, strict=True))
    names = [name for part, size in many for name in part.names(size)]
    return names, [unit for part, size in many for unit in part.units(size)]


def names_and_label(names: Sequence[str], units: Sequence[str]) -> tuple[list[str], str]:
    """The names of controls as in formulas, and the label of the axis of their chart."""
    symbols = [symbol(name) for name in names]
    return legend_and_label(symbols, units, "control", common(symbols) or "control")


def legend_and_label(
    names: Sequence[str], units: Sequence[str], together: str, name: str = ""
) -> tuple[list[str], str]:
    """The entries of the legend of a chart and the label of its axis.

    A unit that all quantities share stands in the label, after `name` or what the names have in common; different units
    stand in the legend, and the label is `together`.
    """
    different = list(dict.fromkeys(units))
    if len(different) > 1:
        return [with_unit(n, unit) for n, unit in zip(names, units, strict=True)], together
    return list(names), with_unit(name or common(names), "".join(different))


def _moves(column: str, values: np.ndarray) -> bool:
    return column != "z" or float(np.ptp(values)) > 1e-6


def title_of(part: Part) -> str:
    """The heading of the plot of a part of the state."""
    if not part.about:
        return part.key.replace("_", " ")
    continues = part.about.startswith(("of ", "about ", "along "))
    return capitalised(f"{part.key} {part.about}" if continues else part.about)


def capitalised(words: str) -> str:
    """The words with a capital first letter, unless they begin with a symbol: x, or a Greek letter such as σ."""
    begins_with_word = words[:2].isascii() and words[:2].isalpha()
    return words[:1].upper() + words[1:] if begins_with_word else words


def _drift_chart(run: ShownMotion) -> Iterator[Chart]:
    """Yields the chart of the changes of the invariants over time; nothing for a system without invariants."""
    changes = relative_changes(run)
    if not changes:
        return
    values = np.stack(list(changes.values()), axis=1)
    largest = float(np.nanmax(values))
    power = int(np.floor(np.log10(largest))) if 0 < largest < np.inf else 0
    title, ylabel = "Change of conserved quantities", f"relative change / 10{_raised(power)}"
    yield quantities_chart(run, "invariants", values / 10.0**power, list(changes), title, ylabel)


def quantities_chart(
    run: ShownMotion, name: str, values: np.ndarray, names: Sequence[str], title: str, ylabel: str
) -> Chart:
    """A chart of quantities over time, `values` `(T, n)`; `name` is its identifier, `names` are those of the columns."""
    figure = quantities_figure(run.ts, values, names, title=title, ylabel=ylabel)
    return Chart(name, figure, f"{title} over time")


def symbol(column: str) -> str:
    """The name of a column as in formulas: theta_1 becomes θ₁, phi_dot φ̇, b_1_dot ḃ₁, q2_3 (the third number of the second
    array of q) q₂,₃; words have no underscores.
    """
    if stored := re.fullmatch(
        r"(q)(\d+)_(\d+)", column
    ):  # the second of q's arrays, its third number: q₂,₃
        return stored[1] + f"{stored[2]},{stored[3]}".translate(LOW)
    name = re.sub(r"^[A-Za-z]+", lambda found: SYMBOLS.get(found[0], found[0]), column)
    parts = re.fullmatch(r"(.)(_d?dot)?_?(\d*)(_d?dot)?", name)
    if parts is None:
        return name if name[1:2] == "_" else name.replace("_", " ")
    letter, before, number, after = parts.groups()
    dotted = unicodedata.normalize(
        "NFC", letter + DOTS[before or after]
    )  # matplotlib draws a separate dot into "b"
    return dotted + number.translate(LOW)


def common(names: Sequence[str]) -> str:
    """The names without number or axis if they are equal then, such as Ω for Ω₁ and Ω₂ or v for v_x and v_y; otherwise no
    text. A single name stays whole.
    """
    if len(names) == 1:
        return names[0]
    stems = {re.sub(r"[ _]?[\d₀-₉]+(,[₀-₉]+)?$|(?<=^.)_?\w$", "", name) for name in names}
    return stems.pop() if len(stems) == 1 else ""


def with_unit(name: str, unit: str) -> str:
    """The label of an axis for a quantity and its unit, such as "x / m"."""
    if not unit:
        return name
    return f"{name} / {in_label(unit)}" if name else f"in {unit}"


def _raised(power: int) -> str:
    return str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
