"""The ball of `rhs_tax.py` as a person writes it for C or numba: closed form, zeros left out, one text for both languages.

θ_i = A_i sin 2t − π/2 with A of its own in each lane; sin 2t and cos 2t come from a table, once for all lanes. The lines are
assignments that C and Python read alike.
"""

import ctypes
import pathlib
import subprocess
import tempfile

import numpy as np

STATES = ("w", "x", "y", "z", "px", "py", "o0", "o1", "o2")

_RAILS = [  # which components of χ carry cos θ and sin θ
    ("0", "2"),
    ("1", "2"),
    ("0", "1"),
]


def _cross(out, a, b):
    return [
        f"{out}{i} = {a}{j} * {b}{k} - {a}{k} * {b}{j}"
        for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1))
    ]


def _mass(m: int, mass: str) -> list[str]:
    """Position, acceleration at rest, moment and inertia of mass m, without the zeros of its rail."""
    lines, present = [], (("2",) if m == 3 else _RAILS[m])
    if m == 3:  # m = 3 is the shell's centre of mass
        lines += ["c2 = -0.05", "a0 = o1 * 0.0 + 0.0"]
    else:
        first, second = _RAILS[m]
        lines += [
            f"th = A{m} * sin2t - 1.5707963267948966",
            f"dth = 2.0 * A{m} * cos2t",
            f"ddth = -4.0 * A{m} * sin2t",
            "cs = 0.8 * cos(th)",
            "sn = 0.8 * sin(th)",
            f"c{first} = cs",
            f"c{second} = sn",
            f"d{first} = -dth * sn",
            f"d{second} = dth * cs",
            f"e{first} = -ddth * sn - dth * dth * cs",
            f"e{second} = ddth * cs - dth * dth * sn",
        ]
    has = lambda k: str(k) in present
    moving = m != 3
    cyclic = ((0, 1, 2), (1, 2, 0), (2, 0, 1))
    for i, j, k in cyclic:  # b = Ω × χ + 2 χ̇
        terms = [f"o{j} * c{k}"] * has(k) + [f"- o{k} * c{j}"] * has(j)
        terms += [f"+ 2.0 * d{i}"] * (has(i) and moving)
        lines.append(f"b{i} = " + " ".join(terms or ["0.0"]))
    for i, j, k in cyclic:  # a = Ω × b + χ̈ + g Γ
        extra = f" + e{i}" if has(i) and moving else ""
        lines.append(f"a{i} = o{j} * b{k} - o{k} * b{j}{extra} + gg{i}")
    for i in range(3):  # s = χ + r Γ, r = 1
        lines.append(f"s{i} = " + (f"c{i} + g{i}" if has(i) else f"g{i}"))
    lines += [f"q{i} = {mass} * s{i}" for i in range(3)]
    lines += [f"r{i} = r{i} + q{j} * a{k} - q{k} * a{j}" for i, j, k in cyclic]
    lines += [f"h{i} = q{i} * s{i}" for i in range(3)]
    lines += [f"m{i}{i} = m{i}{i} + h{j} + h{k}" for i, j, k in cyclic]
    lines += [f"m{i}{j} = m{i}{j} - q{i} * s{j}" for i, j in ((0, 1), (0, 2), (1, 2))]
    return [line for line in lines if not line.startswith("a0 = o1 * 0.0")]


