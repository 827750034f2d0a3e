"""Derivatives of everything that moves, in every order of modes, against differences of values.

    python benchmarks/derivatives.py [--quick] [--only NAME ...] [--keep FILE] [--markdown FILE]

Each row of `derivative_rows.py` is a scalar function of two numbers, at one or more points that are hard for derivatives.
Columns: the gradient in forward (`f`) and reverse mode (`r`), and the Hessian times a direction in the four orders of two
modes: `fr` is forward over reverse. A figure is the largest error over the points, each relative to the largest entry of the
reference at that point (but not less than a thousandth of the largest at any point). The reference is made of values alone,
in double precision: central differences with two Richardson extrapolations. A combination that raises an error is
"refused", with the error's first sentence.

`--keep FILE` adds results to a JSON file; a row is not run again in a precision that stands in it. `--markdown FILE`
replaces the table in a Markdown file. `seconds` are CPU seconds of tracing and compiling all columns, without LLVM's
optimisation. The last line is one JSON object; `worst` is its largest figure in double precision.
"""

import argparse
import contextlib
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

# A third of the time to compile, before JAX starts; nothing is timed that runs.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
)

import jax
import jax.numpy as jnp
import numpy as np
from derivative_rows import ROWS, Row

jax.config.update("jax_enable_x64", True)
DIRECTION = np.array([0.6, -0.8])
FLOOR = 1e-3  # the scale of an error at one point is at least this share of the largest entry at any point
COLUMNS = ("f", "r", "ff", "fr", "rf", "rr")
QUICK = ("ensemble.integrate, `dt`",)
BEGIN, END = "<!-- table of benchmarks/derivatives.py -->", "<!-- end of the table -->"


def derivatives(f: Callable) -> dict[tuple[str, ...], Callable]:
    """Functions of (x, v), by their columns: the gradient, and the Hessian times the direction v.

    A jvp of the gradient returns both, so `f` and `r` need no programs of their own.
    """
    along = lambda x, v: jax.jvp(f, (x,), (v,))[1]
    forward, reverse = jax.jacfwd(f), jax.grad(f)
    return {
        ("f", "ff"): lambda x, v: jax.jvp(forward, (x,), (v,)),
        ("r", "fr"): lambda x, v: jax.jvp(reverse, (x,), (v,)),
        ("rf",): lambda x, v: (jax.grad(along)(x, v),),
        ("rr",): lambda x, v: (jax.grad(lambda x: reverse(x) @ v)(x),),
    }


def extrapolated(by_step: list[np.ndarray]) -> np.ndarray:
    """Two Richardson extrapolations of differences with an error in h² and h⁴, at h, h/2, h/4."""
    a, b, c = by_step
    ab, bc = (4 * b - a) / 3, (4 * c - b) / 3
    return (16 * bc - ab) / 15


def reference(
    f: Callable, x: np.ndarray, points: np.ndarray, step: float
) -> tuple[np.ndarray, np.ndarray]:
    """Gradients, and Hessians times the direction, at all points, `(P, 2)` each, from values alone."""
    values = jax.jit(jax.vmap(jax.vmap(f, in_axes=(0, None)), in_axes=(None, 0)))
    gradients, second = [], []
    for h in (step, step / 2, step / 4):
        e, v = h * np.eye(2), h * DIRECTION
        offsets = [*e, *-e, *(v + e), *(v - e), *(e - v), *(-e - v)]
        y = np.asarray(values(jnp.asarray(x + np.array(offsets)), points)).reshape(
            len(points), 6, 2
        )
        gradients.append((y[:, 0] - y[:, 1]) / (2 * h))
        second.append((y[:, 2] - y[:, 3] - y[:, 4] + y[:, 5]) / (4 * h * h))
    return extrapolated(gradients), extrapolated(second)


def errors(row: Row, precisions: list[str]) -> tuple[dict, float]:
    """The largest error of each column in each precision, or the reason of its refusal; and the CPU seconds of
    compiling."""
    row = row._replace(function=jax.jit(row.function))  # is traced once for all columns
    points = np.array(list(row.points.values()))
    gradient, second = reference(row.function, np.array(row.x), jnp.asarray(points), row.step)
    found, seconds = {}, 0.0
    for precision in precisions:
        columns = {}
        for names in derivatives(row.function):
            got, took = computed(row, names, points, precision)
            wanted = [gradient if len(name) == 1 else second for name in names]
            columns |= dict(zip(names, map(error_of, got, wanted), strict=True))
            seconds += took
        found[precision] = {name: columns[name] for name in COLUMNS}
    return found, seconds


