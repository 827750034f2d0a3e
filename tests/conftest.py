"""Tests run in double precision, unless they ask for single, with strict dtype promotion."""

import atexit
import ctypes
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile

import jax
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.entropy import deterministic_PRNG

from tests import by_numpy
from tests.lowered_in_one_context import lower_in_one_context
from tests.moved_by_numpy import move_by_numpy
from tests.short_programs_kept import ONE_RUN, keep_short_programs

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

# Tests compile far more than they compute. With these flags XLA takes a third of the time (Boltzmann-Hamel of the bicycle:
# 6.4 s of CPU instead of 21.3) and its programs are slower. Level 0 in place of 1 saves a
# fifth more: 231 s of CPU instead of 287 for nine groups of files, once each; 5 % where programs run long, 38 % where they
# are many. Code generated in one piece rather than 32 saves a tenth (13.7 s for 15.3, one file, twice each).
# Without the pass that moves invariant operations out of loops, programs with loops compile in 0.75 to 1.0 of the time
# (docs/performance.md).
# A flag that another version of XLA does not know ends the process: they are tried once, before the workers
# start, which inherit the environment.
PLAIN = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_parallel_codegen_split_count=1 --xla_disable_hlo_passes=while-loop-invariant-code-motion"
)
FAST = ("--xla_cpu_use_fusion_emitters=false " + PLAIN, PLAIN)  # the first for jaxlib before 0.12


def _compile_fast():
    """Sets XLA flags with which tests compile fast. The package's own options give way to them; its level 1 for
    searches took twice as long to compile."""
    if "XLA_FLAGS" in os.environ or "PYTEST_XDIST_WORKER" in os.environ:
        return
    program = [sys.executable, "-c", "import jax; jax.numpy.zeros(1)"]
    for flags in FAST:
        known = {**os.environ, "XLA_FLAGS": flags}
        if subprocess.run(program, env=known, capture_output=True, check=False).returncode == 0:
            os.environ["XLA_FLAGS"] = flags
            return


def _compile_once():
    """Keeps compiled programs on disk while the tests run, for all workers, since many small programs occur in every
    file.

    Notebooks and commands that tests start find the folder by the environment. A file that another worker is just
    writing cannot be read; JAX warns of it and compiles, and pyproject.toml lets that one warning pass. A folder that
    is given by the environment stays for the next run, and keeps long programs, too.
    """
    if PROGRAMS not in os.environ:
        os.environ[PROGRAMS] = tempfile.mkdtemp(ONE_RUN, dir=_folder_in_memory())
        atexit.register(shutil.rmtree, os.environ[PROGRAMS], ignore_errors=True)
    settings_of_cache = {
        "jax_compilation_cache_dir": os.environ[PROGRAMS],
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    for name, value in settings_of_cache.items():
        jax.config.update(name, value)
        os.environ[name.upper()] = str(value)
    keep_short_programs()


def _folder_in_memory() -> str | None:
    """Linux' folder in memory, if it has room for the programs of all tests (some 0.3 GB), since each of the many small
    files takes milliseconds to write and to remove on a disk. Otherwise None, for the system's folder of such files."""
    folder = "/dev/shm"
    if os.path.isdir(folder) and os.access(folder, os.W_OK):
        return folder if shutil.disk_usage(folder).free > 2e9 else None
    return None


def _one_thread_for_small_matrices():
    """Gives OpenBLAS one thread in workers and their children, since its idle threads spin: 2 % of the time of the
    control tests."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _collect_nothing():
    """Lets the garbage collector wait until the worker has become large: tracing makes many long-lived small objects, and
    searching them for cycles took a third of the time, after each 50,000 new ones still 4 %."""
    gc.set_threshold(0)


def _register_random_numbers():
    """Lets hypothesis register its random numbers now: it collects garbage once before, in seconds where programs have
    been traced."""
    with deterministic_PRNG():
        pass


def pytest_unconfigure():
    """Leaves all objects to the end of the process: pytest would search them five times for cycles, for seconds."""
    gc.freeze()


PROGRAMS = "JAXHAMEL_TEST_PROGRAMS"
_compile_fast()  # before XLA reads the flags, at its first compilation
_compile_once()
lower_in_one_context()
move_by_numpy()
by_numpy.install()
_one_thread_for_small_matrices()
_collect_nothing()
_register_random_numbers()

settings.register_profile(
    "default",
    deadline=None,  # the first example includes compiling
    max_examples=25,
    derandomize=True,  # the same examples on all machines, so that failures can be repeated
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("default")


@pytest.fixture
def float32():
    """Run one test in single precision."""
    with jax.enable_x64(False):
        yield


def _most_memory() -> float:
    """A quarter of the machine's memory divided by the number of workers, but at least 1.5 GB [bytes]."""
    if sys.platform != "linux":
        return 1.5e9
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    of_machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1.5e9, of_machine / (4 * workers))


# Folders that examine equations rather than programs.
EQUATIONS = ("documentation", "geometry", "mechanics", "multibody", "reference", "systems")


@pytest.fixture(autouse=True, scope="module")
def _equations_by_numpy(request):
    """NumPy computes programs without loops in these folders."""
    with by_numpy.programs_by_numpy(request.path.parent.name in EQUATIONS):
        yield


# A worker that drops nothing grows to 5 GB; dropped programs are traced and read again.
MOST_MEMORY = _most_memory()


@pytest.fixture(autouse=True, scope="module")
def _forget_compiled_programs():
    """Drops compiled programs and garbage between files if the worker has become large."""
    _collect_nothing()  # a command of the file before may have chosen otherwise
    yield
    if _memory() > MOST_MEMORY or _share_of_mappings() > 0.5:
        jax.clear_caches()
        gc.collect()
        _return_free_memory()


def _return_free_memory() -> None:
    """Returns freed memory to the system, which glibc keeps: otherwise (1.6 GB in place of 0.4) each later file would
    drop programs again."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def _memory() -> float:
    """The memory of this process in bytes; infinite if Linux' table is missing."""
    try:
        with open("/proc/self/statm") as table:
            return int(table.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return float("inf")


def _share_of_mappings() -> float:
    """How much of the number of memory mappings that Linux allows a process is used: each compiled program has some. XLA
    ends the process with a segmentation fault when there are no more (65,530, of which 40 files of `control` need all)."""
    try:
        with open("/proc/self/maps", "rb") as used, open("/proc/sys/vm/max_map_count") as most:
            return sum(1 for _ in used) / int(most.read())
    except OSError:
        return 0.0


@pytest.fixture
def interruptible():
    """Lets SIGINT raise KeyboardInterrupt, also in a shell's background, which starts programs with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