def _right_hand_side() -> list[str]:
    lines = ["g0 = 2.0 * (x * z - w * y)", "g1 = 2.0 * (y * z + w * x)"]
    lines += ["g2 = w * w + z * z - x * x - y * y"]
    lines += [f"gg{i} = 9.81 * g{i}" for i in range(3)]
    lines += [
        "r0 = (1.2 - 1.1) * o1 * o2",
        "r1 = (1.0 - 1.2) * o2 * o0",
        "r2 = (1.1 - 1.0) * o0 * o1",
    ]
    lines += ["m00 = 1.0", "m11 = 1.1", "m22 = 1.2", "m01 = 0.0", "m02 = 0.0", "m12 = 0.0"]
    for m in range(3):
        lines += _mass(m, "1.0")
    lines += _mass(3, "4.0")
    lines += [
        "k00 = m11 * m22 - m12 * m12",
        "k01 = m02 * m12 - m01 * m22",
        "k02 = m01 * m12 - m02 * m11",
        "k11 = m00 * m22 - m02 * m02",
        "k12 = m01 * m02 - m00 * m12",
        "k22 = m00 * m11 - m01 * m01",
        "over = -1.0 / (m00 * k00 + m01 * k01 + m02 * k02)",
        "f_o0 = (k00 * r0 + k01 * r1 + k02 * r2) * over",
        "f_o1 = (k01 * r0 + k11 * r1 + k12 * r2) * over",
        "f_o2 = (k02 * r0 + k12 * r1 + k22 * r2) * over",
        "f_w = -0.5 * (x * o0 + y * o1 + z * o2)",
        "f_x = 0.5 * (w * o0 + y * o2 - z * o1)",
        "f_y = 0.5 * (w * o1 + z * o0 - x * o2)",
        "f_z = 0.5 * (w * o2 + x * o1 - y * o0)",
        "f_px = 2.0 * ((x * y + w * z) * o0 + (y * z - w * x) * o2) + (w * w + y * y - x * x - z * z) * o1",
        "f_py = -(w * w + x * x - y * y - z * z) * o0 - 2.0 * ((x * y - w * z) * o1 + (x * z + w * y) * o2)",
    ]
    return lines


def _assigned(lines: list[str]) -> list[str]:
    return sorted({line.split(" = ")[0] for line in lines})


C = """
#include <math.h>
#define L 8
void run(long B, long steps, double dt, int threads, double *Y, const double *A, const double *table) {
  #pragma omp parallel for num_threads(threads) schedule(static)
  for (long block = 0; block < B; block += L) {
    double here[9][L], total[9][L], from[9][L], amplitude[3][L];
    for (int i = 0; i < 9; i++) for (int l = 0; l < L; l++) from[i][l] = Y[i * B + block + l];
    for (int i = 0; i < 3; i++) for (int l = 0; l < L; l++) amplitude[i][l] = A[i * B + block + l];
    const double ahead[4] = {0.5 * dt, 0.5 * dt, dt, 0.0}, weight[4] = {dt / 6, dt / 3, dt / 3, dt / 6};
    const int at[4] = {0, 1, 1, 2};
    for (long n = 0; n < steps; n++) {
      for (int i = 0; i < 9; i++) for (int l = 0; l < L; l++) here[i][l] = total[i][l] = from[i][l];
      for (int stage = 0; stage < 4; stage++) {
        const double sin2t = table[2 * (2 * n + at[stage])], cos2t = table[2 * (2 * n + at[stage]) + 1];
        const double to = ahead[stage], by = weight[stage];
        #pragma omp simd
        for (int l = 0; l < L; l++) {
          @BODY@
        }
      }
      #pragma omp simd
      for (int l = 0; l < L; l++) {
        double o = 1.0 / sqrt(total[0][l] * total[0][l] + total[1][l] * total[1][l]
                              + total[2][l] * total[2][l] + total[3][l] * total[3][l]);
        for (int i = 0; i < 4; i++) total[i][l] *= o;
      }
      for (int i = 0; i < 9; i++) for (int l = 0; l < L; l++) from[i][l] = total[i][l];
    }
    for (int i = 0; i < 9; i++) for (int l = 0; l < L; l++) Y[i * B + block + l] = from[i][l];
  }
}
"""

