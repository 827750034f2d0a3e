"""Inputs of the command line that are known to be hostile: names, sizes, files, folders, words, environments."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from hostile_cases import (
    FITTED,
    IMAGE,
    KEYS,
    OPTIONS,
    OWN,
    ROWS,
    RUN,
    SCENARIO,
    TAKES,
    TOP,
    Case,
    case,
    changed,
    refused,
)  # fmt: skip

ENVIRONMENT = [
    {"MPLBACKEND": "nothing"}, {"MPLCONFIGDIR": "/nothing/x"}, {"MATPLOTLIBRC": "odd.rc"},
    {"JAX_PLATFORMS": "nothing"}, {"JAX_PLATFORMS": "tpu"}, {"JAX_PLATFORMS": ","}, {"JAX_ENABLE_X64": "maybe"},
    {"JAX_ENABLE_X64": "0"}, {"JAX_PLATFORM_NAME": "nothing"}, {"JAX_DISABLE_JIT": "1"}, {"JAX_DEBUG_NANS": "1"},
    {"JAX_NUMPY_DTYPE_PROMOTION": "strict"}, {"JAX_NUMPY_RANK_PROMOTION": "raise"}, {"JAX_CHECK_TRACER_LEAKS": "1"},
    {"JAX_TRANSFER_GUARD": "disallow"}, {"JAX_COMPILATION_CACHE_DIR": "/dev/full"}, {"JAX_LOG_COMPILES": "1"},
    {"JAX_NUM_CPU_DEVICES": "x"}, {"JAX_DEFAULT_PRNG_IMPL": "x"}, {"JAX_ENABLE_CUSTOM_PRNG": "1"},
    {"JAX_TRACEBACK_FILTERING": "x"}, {"EQX_ON_ERROR": "nothing"}, {"JAXTYPING_DISABLE": "x"},
    {"XLA_FLAGS": "--nothing"}, {"XLA_FLAGS": "--xla_backend_optimization_level=x"}, {"XLA_FLAGS": "/nothing"},
    {"XLA_FLAGS": "x"},
    {"XLA_FLAGS": "--xla_force_host_platform_device_count=3"}, {"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0",
    "PYTHONCOERCECLOCALE": "0"},
    {"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "utf-16"}, {"PYTHONWARNINGS": "error"}, {"PYTHONOPTIMIZE": "2"},
    {"TERM": "nothing"}, {"TERM": "dumb", "FORCE_COLOR": "1"}, {"COLUMNS": "x"}, {"COLUMNS": "0"}, {"NO_COLOR": "1",
    "COLUMNS": "1"},
    {"HOME": "/nothing"}, {"TMPDIR": "/nothing"}, {"TZ": "nothing"}, {"OMP_NUM_THREADS": "x"}, {"PATH": ""},
]  # fmt: skip
CELLS = {
    "underscore": RUN.replace("0.05,1", "0.05,1_0"),
    "hexadecimal": RUN.replace("0.05,1", "0.05,0x1"),
    "arabic": RUN.replace("0.05,1", "0.05,١"),
    "infinite": RUN.replace("0.05,1", "0.05,1e999"),
    "not a time": RUN.replace("0.05,", "nan,"),
    "word": RUN.replace("0.05,1", "0.05," + 5000 * "x"),
    "long": RUN.replace("0.05,1", "0.05," + 200_000 * "1"),
    "formula": RUN.replace("0.05,1", "0.05,=1+1"),
    "ragged": RUN.replace("0.05,1,0", "0.05,1"),
    "quoted": RUN.replace("0.05", '"0.05'),
    "backwards": "t,qw,qx,qy,qz\n" + "".join(reversed(ROWS.splitlines(True))),
    "twice": "t,t,qw,qx,qy,qz\n" + ROWS,
    "wide": ",".join(f"c{i}" for i in range(20_000)) + "\n" + 3 * ("1," * 19_999 + "1\n"),
    "empty": "", "header": "t,qw,qx,qy,qz\n", "one row": RUN[:30], "two rows": "t,qw,qx,qy,qz\n0,1,0,0,0\n.1,1,0,0,0\n",
    "mark": "\ufeff" + RUN, "nul": RUN.replace("1", "\x00"), "semicolons": RUN.replace(",", ";"),
    "returns": RUN.replace("\n", "\r"),
    "escapes": RUN.replace("qw", "\x1b[2Jqw"), "huge": RUN.replace(",1,", ",1e308,"), "far": RUN.replace("0.05", "1e300"),
    "no unit": RUN.replace(",1,", ",2,"), "nothing": RUN.replace(",1,0,0,0", ",nan,nan,nan,nan"),
}  # fmt: skip
SECRET = "t,qw,qx,qy,qz\n0,1,0,0,0\n"


def known() -> Iterator[Case]:
    """All cases that are written down."""
    yield from _names()
    yield from _sizes()
    yield from _parsers()
    yield from _options()
    yield from _measured()
    yield from _folders()
    yield from _words()
    for environment in ENVIRONMENT:
        yield changed(
            "simulate",
            "title='Тест'",
            environment=environment,
            files={"odd.rc": "text.usetex: True\nfigure.dpi: x\n"},
        )
    for environment in ({"JAX_PLATFORMS": "nothing"}, {"XLA_FLAGS": "--nothing"}):
        for command in ("bench", "new", "scenarios"):
            yield Case(
                (command, *(["trolley", "--out", "FOLDER/out"] if command == "new" else [])),
                environment=environment,
            )


def _names() -> Iterator[Case]:
    """Names that are paths, HTML, formulas of spreadsheets and matplotlib, and terminal commands."""
    for name in ("../evil", "/tmp/evil", "\x1b[2J", "", "..", 300 * "n", "\u202eЖ"):
        yield changed("identify", f"measurements.0.name={json.dumps(name)}")
    for key in ("title", "description"):
        for text in (
            IMAGE,
            "$\\frac{$",
            "\x1b]0;x\x07",
            5000 * "x",
            "a\nb",
            "</script><script>alert(1)</script>",
            "<!--",
        ):
            yield changed("simulate", f"{key}={json.dumps(text)}")
    for pattern in (
        "../*.csv",
        "/etc/*",
        "",
        "*/../../*.csv",
        "**/*",
        "[",
        "\x00",
        "~/*",
        300 * "*",
        ".",
    ):
        for there in ((), ("--data", "FOLDER/data")):
            yield case("identify", *there, "--set", f"data.files=[{json.dumps(pattern)}]",
                       files={"data/a.csv": RUN, "secret.csv": SECRET})  # fmt: skip
    yield changed(
        "identify",
        'measurements.0.columns=["=a", "+b", "-c", "@d"]',
        f"measurements.0.name={json.dumps(IMAGE)}",
    )
    for path in (
        "space",
        "__class__.__init__",
        "mas",
        "mass.T",
        "",
        "mass[0]",
        "com",
        "../mass",
        300 * "m",
    ):
        yield refused("predict", f"fitted.0.path={json.dumps(path)}", says="fitted")
    for value in ("-1.0", "[1.0]", "nan", "1e308", "0.0", "[]"):
        yield changed("predict", f"fitted.0.value={value}", status=(1, 2))


def _sizes() -> Iterator[Case]:
    """Numbers that are too large to compute with, and some that never end."""
    for command, keys in KEYS.items():
        for key in keys:
            if key.split(".")[-1] in ("samples", "steps", "coefficients", "max_steps", "dt", "end", "rtol",
            "trajectories", "degree",
                                      "runs", "rate", "seconds", "starts", "segments"):  # fmt: skip
                for value in ("1000000000000", "1e300", "1" + 400 * "0", "1e-12"):
                    yield changed(command, f"{key}={value}")
    yield changed("simulate", "system.mass=1e308")
    yield changed("simulate", "solver.rtol=1e-300")
    yield changed("simulate", "initial.omega=[1e200, 0, 0]", status=(1,))
    yield refused("simulate", "system.shell_mass.T=1", says="shell_mass")
    yield refused("simulate", "solver.max_steps=1" + 30 * "0")
    yield case("control", "--set", "task.steps=1000000000", status=(1, 2))
    yield case("identify", "--set", "fit.dt=1e-12", status=(1, 2))
    yield changed("montecarlo", "montecarlo.spread.0.std=1e308")
    yield changed("montecarlo", "montecarlo.spread.0.key='system.shell_mass.T'", status=(1, 2))


def _parsers() -> Iterator[Case]:
    for text in (
        "", "\ufeff" + TOP, "[" * 100_000, "a=" + "[" * 3000, "a" + ".a" * 5000 + "=1", TOP + "x = 1" + "0" * 5000,
        "\x00", TOP * 2, "a.b=1\na=2",
        TOP.replace("1.0\n", "1e308\n", 1), TOP.replace("[time]", "[initial]\nomega = [1e200, 0, 0]\n[time]"),
        TOP.replace("\n", "\r\n"),
        TOP.replace("\n", "\r"), TOP.encode("utf-16"), "title = 'ä'".encode("latin-1"),
        b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
        "title = '\udce4'\n" + TOP, "system = 1\n", "time = []\n" + TOP, TOP.replace("heavy-top", "x" * 5000),
        TOP.replace("heavy-top", "\x1b[2J"),
        "a = 1979-99-99\n" + TOP, "'' = 1\n" + TOP, '"=" = 1\n' + TOP, "=", "{}", "{\"system\": 1}", "# only\n",
        TOP + "\n".join(f"k{i}=1" for i in range(20_000)),
        TOP.replace('kind = "heavy-top"\n', ""), TOP.replace("[system]", "[sytem]"), TOP.replace("[time]", "[[time]]"),
    ):  # fmt: skip
        yield case("simulate", text=text)


def _options() -> Iterator[Case]:
    for command, options in TAKES.items():
        for option in options:
            for value in OPTIONS[option]:
                yield case(command, option, value, files={"own.py": OWN})
    yield refused("simulate", "time.samples=7\ntime.end=3", says="one line")
    yield refused("simulate", "time.end=1\n\nsolver.rtol=1e-300", says="one line")


def _measured() -> Iterator[Case]:
    """Files of measurements: `1_0` is no number, and a pipe never ends."""
    for name, text in CELLS.items():
        bad = (0, 1, 2) if name in ("mark", "nothing", "returns", "two rows", "escapes") else (1, 2)
        yield case("identify", "--data", "FOLDER/data", files={"data/a.csv": text}, status=bad)
        yield case("predict", files={"run.csv": text}, status=bad)
    for name in ("a.toml", "", "/dev/zero", "/nothing", "/", "FOLDER/pipe", 300 * "r"):
        made = Case(
            ("predict", "FOLDER/a.toml", name, "--out", "FOLDER/out"),
            {"a.toml": FITTED.encode()},
            status=(1, 2),
        )
        yield Case(**{**vars(made), "before": _pipe})
    robot = json.dumps({"robot": "other"})
    for text in (
        "",
        "[]",
        "{",
        "[" * 100_000,
        robot,
        '{"system": {}}',
        '{"system": {"shell_mass": -1}, "spread": 1e999}',
        "\x00",
        "1" * 5000,
    ):
        yield Case(("predict", "FOLDER", "FOLDER/a.csv", "--out", "FOLDER/out"), {"fitted.toml": text.encode(),
        "a.csv": RUN.encode()},
                   status=(1, 2))  # fmt: skip
    for arguments in (
        ["--data", "/nothing"],
        [],
        ["--data", "FOLDER"],
        ["--set", "x=1"],
        ["--system", "a.py:B"],
        ["--max-seconds", "0"],
    ):
        yield Case(("identify", "roboball", "--out", "FOLDER/out", *arguments), status=(1, 2))


def _pipe(folder: Path) -> None:

    os.mkfifo(folder / "pipe")


def _folders() -> Iterator[Case]:
    """Links, files in a folder's place, folders without permission to write or search, outputs that are full or closed."""

    def linked(folder: Path) -> None:
        (folder / "out").mkdir()
        (folder / "victim").write_text("untouched")
        for name in (
            "summary.json",
            "report.html",
            "trajectory.csv",
            "parameters.csv",
            "fitted.toml",
            "solution.toml",
        ):
            (folder / "out" / name).symlink_to(folder / "victim")

    def within(name: str, link: bool) -> Callable[[Path], None]:
        def make(folder: Path) -> None:
            (folder / "out").mkdir()
            (folder / "elsewhere").mkdir()
            if link:
                (folder / "out" / name).symlink_to(folder / "elsewhere")
            else:
                (folder / "out" / name).mkdir()

        return make

    def closed(mode: int) -> Callable[[Path], None]:
        def make(folder: Path) -> None:
            (folder / "out").mkdir(mode=mode)

        return make

    def odd(zarr: bytes | None) -> Callable[[Path], None]:
        def make(folder: Path) -> None:
            (folder / "out").mkdir()
            if zarr is None:
                (folder / "out" / "values.zarr").write_text("x")
            else:
                (folder / "out" / "values.zarr").mkdir()
                (folder / "out" / "values.zarr" / "zarr.json").write_bytes(zarr)

        return make

    def a_file(folder: Path) -> None:
        (folder / "out").write_text("x")

    def a_loop(folder: Path) -> None:
        (folder / "out").symlink_to(folder / "out")

    for command in SCENARIO:
        yield case(command, before=linked)
        yield case(command, before=a_file, status=(1, 2))
        yield case(command, before=a_loop, status=(1, 2))
        for mode in (0o555, 0o333, 0o000):
            yield case(
                command,
                before=closed(mode),
                stripped=True,
                status=(1, 2) if mode != 0o333 else (0, 1, 2),
            )
    for name in (
        "data",
        "values.zarr",
        "report.html",
        "path.png",
        "summary.json",
        "trajectory.csv",
        "fitted.toml",
    ):
        yield case(
            "montecarlo" if name == "values.zarr" else "identify", before=within(name, False)
        )
        yield case("identify" if name == "data" else "montecarlo", before=within(name, True))
    for content in (
        None,
        b"",
        b"{",
        b"[]",
        b'{"zarr_format": 3}',
        b'{"shape": [1e30]}',
        b"[" * 100_000,
    ):
        for option in ((), ("--resume",)):
            yield case("montecarlo", *option, before=odd(content), status=(1, 2))
    yield case("montecarlo", "--resume")
    for command in (*SCENARIO, "control"):
        yield case(command, "--quiet", "--max-seconds" if command == "control" else "--quiet",
        *(["5"] if command == "control" else []),
                   stdout="full")  # fmt: skip
    for arguments in (["scenarios"], ["--help"], ["simulate", "--help"], []):
        for stdout in ("full", "closed"):
            yield Case(tuple(arguments), stdout=stdout)


