"""Ensembles of any system beside their own scalar program in C: chains, trees and named systems.

    python benchmarks/lanes_in_c.py [--quick] [--lanes 65536 1024] [--only N ...] [--families chain tree named] [--gradients]

`ensemble.rollout` writes a right-hand side out as scalar operations. Here the same operations are printed as C++, on vectors
of eight (AVX-512) or four lanes, with sines from glibc's vector library, and compiled on the spot by `g++ -O3`, without
fast math. The C does all steps of eight lanes before it takes the next eight, so that these stay in registers and the
first-level cache. Both do the same steps of RK4, each lane from a state of its own; the ends are compared. Runs alternate;
times are medians in processor seconds on one core (`--threads` for more); `spread` is (largest − smallest) / median.

The last line is one JSON object: `ratio` is C over `rollout` for the slowest case with the most lanes, `ratio_1024` that
with 1,024 lanes, `gradient` the largest ratio of a reverse-mode gradient by the initial states to its motion, `under_vmap`
the cases that `lanes` could not take. Systems of more than 20 links, whose linear equations LAPACK solves, have no C.
"""

import argparse
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from families import FAMILIES, Case, named

from jaxhamel import ensemble
from jaxhamel._lanes._written_out import Written, written_out
from jaxhamel.ensemble._members._members import Members
from jaxhamel.ensemble._rollout import mechanical

