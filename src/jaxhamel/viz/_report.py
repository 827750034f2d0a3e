"""`report.html`: the motion in 3-D, its plots and numbers, in one page that loads no other file."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape as _escape
from importlib.resources import files

from jaxhamel._words import visible
from jaxhamel.viz._charts import Chart, distinct, inline_svg, path_boxes, time_boxes
from jaxhamel.viz._scene import Arrow, Curve, Points, Scene, Trail
from jaxhamel.viz._style import DARK, LIGHT, css_variables, roles

SPEEDS = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8)
LONG_TABLE = 20  # the largest number of rows of a table that is shown unfolded
ONE_LINE = 26  # values of up to this many characters are kept on one line
SCRIPTS = ("geometry.js", "sphere.js", "draw.js", "player.js")
# the page may only run its own script, which the hash identifies; it may not load or send anything or embed other pages
POLICY = (
    "default-src 'none'; script-src {}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)


@dataclass(frozen=True)
class Report:
    """The content of the page.

    **Arguments:**

    - `title`, `lead`: the heading, and the sentence under it.
    - `scene`: the motion that is animated; None for a page without animation.
    - `charts`: the plots below the animation, in order.
    - `tiles`: the most important numbers, as pairs of texts (value, meaning).
    - `tables`: the rows of each table by its heading, as names with values: numbers, text, or short lists of them.
    - `warning`: an important sentence, such as the reason for an early end of the simulation.
    - `colophon`: a line at the end of the page, such as the version that wrote it.
    """

    title: str
    lead: str
    scene: Scene | None = None
    charts: Sequence[Chart] = ()
    tiles: Sequence[tuple[str, str]] = ()
    tables: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    warning: str = ""
    colophon: str = ""

    def html(self) -> str:
        """The text of the page, which loads no font, script or image from elsewhere."""
        page = _asset("page.html") if self.scene else _still(_asset("page.html"))
        return _filled_template(page, self._parts())

    def _parts(self) -> dict[str, str]:
        script = f'\n"use strict";\n{"".join(_asset(name) for name in SCRIPTS)}'
        return {
            "policy": escape(POLICY.format(_hash(script) if self.scene else "'none'")),
            "title": escape(self.title),
            "lead": escape(self.lead),
            "warning": f'<p class="card warning" role="alert">{escape(self.warning)}</p>'
            if self.warning
            else "",
            "alt": escape(f"3-D animation: {self.title}. {self.lead}"),
            "css": _filled_template(
                _asset("page.css"), {"light": css_variables(LIGHT), "dark": css_variables(DARK)}
            ),
            "keys": "".join(_legend_entries(self.scene)) if self.scene else "",
            "speeds": "".join(f'<option value="{s}">{s}×</option>' for s in SPEEDS),
            "force": _force_switch(self.scene) if self.scene else "",
            "tiles": "".join(_tile(*tile) for tile in self.tiles),
            "charts": "\n".join(_chart(chart) for chart in distinct(self.charts)),
            "tables": "\n".join(_html_table(name, rows) for name, rows in self.tables.items()),
            "colophon": escape(self.colophon),
            "scene": _json(self.scene.payload()) if self.scene else "",
            "script": script,
        }


def escape(text: str) -> str:
    """The text escaped for an HTML element or a quoted attribute."""
    return _escape(visible(text))


def _hash(script: str) -> str:
    """The hash by which a content security policy identifies a script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    return (files("jaxhamel.viz") / "assets" / name).read_text(encoding="utf-8")


def _filled_template(template: str, parts: Mapping[str, str]) -> str:
    """The template with the part of that name in place of each `{{name}}`; inserted text is not searched again."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def _still(page: str) -> str:
    """The template of the page without the animation, its controls and its script."""
    for part in (
        r'<section class="card stage".*?</section>\n',
        r"<script.*</script>\n",
        r"Click in a plot.*?view\. ",
    ):
        page = re.sub(part, "", page, count=1, flags=re.DOTALL)
    return page


def _json(data: object) -> str:
    """The data as compact JSON. It has no `<`, which could end the page's script element or begin a comment."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _legend_entries(scene: Scene):
    """Yields the entries of the animation's legend: every labelled object with its colour."""
    for thing in scene.things:
        match thing:
            case Points(label=label) if label:
                names = thing.roles or roles(thing.positions.shape[-2])
                dots = "".join(
                    f'<i style="background:var(--{escape(role)})"></i>' for role in names
                )
                yield f"<span>{dots}{escape(label)}</span>"
            case Curve(label=label) | Trail(label=label) if label:
                look = "dashed" if isinstance(thing, Curve) and thing.dashed else "dash"
                mark = f'<i class="{look}" style="border-color:var(--{escape(thing.role)})"></i>'
                yield f"<span>{mark}{escape(label)}</span>"


def _force_switch(scene: Scene) -> str:
    arrows = [thing for thing in scene.things if isinstance(thing, Arrow)]
    if not arrows:
        return ""
    return f'<label><input id="force" type="checkbox" checked> {escape(arrows[0].label)}</label>'


def _tile(value: str, meaning: str) -> str:
    return f'<div class="card tile"><b>{escape(value)}</b><span>{escape(meaning)}</span></div>'


def _chart(chart: Chart) -> str:
    times, paths = json.dumps(time_boxes(chart.figure)), json.dumps(path_boxes(chart.figure))
    svg = inline_svg(chart).replace(
        'role="img"', f'role="img" aria-label="{escape(chart.description)}"', 1
    )
    data = f"data-times='{times}' data-paths='{paths}'"  # contains only numbers
    inner = f'<div class="chart" id="chart-{chart.key}" {data}>{svg}</div>'
    return f'<figure class="card">{inner}</figure>'


def _html_table(heading: str, rows: Mapping[str, object]) -> str:
    body = "".join(_html_row(str(k), _cell_text(v)) for k, v in rows.items())
    title, table = f"<h2>{escape(heading)}</h2>", f"<table>{body}</table>"
    if len(rows) > LONG_TABLE:
        inner = f"<details><summary>{title}{len(rows)} entries</summary>{table}</details>"
    else:
        inner = title + table
    return f'<section class="card">{inner}</section>'


def _html_row(name: str, value: str) -> str:
    kind = " class='short'" if len(value) <= ONE_LINE else ""
    return f"<tr><th scope='row'>{escape(name)}</th><td{kind}>{escape(value)}</td></tr>"


def _cell_text(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.6g}"
        case None:
            return "none"
        case list() | tuple():
            return ", ".join(_cell_text(entry) for entry in value)
        case _:
            return str(value)