def _words() -> Iterator[Case]:
    """Commands, names and files that do not exist."""
    for arguments in (
        [""], ["nothing"], ["--nothing"], ["simulate"], ["simulate", ""], ["simulate", "-"], ["simulate", "."],
        ["simulate", "/"],
        ["simulate", "/dev/zero"], ["simulate", "/dev/stdin"], ["simulate", "/proc/self/mem"], ["simulate",
        300 * "s"], ["simulate", "\udce4"],
        ["simulate", "heavy-topp"], ["simulate", "../heavy-top"], ["simulate", "a\nb"], ["simulate", "\x1b[2J"],
        ["simulate", "heavy-top", "x"],
        ["simulate", "--", "--out"], ["control", "heavy-top"], ["montecarlo", "heavy-top"], ["identify", "heavy-top"],
        ["identify", "figure-eight"],
        ["predict", "heavy-top", "x"], ["predict", ".", "x"], ["predict"], ["bench", "x"], ["scenarios", "x"],
        ["new"], ["simulate", "roboball"],
        ["simulate", "ball-inertia"], ["control", "ball-inertia"], ["simulate", "/dev/full"], ["simulate",
        "a" + "/b" * 3000],
    ):  # fmt: skip
        yield Case(tuple(arguments), status=(1, 2))
    for name in (
        "",
        "..",
        "a/b",
        "../a",
        "class",
        "A",
        "é",
        300 * "n",
        "a\nb",
        "jax",
        "numpy",
        "typing",
        "_",
        "a__b",
        "-x",
        "a" * 250,
    ):
        yield Case(("new", "--out", "FOLDER/out", "--", name), status=(0, 1, 2))
    yield Case(("new", "trolley", "--out", "/dev/null"), status=(1, 2))
    yield Case(("new", "trolley", "--out", "/dev/null/x"), status=(1, 2))
    yield Case(
        ("new", "trolley", "--out", "FOLDER"),
        {"trolley.py": b"mine"},
        status=(1, 2),
        says="nothing was written",
    )
    for name, text in {
        "raises": "1 / 0", "exits": "import sys; sys.exit(0)", "syntax": "def", "nul": "\x00",
        "kills": "raise KeyboardInterrupt",
        "deep": "(" * 5000, "none": "", "other": "class Own: pass", "prints": "print('x' * 10**6)\n" + OWN,
        "recursion": "def f(): f()\nf()",
    }.items():  # fmt: skip
        yield case(
            "simulate",
            "--system",
            "FOLDER/own.py:Own",
            files={"own.py": text},
            status=(1, 2, 130) if name == "kills" else (0, 1, 2),
        )