jax.config.update("jax_enable_x64", True)
DT, LARGEST_IN_C = 1e-3, 20
WORK = 5e8  # operations of a right-hand side in one run; RK4 takes four times as many

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|"}
_INFIX |= {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_CALLS = {"sin", "cos", "sqrt", "rsqrt", "abs", "max", "min"}

_START = """
#include <cmath>
#include <cstdint>
#ifdef __AVX512F__
#define W 8
#define VECTOR(name) _ZGVeN8v_##name
#else
#define W 4
#define VECTOR(name) _ZGVdN4v_##name
#endif
typedef double v __attribute__((vector_size(8 * W), aligned(8)));
typedef int64_t bits __attribute__((vector_size(8 * W)));
extern "C" v VECTOR(sin)(v);
extern "C" v VECTOR(cos)(v);
static inline v vsin(v x) { return VECTOR(sin)(x); }
static inline v vcos(v x) { return VECTOR(cos)(x); }
static inline v vsqrt(v x) { for (int i = 0; i < W; i++) x[i] = __builtin_sqrt(x[i]); return x; }
static inline v vrsqrt(v x) { return 1.0 / vsqrt(x); }
static inline v vabs(v x) { return x < 0.0 ? -x : x; }
static inline v vmax(v a, v b) { return a > b ? a : b; }
static inline v vmin(v a, v b) { return a < b ? a : b; }
static inline double dsin(double x) { return std::sin(x); }
static inline double dcos(double x) { return std::cos(x); }
static inline double dsqrt(double x) { return std::sqrt(x); }
static inline double drsqrt(double x) { return 1.0 / std::sqrt(x); }
static inline double dabs(double x) { return std::fabs(x); }
static inline double dmax(double a, double b) { return a > b ? a : b; }
static inline double dmin(double a, double b) { return a < b ? a : b; }
"""

_STEPS = """
extern "C" void steps(double* state, const double* own, const double* shared, long lanes, long count, double h) {
  const double a[4] = {0.0, 0.5 * h, 0.5 * h, h}, b[4] = {h / 6, h / 3, h / 3, h / 6};
  #pragma omp parallel for schedule(static)
  for (long lane = 0; lane < lanes; lane += W) {
    v y[N], o[M + 1], k[N], z[N], sum[N];
    for (int i = 0; i < N; i++) y[i] = *(const v*)(state + i * lanes + lane);
    for (int i = 0; i < M; i++) o[i] = *(const v*)(own + i * lanes + lane);
    for (long n = 0; n < count; n++) {
      for (int i = 0; i < N; i++) sum[i] = y[i];
      for (int s = 0; s < 4; s++) {
        for (int i = 0; i < N; i++) z[i] = s ? y[i] + a[s] * k[i] : y[i];
        rate(n * h + a[s], z, o, shared, k);
        for (int i = 0; i < N; i++) sum[i] += b[s] * k[i];
      }
      unit(sum, shared, y);
    }
    for (int i = 0; i < N; i++) *(v*)(state + i * lanes + lane) = y[i];
  }
}
"""


def expression(graph: Any, node: int, names: dict[int, str]) -> str:
    """One scalar operation in C++, on vectors if it varies from lane to lane."""
    found = graph.nodes[node]
    name, operands = found.primitive.name, [names[i] for i in found.operands]
    kind = "v" if found.batched else "d"
    if name in _INFIX:
        return f" {_INFIX[name]} ".join(operands)
    if name in _CALLS:
        return f"{kind}{name}({', '.join(operands)})"
    if name == "neg":
        return f"-{operands[0]}"
    if name in ("square", "integer_pow"):
        power = dict(found.params).get("y", 2)
        product = " * ".join(operands * abs(power))
        return product if power > 0 else f"1.0 / ({product})"
    if name == "select_n":
        return f"{operands[0]} ? {operands[2]} : {operands[1]}"
    raise NotImplementedError(f"no C for the primitive {name}")


def function(head: str, found: Written, given: list[str]) -> str:
    """A scalar program as a C++ function; `given`: the names of its arguments, one for each number."""
    graph, names = found.program.graph, {}
    for node, name in zip([i for leaf in found.arguments for i in leaf], given, strict=True):
        names[node] = name
    results = [i for leaf in found.results for i in leaf]
    lines = []
    for i in graph.needed(results):
        node = graph.nodes[i]
        if node.value is not None:
            names[i] = f"({float(node.value).hex()})"
        elif node.primitive is not None:
            kind = ("v" if node.batched else "double") if node.dtype == np.float64 else "auto"
            lines.append(f"{kind} x{i} = {expression(graph, i, names)};")
            names[i] = f"x{i}"
    zero = lambda i: names[i] if graph.nodes[i].batched else f"({names[i]} + v{{}})"
    lines += [f"out[{k}] = {zero(i)};" for k, i in enumerate(results)]
    return f"{head} {{\n  " + "\n  ".join(lines) + "\n}\n"


def in_c(case: Case, lanes: int) -> Callable | None:
    """`steps` of the case's scalar program in C; None if a part of it is an operation on arrays."""
    q, u = states(case, lanes)
    members = Members.of(case.system, q, u, None, (None, 0, 0, None))
    _, motion = mechanical(members, None)
    t, shared = jnp.zeros(()), motion.shared
    rate = written_out(motion.rate, (False, True, True, False), t, motion.y, motion.mine, shared)
    unit = written_out(motion.unit, (True, False), motion.y, shared)
    if rate is None or unit is None or rate.program.graph.blocks:
        return None
    n, m = len(motion.y), len(motion.mine)
    numbers = sum(np.size(x) for x in jax.tree.leaves(shared))
    y, own = [f"y[{i}]" for i in range(n)], [f"o[{i}]" for i in range(m)]
    more = [f"shared[{i}]" for i in range(numbers)]
    heads = (
        "static inline void rate(double t, const v* y, const v* o, const double* shared, v* out)",
        "static inline void unit(const v* y, const double* shared, v* out)",
    )
    bodies = function(heads[0], rate, ["t", *y, *own, *more]) + function(heads[1], unit, y + more)
    values = np.concatenate([np.zeros(1), *(np.ravel(x) for x in jax.tree.leaves(shared))])[1:]
    columns = [np.array(x) for x in motion.y], np.array([np.array(x) for x in motion.mine] or [[]])
    library = compiled(f"{_START}\n#define N {n}\n#define M {m}\n{bodies}{_STEPS}")

    def run(count: int) -> np.ndarray:
        state = np.array(columns[0])
        arrays = (state, np.ascontiguousarray(columns[1]), np.ascontiguousarray(values))
        pointers = (x.ctypes.data_as(ctypes.c_void_p) for x in arrays)
        library.steps(*pointers, ctypes.c_long(lanes), ctypes.c_long(count), ctypes.c_double(DT))
        return state

    run.operations = rate.program.length()  # pyright: ignore
    return run


def compiled(text: str) -> ctypes.CDLL:
    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "lanes.cpp").write_text(text)
    flags = ["-O3", "-march=native", "-fno-math-errno", "-fopenmp", "-shared", "-fPIC"]
    out = ["-o", folder / "lanes.so", folder / "lanes.cpp", "-lmvec", "-lm"]
    subprocess.run(["g++", *flags, "-Wno-psabi", *out], check=True)
    return ctypes.CDLL(str(folder / "lanes.so"))