NUMBA = """
def run(B, steps, dt, Y, A, table):
    for block in prange(B // L):
        begin = block * L
        start = Y[:, begin : begin + L].copy()
        amplitude = A[:, begin : begin + L].copy()
        here, total = np.empty((9, L)), np.empty((9, L))
        for n in range(steps):
            here[:], total[:] = start, start
            for stage in range(4):
                at = 2 * n + (stage + 1) // 2
                sin2t, cos2t = table[at, 0], table[at, 1]
                to = (0.5 * dt, 0.5 * dt, dt, 0.0)[stage]
                by = (dt / 6, dt / 3, dt / 3, dt / 6)[stage]
                for l in range(L):
@BODY@
            for l in range(L):
                o = 1.0 / np.sqrt(total[0, l] ** 2 + total[1, l] ** 2 + total[2, l] ** 2 + total[3, l] ** 2)
                for i in range(4):
                    total[i, l] *= o
            start[:] = total
        Y[:, begin : begin + L] = start
"""


def _body(read, write, update, amplitude, declare=""):
    lines = [declare + f"{name} = {read(i)}" for i, name in enumerate(STATES)]
    lines += [declare + f"A{i} = {amplitude(i)}" for i in range(3)]
    rates = _right_hand_side()
    if declare:
        lines.append(declare + ", ".join(_assigned(rates)))
    lines += rates
    for i, name in enumerate(STATES):
        lines += [f"{write(i)} = {update(i)} + to * f_{name}"]
    return lines


def c_source() -> str:
    lines = _body(
        lambda i: f"here[{i}][l]",
        lambda i: f"here[{i}][l]",
        lambda i: f"from[{i}][l]",
        lambda i: f"amplitude[{i}][l]",
        "double ",
    )
    lines += [f"total[{i}][l] += by * f_{name}" for i, name in enumerate(STATES)]
    return C.replace("@BODY@", ";\n          ".join(lines) + ";")


def table(steps: int, dt: float) -> np.ndarray:
    t = np.arange(2 * steps + 1) * (dt / 2)
    return np.stack([np.sin(2 * t), np.cos(2 * t)], axis=1)


def compiled_c():
    """Compiles the C for this machine; returns (y (9, B), A (3, B), steps, dt, threads) -> y after the steps."""
    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "ball.c").write_text(c_source())
    flags = [
        "-O3",
        "-march=native",
        "-ffast-math",
        "-fno-builtin-sin",
        "-fno-builtin-cos",
        "-fopenmp",
        "-shared",
        "-fPIC",
    ]
    target = folder / "ball.so"
    subprocess.run(["gcc", *flags, str(folder / "ball.c"), "-o", str(target), "-lm"], check=True)
    function = ctypes.CDLL(str(target)).run
    pointer = ctypes.POINTER(ctypes.c_double)
    function.argtypes = [
        ctypes.c_long,
        ctypes.c_long,
        ctypes.c_double,
        ctypes.c_int,
        pointer,
        pointer,
        pointer,
    ]
    function.restype = None
    as_pointer = lambda x: x.ctypes.data_as(pointer)

    def run(y, amplitude, steps, dt, threads):
        y, rails = np.array(y, order="C"), table(steps, dt)
        function(
            y.shape[1], steps, dt, threads, as_pointer(y), as_pointer(amplitude), as_pointer(rails)
        )
        return y

    return run


def compiled_numba(lanes: int = 64):
    """The same program by numba, or None if numba is not installed."""
    try:
        import numba
    except ImportError:
        return None
    lines = _body(
        lambda i: f"here[{i}, l]",
        lambda i: f"here[{i}, l]",
        lambda i: f"start[{i}, l]",
        lambda i: f"amplitude[{i}, l]",
    )
    lines += [f"total[{i}, l] += by * f_{name}" for i, name in enumerate(STATES)]
    body = "\n".join(" " * 20 + line for line in lines)
    names = {"np": np, "prange": numba.prange, "L": lanes, "sin": np.sin, "cos": np.cos}
    exec(NUMBA.replace("@BODY@", body), names)
    function = numba.njit(fastmath=True, parallel=True)(names["run"])

    def run(y, amplitude, steps, dt, threads):
        numba.set_num_threads(threads)
        y = np.array(y, order="C")
        function(y.shape[1], steps, dt, y, amplitude, table(steps, dt))
        return y

    return run