def computed(row: Row, names: tuple[str, ...], points, precision: str) -> tuple[list, float]:
    """Some columns at all points, or the message of a refusal, and the CPU seconds of compiling."""
    program = jax.jit(lambda x, p, v: derivatives(lambda x: row.function(x, p))[names](x, v))
    started = time.process_time()
    with of_precision(row, precision):
        x, v = (jnp.asarray(a, precision) for a in (row.x, DIRECTION))
        at = [jnp.asarray(p, precision) for p in points]
        try:
            compiled = program.lower(x, at[0], v).compile()
            took = time.process_time() - started
            each = [compiled(x, p, v) for p in at]
        except Exception as error:  # a refused column is a result, too
            return [f"{type(error).__name__}: {str(error).splitlines()[0]}"] * len(names), 0.0
    return [np.array(column, dtype=float) for column in zip(*each, strict=True)], took


def error_of(got: np.ndarray | str, wanted: np.ndarray) -> float | str:
    return got if isinstance(got, str) else relative(got, wanted)


def of_precision(row: Row, precision: str):
    """The function in the given precision; one that uses JAX's default precision gets it by JAX's switch."""
    single = row.default_precision and precision == "float32"
    return jax.enable_x64(False) if single else contextlib.nullcontext()


def relative(got: np.ndarray, wanted: np.ndarray) -> float:
    """The largest error over the points, each relative to the scale at its point."""
    scale = np.max(np.abs(wanted), axis=1)
    scale = np.maximum(scale, FLOOR * np.max(scale))
    return float(np.max(np.max(np.abs(got - wanted), axis=1) / scale))


def table(results: dict) -> str:
    """The results in Markdown: a row for each precision, then the reasons of refusals."""
    lines = ["| function: points | precision | f | r | ff | fr | rf | rr |", "|" + "---|" * 8]
    sentences: dict[str, list[str]] = {}
    for name in [name for name in ROWS if name in results]:
        points = ", ".join(p for p in ROWS[name].points if p)
        title = f"{name}: {points}" if points else name
        for precision, columns in results[name].items():
            cells = [cell(c) for c in columns.values()]
            lines.append(f"| {title} | {precision} | " + " | ".join(cells) + " |")
            for c in columns.values():
                if isinstance(c, str):
                    sentences.setdefault(c, []).append(name)
    refusals = [f"- {', '.join(dict.fromkeys(n))}: {text}" for text, n in sentences.items()]
    return "\n".join([*lines, *([""] if refusals else []), *refusals, *missing(results)])


def missing(results: dict) -> list[str]:
    """A paragraph on the rows that have not been run, or only in double precision."""
    absent = [name for name in ROWS if name not in results]
    double = [name for name in ROWS if name in results and "float32" not in results[name]]
    said = {"Not run yet": absent, "In double precision only": double}
    return [
        line
        for text, names in said.items()
        if names
        for line in ("", f"{text}: {'; '.join(names)}.")
    ]


def cell(figure: float | str) -> str:
    """A figure with one digit; "refused" where there is a message instead."""
    if isinstance(figure, str):
        return "refused"
    return f"{figure:.0e}" if np.isfinite(figure) else "not finite"


def write_table(file: Path, results: dict) -> None:
    """Replaces the text between the two marks in a file."""
    text = file.read_text() if file.exists() else f"{BEGIN}\n{END}\n"
    pattern = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    whole = f"{BEGIN}\n\n{table(results)}\n\n{END}"
    file.write_text(pattern.sub(lambda _: whole, text))


def options() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one row, within 30 s")
    parser.add_argument(
        "--only",
        nargs="*",
        default=None,
        help="rows whose names begin with one of these, in this order",
    )
    parser.add_argument("--precision", nargs="*", default=["float64", "float32"])
    parser.add_argument("--keep", type=Path, help="JSON file to which results are added")
    parser.add_argument("--markdown", type=Path, help="file in which the table is replaced")
    return parser.parse_args()


def main() -> None:
    given = options()
    begin = tuple(given.only or (QUICK if given.quick else ("",)))
    results = json.loads(given.keep.read_text()) if given.keep and given.keep.exists() else {}
    seconds = {}
    for name in dict.fromkeys(name for start in begin for name in ROWS if name.startswith(start)):
        left = [p for p in given.precision if p not in results.get(name, {})]
        if not left:
            continue
        found, seconds[name] = errors(ROWS[name], left)
        results[name] = results.get(name, {}) | found
        print(f"{name} ({seconds[name]:.0f} s): {found}", flush=True)
        if given.keep:
            given.keep.write_text(json.dumps(results, indent=1))
    if given.markdown:
        write_table(given.markdown, results)
    print(json.dumps({"benchmark": "derivatives"} | summary(results) | {"seconds": seconds}))


def summary(results: dict) -> dict:
    """The largest figure in double precision, and how many combinations are refused or not finite."""
    figures = [c for found in results.values() for each in found.values() for c in each.values()]
    double = [c for found in results.values() for c in found.get("float64", {}).values()]
    return {
        "worst": max((c for c in double if isinstance(c, float)), default=None),
        "refused": sum(isinstance(c, str) for c in figures),
        "not_finite": sum(isinstance(c, float) and not np.isfinite(c) for c in figures),
        "results": results,
    }


if __name__ == "__main__":
    main()