def states(case: Case, lanes: int) -> tuple[np.ndarray, np.ndarray]:
    """The case's initial state, perturbed slightly in each lane."""
    rng = np.random.default_rng(0)
    u = case.u + 0.1 * rng.normal(size=(lanes, len(case.u)))
    return np.broadcast_to(case.q, (lanes, len(case.q))).copy(), u


def ours(case: Case, lanes: int, count: int) -> tuple[Callable, Callable]:
    """The ends of `count` steps as columns, and the gradient of the sum of their squares."""
    q, u = map(jnp.asarray, states(case, lanes))
    ts, given = np.array([0.0, count * DT]), (None, 0, 0, None)

    def end(q, u):
        q, u = ensemble.rollout(case.system, q, u, ts, dt=1.0001 * DT, in_axes=given)
        return q[:, -1].T, u[:, -1].T

    gradient = ensemble.jit(jax.grad(lambda q, u: sum(jnp.sum(x**2) for x in end(q, u)), (0, 1)))
    return lambda: np.concatenate([*map(np.asarray, end(q, u))]), lambda: gradient(q, u)


def measured(programs: dict[str, Callable], repeats: int) -> tuple[dict, dict, dict]:
    """Median processor seconds of each program in turns, the spread, and the results."""
    results = {name: jax.block_until_ready(run()) for name, run in programs.items()}
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(repeats):
        for name, run in programs.items():
            begun = time.process_time()
            jax.block_until_ready(run())
            times[name].append(time.process_time() - begun)
    median = {name: statistics.median(x) for name, x in times.items()}
    return median, {n: (max(x) - min(x)) / median[n] for n, x in times.items()}, results


def row_of(case: Case, lanes: int, gradients: bool, repeats: int) -> dict[str, Any]:
    c = in_c(case, lanes) if case.size <= LARGEST_IN_C else None
    operations = c.operations if c else 100 * case.size**2  # pyright: ignore
    count = min(2000, max(40, round(WORK / lanes / operations)))
    run, gradient = ours(case, lanes, count)
    programs = {"ours": run} | ({"C": lambda: c(count)} if c else {})
    if gradients:
        programs["gradient"] = gradient
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        median, spread, results = measured(programs, repeats)
    row = {"name": case.name, "lanes": lanes, "steps": count, "spread": max(spread.values())}
    row["steps_per_second"] = lanes * count / median["ours"]
    row["under_vmap"] = any("vmap" in str(x.message) for x in told)
    if c:
        row |= {"operations": c.operations, "ratio": median["C"] / median["ours"]}  # pyright: ignore
        row["apart"] = float(np.abs(results["C"] - results["ours"]).max())
    if gradients:
        row["gradient"] = median["gradient"] / median["ours"]
    return row


def cases(given: argparse.Namespace) -> list[Case]:
    if given.quick:
        return [FAMILIES["chain"](5)[0], named()[0]]
    families = [name for name in given.families if name != "named"]
    found = [FAMILIES[name](n)[0] for name in families for n in given.only]
    return found + (named() if "named" in given.families else [])


def main() -> None:
    parser = argparse.ArgumentParser(description="Ensembles beside their scalar program in C.")
    parser.add_argument("--quick", action="store_true", help="two cases, within 30 s")
    parser.add_argument("--lanes", type=int, nargs="*", default=[65536, 1024])
    parser.add_argument("--only", type=int, nargs="*", default=[2, 5, 10, 20])
    parser.add_argument("--families", nargs="*", default=["chain", "named"])
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: given.threads])
    rows = []
    for case in cases(given):
        for lanes in given.lanes:
            row = row_of(case, lanes, given.gradients, 3 if given.quick else 7)
            rows.append(row)
            more = "".join(
                f"  {k} {row[k]:.3g}" for k in ("ratio", "apart", "gradient") if k in row
            )
            rate = f"{row['steps_per_second']:10.3g} steps/s  spread {row['spread']:.2f}"
            print(f"{case.name:24}{lanes:7} lanes {rate}{more}", flush=True)
    ratios = lambda n: [r["ratio"] for r in rows if "ratio" in r and r["lanes"] == n]
    result = {"benchmark": "lanes_in_c", "ratio": min(ratios(max(given.lanes)), default=None)}
    result["ratio_1024"] = min(ratios(1024), default=None)
    result["gradient"] = max((r["gradient"] for r in rows if "gradient" in r), default=None)
    result["under_vmap"] = [r["name"] for r in rows if r["under_vmap"]]
    print(json.dumps(result | {"rows": rows}))


if __name__ == "__main__":
    main()
