"""Only the program that began a run can resume it, in this process or another, on one device or on many."""

import json
import os
import subprocess
import sys
import types
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zarr

from jaxhamel.ensemble import Distribution, monte_carlo
from jaxhamel.ensemble._origin import _origin
from jaxhamel.ensemble._origin._program_text import program_text
from tests.ensemble import described_programs

SPREAD = {"x": Distribution("normal", mean=100.0, std=1.0)}
TABLE = np.linspace(0.0, 1.0, 50)
SAMPLE = {"x": np.linspace(0.0, 1.0, 7)}


class Stopped(Exception):
    """Raised to interrupt a run."""


def stop(progress):
    raise Stopped


def model(sample):
    return {"y": sample["x"]}


def halved(sample):
    return {"y": sample["x"] / 2}


@pytest.fixture
def begun(tmp_path):
    """A folder with the first of the four blocks of a run of `halved`."""
    with pytest.raises(Stopped):
        monte_carlo(halved, SPREAD, 1000, seed=3, folder=tmp_path, progress=stop)
    return tmp_path


def resumed(folder, model, **options):
    return monte_carlo(model, SPREAD, 1000, seed=3, folder=folder, resume=True, **options)


def test_another_model_does_not_go_on(begun):
    """A run resumed with another model would mix the numbers of two models. The message shows the difference between
    the programs, and the folder is unchanged."""
    message = (
        r"holds the run of another model: its program has `v1:float64\[256\] = div v0 float64\[\] 2.0` where that of "
        r"the model given has `gives v0`; nothing was changed. Resume with the model that began it"
    )
    with pytest.raises(ValueError, match=message):
        resumed(begun, model)
    whole = monte_carlo(halved, SPREAD, 1000, seed=3)
    same = resumed(
        begun, lambda sample: {"y": sample["x"] / 2}
    )  # the same program under another name
    assert json.dumps(same.statistics) == json.dumps(whole.statistics)


def reading(table):
    return lambda sample: {"y": jnp.interp(sample["x"], TABLE, table)}


def calling(function):
    shape = jax.ShapeDtypeStruct(SAMPLE["x"].shape, float)
    return lambda sample: {"y": jax.pure_callback(function, shape, sample["x"])}


def shifted(by):
    return lambda x: x + by


def looking_up(table):
    """A function with a global variable TABLE of the given value."""
    code = (lambda x: x + TABLE[-7:]).__code__
    return types.FunctionType(code, {"TABLE": table})


class Shift:
    """A callable object with a number of its own."""

    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return x + self.by


LAST = TABLE.copy()
LAST[-1] = np.nextafter(1.0, 2.0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda s: {"y": 2.0 * s["x"]}, lambda s: {"y": np.nextafter(2.0, 3.0) * s["x"]}),
        (lambda s: {"y": jnp.sin(s["x"])}, lambda s: {"y": jnp.cos(s["x"])}),
        (
            lambda s: {"y": jnp.where(s["x"] > 0.5, 1.0, s["x"])},
            lambda s: {"y": jnp.where(s["x"] > 0.6, 1.0, s["x"])},
        ),
        (reading(TABLE), reading(LAST)),
        (calling(lambda x: x + 1.0), calling(lambda x: x + 2.0)),
        (calling(looking_up(TABLE)), calling(looking_up(LAST))),
        (calling(shifted(1.0)), calling(shifted(2.0))),
        (calling(Shift(1.0)), calling(Shift(2.0))),
        (jax.jit(lambda s: {"y": s["x"] + 1.0}), jax.jit(lambda s: {"y": s["x"] - 1.0})),
    ],
)
def test_what_decides_the_numbers_is_in_the_text(one, other):
    """The program's text contains each number to its last digit, each operation, each array entry, and the code and
    data of Python callbacks."""
    assert program_text(one, SAMPLE) == program_text(one, SAMPLE)
    assert program_text(one, SAMPLE) != program_text(other, SAMPLE)


def test_what_does_not_decide_them_is_not():
    def named(sample):
        return {"y": jnp.sin(sample["x"])}

    def told(sample):
        jax.debug.print("{}", sample["x"])
        return {"y": jnp.sin(sample["x"])}

    first = program_text(lambda s: {"y": jnp.sin(s["x"])}, SAMPLE)
    assert first == program_text(named, SAMPLE) == program_text(told, SAMPLE)


def test_the_same_in_every_process():
    """The texts of all models are the same in a process with another hash seed and another number of devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=3"
    others = {"PYTHONHASHSEED": "77", "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    found = subprocess.run(
        [sys.executable, "-m", described_programs.__name__],
        env={**os.environ, **others},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(found.stdout.splitlines()[-1]) == described_programs.digests()


def test_describing_a_program_changes_none():
    """Describing a program traces an inner jitted function once more, in lanes; later calls do not trace again."""
    ran = []

    @jax.jit
    def inner(x):
        ran.append(1)
        return 2.0 * x

    inner(SAMPLE["x"])
    program_text(lambda s: inner(s["x"]), SAMPLE)
    assert len(ran) == 2
    inner(SAMPLE["x"])
    assert len(ran) == 2


class Mirrored(Distribution):
    """A distribution whose samples are drawn from the other end."""

    def quantile(self, p):
        return super().quantile(1 - p)


def test_other_samples_by_the_same_words_do_not_go_on(begun):
    spread = {"x": Mirrored("normal", mean=100.0, std=1.0)}
    with pytest.raises(ValueError, match=r"another model: its program has `samples x: float64\["):
        monte_carlo(halved, spread, 1000, seed=3, folder=begun, resume=True)


def versions(monkeypatch, **changed):
    here = _origin._versions()
    monkeypatch.setattr(_origin, "_versions", lambda: here | changed)


def test_the_same_program_of_another_version_goes_on_and_says_so(begun, monkeypatch):
    from jax import __version__

    versions(monkeypatch, jax="9.9")
    message = rf"a run begun with jax {__version__}\. The program is the same; the run goes on, but"
    with pytest.warns(UserWarning, match=message):
        study = resumed(begun, halved)
    assert abs(study.statistics["quantities"]["y"]["mean"] - 50.0) < 0.1
    resumed(begun, halved)  # a finished run computes nothing, so there is no warning


def test_a_program_of_another_version_is_compared_by_its_numbers(begun, monkeypatch):
    """Programs of two versions of JAX differ line by line, so the stored trajectories are computed again and compared."""
    versions(monkeypatch, jaxlib="9.9", jax="9.9")
    message = (
        r"begun with jax [\d.]+, jaxlib [\d.]+\. Programs of two .* again: 'y' differs by up to 1"
    )
    with pytest.raises(ValueError, match=message):
        resumed(begun, model)
    with pytest.warns(
        UserWarning, match=r"computing 256 trajectories again, whose numbers agree to"
    ):
        study = resumed(begun, lambda sample: {"y": 0.5 * sample["x"]})
    assert abs(study.statistics["quantities"]["y"]["mean"] - 50.0) < 0.1


def test_a_folder_that_has_no_program(begun):
    """A folder written by a version that stored no program is compared by its numbers, too."""
    disk = zarr.open_array(begun / "values.zarr", mode="r+")
    kept = {k: v for k, v in disk.attrs.items() if k != "origin"}
    disk.attrs.clear()
    disk.attrs.update(kept)
    with pytest.raises(ValueError, match="begun with a version of jaxhamel that stored no program"):
        resumed(begun, model)
    with pytest.warns(UserWarning, match="a version of jaxhamel that stored no program"):
        resumed(begun, halved)
