"""Monte Carlo against exact moments and probabilities; a run gives the same bytes however often it is interrupted."""

import json
import re

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from jaxhamel import ensemble
from jaxhamel.ensemble import Distribution, Samples, monte_carlo
from jaxhamel.ensemble._study._progress import Moments
from jaxhamel.ensemble._study._statistics import probability, summarise

SPREAD = {
    "a": Distribution("normal", mean=[1.0, 2.0], std=0.5),
    "b": Distribution("uniform", low=0.0, high=1.0),
}


def model(sample):
    return {"sum": jnp.sum(sample["a"]) + sample["b"], "b": sample["b"]}


def fragile(sample):
    return {"root": jnp.sqrt(sample["a"][0]), "failed": (sample["b"] > 0.9).astype(float)}


@pytest.mark.parametrize(
    ("name", "parameters", "frozen"),
    [
        ("normal", {"mean": 1.0, "std": 0.3}, stats.norm(1.0, 0.3)),
        ("uniform", {"low": -1.0, "high": 2.0}, stats.uniform(-1.0, 3.0)),
        ("triangular", {"low": 0.0, "mode": 1.0, "high": 3.0}, stats.triang(1 / 3, 0.0, 3.0)),
        ("lognormal", {"median": 2.0, "sigma": 0.4}, stats.lognorm(0.4, scale=2.0)),
        ("truncated-normal", {"mean": 0.0, "std": 1.0, "low": 0.0, "high": 9.0}, stats.halfnorm()),
    ],
)
def test_distributions_are_what_their_names_say(name, parameters, frozen):
    """2,000 samples pass the Kolmogorov–Smirnov test against SciPy's distribution."""
    x = Samples({"x": Distribution(name, **parameters)}, 2000, 7)[:]["x"]
    assert stats.kstest(x, frozen.cdf).pvalue > 1e-3
    assert stats.kstest(x, stats.norm(5.0, 1.0).cdf).pvalue < 1e-9  # the test can fail


@pytest.mark.parametrize("sampler", ["random", "latin-hypercube", "sobol"])
def test_mean_and_deviation_are_within_their_errors(sampler):
    """a₀ + a₁ + b has the mean 3.5, the variance 0.5² + 0.5² + 1/12 and the covariance 1/12 with b."""
    study = monte_carlo(model, SPREAD, 4096, seed=1, sampler=sampler)
    found = study.statistics["quantities"]["sum"]
    variance = 0.5 + 1 / 12
    assert abs(found["mean"] - 3.5) < 4 * found["mean_error"]
    assert abs(found["std"] - np.sqrt(variance)) < 4 * found["std_error"]
    np.testing.assert_allclose(found["mean_error"], np.sqrt(variance / 4096), rtol=0.1)
    covariance = study.statistics["covariance"]["sum"]["b"]
    np.testing.assert_allclose(covariance, 1 / 12, rtol=0.1)
    error = study.statistics["covariance_error"]["sum"]["b"]  # E (a + b)² b² = 1/24 + 1/80
    np.testing.assert_allclose(error, np.sqrt((1 / 24 + 1 / 80 - 1 / 144) / 4096), rtol=0.05)
    assert abs(covariance - 1 / 12) < 4 * error
    if (
        sampler != "random"
    ):  # evenly spread samples: the error of a sum is at most a fifth of the stated one
        assert abs(found["mean"] - 3.5) < 0.2 * found["mean_error"]


def test_stated_errors_are_those_of_repeated_runs():
    """The stated errors of means, deviations, quantiles and probabilities equal the scatter over hundreds of runs."""
    rng = np.random.default_rng(2)
    runs = [summarise({"x": rng.normal(size=200)})["quantities"]["x"] for _ in range(300)]
    for key in ("mean", "std"):
        scatter = np.std([run[key] for run in runs])
        np.testing.assert_allclose(
            np.mean([run[f"{key}_error"] for run in runs]), scatter, rtol=0.15
        )
    tails = [run["quantiles"]["0.05"] for run in runs]
    scatter = np.std([tail["value"] for tail in tails])
    np.testing.assert_allclose(np.mean([tail["error"] for tail in tails]), scatter, rtol=0.3)
    intervals = [probability(rng.random(50) < 0.03) for _ in range(400)]
    assert np.mean([low["low"] <= 0.03 <= low["high"] for low in intervals]) > 0.92


@pytest.mark.parametrize("sampler", ["random", "latin-hypercube", "sobol"])
def test_a_sample_does_not_depend_on_those_drawn_with_it(sampler):
    samples = Samples(SPREAD, 1000, 3, sampler)
    whole = samples[:]
    for first, last in ((0, 7), (7, 256), (255, 1000), (999, 2000)):
        for name, x in samples[first:last].items():
            np.testing.assert_array_equal(x, whole[name][first:last])
    np.testing.assert_array_equal(samples[617]["a"], whole["a"][617])
    assert np.unique(whole["b"]).size == 1000


def test_moments_merge_as_if_they_had_come_at_once():
    rng = np.random.default_rng(3)
    x = 1e6 + rng.normal(size=(1000, 3)) @ rng.normal(size=(3, 3))
    parts = [Moments.of(x[i : i + 77]) for i in range(0, 1000, 77)]
    merged = sum(parts, Moments.none(3))
    assert merged.n == 1000
    np.testing.assert_allclose(merged.mean, x.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(merged.covariance, np.cov(x.T), rtol=1e-9)


def test_interrupted_run_ends_with_the_same_bytes(tmp_path):
    """A run interrupted twice and resumed gives the statistics of an uninterrupted run; the last block is partial."""
    whole = monte_carlo(fragile, SPREAD, 1000, seed=3)

    class Interrupted(Exception):
        pass

    def interrupt_at(done):
        def look(progress):
            if progress.done >= done:
                raise Interrupted

        return look

    for done, resume in ((256, False), (768, True)):
        with pytest.raises(Interrupted):
            monte_carlo(
                fragile,
                SPREAD,
                1000,
                seed=3,
                folder=tmp_path,
                resume=resume,
                progress=interrupt_at(done),
            )
    resumed = monte_carlo(fragile, SPREAD, 1000, seed=3, folder=tmp_path, resume=True)
    assert json.dumps(resumed.statistics) == json.dumps(whole.statistics)
    np.testing.assert_array_equal(resumed.failed, whole.failed)


def test_a_torn_or_unfinished_block_is_computed_again(tmp_path):
    """A missing, truncated, empty or altered block is computed again, and its file is then as before."""
    whole = monte_carlo(model, SPREAD, 600, seed=3, folder=tmp_path)
    chunks = sorted((tmp_path / "values.zarr" / "c").rglob("*"))
    victim = next(path for path in chunks if path.is_file() and path.parent.name == "1")
    stored = victim.read_bytes()
    flipped = bytearray(stored)
    flipped[len(flipped) // 2] ^= 1
    victim.rename(victim.with_suffix(".0123.partial"))
    for left in (None, stored[:100], b"", flipped):
        if left is not None:  # left by a machine that stopped or by a bad disk
            victim.write_bytes(left)
        again = monte_carlo(model, SPREAD, 600, seed=3, folder=tmp_path, resume=True)
        assert json.dumps(again.statistics) == json.dumps(whole.statistics)
        assert victim.read_bytes() == stored


def test_arrays_beside_the_quantities(tmp_path):
    """Auxiliary arrays are returned for the first block, also from a finished run; they do not change the statistics."""

    def with_path(sample):
        return model(sample), {"path": jnp.outer(jnp.arange(3.0), sample["a"])}

    given = {"has_aux": True, "folder": tmp_path}
    study = monte_carlo(with_path, SPREAD, 300, seed=1, block=256, **given)
    a = study.samples[:256]["a"]
    np.testing.assert_array_equal(study.first["path"], a[:, None] * np.arange(3.0)[:, None])
    assert study.statistics == monte_carlo(model, SPREAD, 300, seed=1, block=256).statistics
    again = monte_carlo(with_path, SPREAD, 300, seed=1, block=256, resume=True, **given)
    np.testing.assert_array_equal(again.first["path"], study.first["path"])
    few = monte_carlo(with_path, SPREAD, 5, has_aux=True)
    assert few.first["path"].shape == (5, 3, 2)
    assert monte_carlo(model, SPREAD, 5).first is None


@pytest.mark.parametrize("sampler", ["random", "latin-hypercube", "sobol"])
def test_samples_from_here_and_there(sampler):
    """Samples selected by indices or slices are those of the whole table."""
    samples = Samples(SPREAD, 40, 3, sampler)
    whole = samples[:]["a"]
    for rows in (
        [7, 3, 39],
        np.array([5]),
        slice(1, 40, 3),
        slice(None, None, -1),
        slice(9, 2),
        [],
    ):
        found = samples[rows]["a"]
        np.testing.assert_array_equal(found, whole[rows] if len(found) else whole[:0])
    with pytest.raises(ValueError, match="there is no trajectory 40; there are 40"):
        samples[[1, 40]]


def test_a_normal_number_cut_off_at_one_end():
    """A normal number of mean 0 cut off below 0 is half-normal; cut off above 0, it is the mirror image."""
    ends = {"up": (0.0, np.inf), "down": (-np.inf, 0.0)}
    spread = {
        name: Distribution("truncated-normal", mean=0.0, std=1.0, low=low, high=high)
        for name, (low, high) in ends.items()
    }
    drawn = Samples(spread, 2000, 7)[:]
    assert stats.kstest(drawn["up"], stats.halfnorm().cdf).pvalue > 1e-3
    assert stats.kstest(-drawn["down"], stats.halfnorm().cdf).pvalue > 1e-3
    assert np.isfinite(drawn["up"]).all()
    assert drawn["up"].min() > 0 > drawn["down"].max()


def test_failures_are_counted_kept_and_left_out():
    """Trajectories fail by b > 0.9 or by the root of a negative a₀. They are listed by index, left out of the
    statistics, and each can be drawn again."""
    study = monte_carlo(fragile, SPREAD, 600, seed=3)
    drawn = [study.sample(i) for i in range(600)]
    bad = [i for i, s in enumerate(drawn) if s["b"] > 0.9 or s["a"][0] < 0]
    np.testing.assert_array_equal(study.failed, bad)
    assert study.statistics["quantities"]["root"]["n"] == 600 - len(bad)
    good = [np.sqrt(s["a"][0]) for i, s in enumerate(drawn) if i not in set(bad)]
    np.testing.assert_allclose(
        study.statistics["quantities"]["root"]["mean"], np.mean(good), rtol=1e-13
    )
    assert f"600 trajectories, {len(bad)} failed" in str(study)
    again = monte_carlo(fragile, SPREAD, 600, seed=3).samples[study.failed]  # all of them at once
    np.testing.assert_array_equal(again["a"], [drawn[i]["a"] for i in bad])


def test_stops_when_it_is_accurate_enough():
    options = {"seed": 3, "block": 256}
    study = monte_carlo(model, SPREAD, 100_000, accuracy={"sum": 0.02}, **options)
    assert study.trajectories < study.asked
    assert study.statistics["quantities"]["sum"]["mean_error"] <= 0.02
    assert study.trajectories <= (0.5 + 1 / 12) / 0.02**2 * 1.1 + 256
    by_quantile = monte_carlo(model, SPREAD, 100_000, accuracy={("b", 0.95): 0.005}, **options)
    # the error of a uniform number's quantile is √(p (1 − p)/N); it is estimated here from some twenty values
    assert 0.4 < by_quantile.trajectories / (0.95 * 0.05 / 0.005**2) < 1.6
    assert by_quantile.statistics["quantities"]["b"]["quantiles"]["0.95"]["error"] <= 0.005


def test_a_rare_failure_is_not_taken_for_none():
    """One in 500 trajectories fails. Blocks without a failure do not end the run, since Wilson's interval stays wide."""

    def rare(sample):
        return {"b": sample["b"], "constant": 1.0, "failed": sample["b"] > 0.998}

    options = {"seed": 3, "block": 256, "accuracy": {"failed": 5e-4}}
    study = monte_carlo(rare, SPREAD, 100_000, **options)
    assert 3000 < study.trajectories < 20_000
    assert study.statistics["failure"]["low"] < 0.002 < study.statistics["failure"]["high"]
    never = monte_carlo(rare, SPREAD, 1000, seed=3, accuracy={"constant": 1e-9})
    assert never.trajectories == 1000  # a quantity that has not varied does not count as accurate


def test_progress_says_what_was_found_so_far():
    seen = []
    monte_carlo(fragile, SPREAD, 1000, seed=3, progress=seen.append)
    assert [at.done for at in seen] == [256, 512, 768, 1000]
    last = seen[-1].statistics
    assert last == monte_carlo(fragile, SPREAD, 1000, seed=3).statistics
    mean, error = seen[-1].means["root"]
    np.testing.assert_allclose(mean, last["quantities"]["root"]["mean"], rtol=1e-13)
    np.testing.assert_allclose(error, last["quantities"]["root"]["mean_error"], rtol=1e-12)
    assert seen[-1].quantile("root", 0.95) == last["quantities"]["root"]["quantiles"]["0.95"]
    assert seen[-1].failure == last["failure"]
    assert seen[-1].left == 0 < seen[0].left


def test_one_trajectory_has_no_error_that_could_be_stated():
    """The errors from one trajectory are NaN; an error of 0 would mean an exact result."""
    found = monte_carlo(model, SPREAD, 1).statistics["quantities"]["sum"]
    errors = [found["mean_error"], found["std"], found["std_error"]]
    assert np.isnan([*errors, *(q["error"] for q in found["quantiles"].values())]).all()
    assert np.isfinite(found["mean"])


def test_messages(tmp_path):
    run = lambda **options: monte_carlo(model, SPREAD, **{"trajectories": 10, **options})
    cases = {
        "`trajectories` is 0; it must be a whole number, at least 1": {"trajectories": 0},
        "`trajectories` is of type int; it must be a whole number": {"trajectories": 10**5000},
        "`seed` is -1": {"seed": -1},
        "`sampler` is 'lhs'; it must be one of 'random', 'latin-hypercube', 'sobol'": {
            "sampler": "lhs"
        },
        "`accuracy` names 'end', which `model` does not give; it gives b, sum": {
            "accuracy": {"end": 1}
        },
        "the quantile 95 of 'sum'; it must be between 0 and 1": {"accuracy": {("sum", 95): 1}},
        "`block` is 0; it must be a whole number": {"block": 0},
    }
    for message, options in cases.items():
        with pytest.raises(ValueError, match=message.replace("(", r"\(")):
            run(**options, folder=tmp_path / "none")
        assert not (tmp_path / "none").exists()
    run(folder=tmp_path)
    with pytest.raises(
        ValueError, match=r"holds a run already \(10 trajectories, seed 0\); nothing was"
    ):
        run(folder=tmp_path)
    with pytest.raises(ValueError, match="holds another run: its `seed` is 0, asked for is 5"):
        run(folder=tmp_path, seed=5, resume=True)
    with pytest.raises(ValueError, match=r"its `about.step` is None, asked for is 0.1; nothing"):
        run(folder=tmp_path, resume=True, about={"step": 0.1})
    with pytest.raises(ValueError, match=r"no trajectory 10; there are 10, counted from 0 to 9"):
        Samples(SPREAD, 10)[10]
    for mean in (1j, 10**400, {"a": 1.0}, [1.0, [2.0]]):
        with pytest.raises(ValueError, match=r"`mean` is .* a number or an array of numbers"):
            Distribution("normal", mean=mean, std=1.0)
    with pytest.raises(ValueError, match=r"no distribution 'gauss'; take one of 'normal'"):
        Distribution("gauss", mean=0.0)
    with pytest.raises(ValueError, match=r"'normal' got mean; it takes mean, std"):
        Distribution("normal", mean=0.0)
    with pytest.raises(ValueError, match=r"`low` must be below `high`"):
        Distribution("uniform", low=1.0, high=0.0)
    with pytest.raises(ValueError, match=r"gives 'x' of shape \(2,\) for one trajectory"):
        monte_carlo(lambda s: {"x": s["a"]}, SPREAD, 10)
    with pytest.raises(ValueError, match=r"has 1\.0 for 'a', which is no Distribution"):
        monte_carlo(model, {"a": 1.0}, 10)
    with pytest.raises(ValueError, match="names nothing to draw"):
        monte_carlo(model, {}, 10)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda: Distribution("normal", mean=[1.0, 2.0], std=[1.0, 2.0, 3.0]),
            ValueError,
            "`mean` of shape (2,), `std` of shape (3,); they must broadcast to one shape",
        ),
        (
            lambda: Distribution("normal", mean="a", std=1.0),
            ValueError,
            "`mean` is 'a'; it must be a number or an array of numbers",
        ),
        (
            lambda: Distribution("normal", mean=[], std=1.0),
            ValueError,
            "nothing to draw. Give at least one number",
        ),
        (
            lambda: Distribution("lognormal", median=0.0, sigma=1.0),
            ValueError,
            "`median` is 0.; it must be positive. A lognormal number is positive",
        ),
        (lambda: Distribution(["normal"], mean=0.0, std=1.0), ValueError, "take one of 'normal'"),
        (
            lambda: monte_carlo(model, SPREAD, 10**12),
            ValueError,
            "`trajectories` is 1000000000000; their table of 2 columns takes 1.49e+04 GiB of memory",
        ),
        (
            lambda: monte_carlo(3, SPREAD, 10),
            TypeError,
            "`model` is of type int; it must be a callable",
        ),  # pyright: ignore
        (
            lambda: monte_carlo(model, SPREAD, 10, progress=True),  # pyright: ignore
            TypeError,
            "`progress` is of type bool; it must be a callable",
        ),
        (
            lambda: monte_carlo(lambda s: {"x": s["b"].astype(complex)}, SPREAD, 10),
            ValueError,
            "gives 'x' as numbers of dtype complex128; each quantity must be one real number",
        ),
        (
            lambda: monte_carlo(lambda s: {"x": {"y": s["b"]}}, SPREAD, 10),
            ValueError,
            "gives 'x' as a dict; each quantity must be one real number",
        ),
        (
            lambda: monte_carlo(lambda s: {1: s["b"]}, SPREAD, 10),  # pyright: ignore
            ValueError,
            "a quantity named 1, of type int; a name must be text",
        ),
        (
            lambda: monte_carlo(lambda s: {"x": s["b"][0]}, SPREAD, 10, batched=True),
            ValueError,
            "gives 'x' of shape () for 256 samples; a batched one must give one number for each of them",
        ),
        (
            lambda: monte_carlo(model, SPREAD, 10, has_aux=True),
            ValueError,
            "`model` gives a dict; with `has_aux=True` it must give a pair, (quantities, arrays)",
        ),
        (
            lambda: monte_carlo(lambda s: (s, s["b"][0]), SPREAD, 10, batched=True, has_aux=True),
            ValueError,
            "gives an array of shape () for 256 samples beside its quantities; its first axis must be",
        ),
        (
            lambda: monte_carlo(model, SPREAD, 10, accuracy=0.1),  # pyright: ignore
            TypeError,
            "`accuracy` is 0.1; it must be a dictionary of standard errors, such as {'b': 0.01}",
        ),
        (
            lambda: monte_carlo(model, SPREAD, 10, accuracy={"b": "small"}),  # pyright: ignore
            ValueError,
            "`accuracy['b']` is 'small'; it must be a number, a standard error",
        ),
        (
            lambda: monte_carlo(model, SPREAD, 10, accuracy={("failed", 0.5): 0.1}),
            ValueError,
            "a quantile of 'failed', which is 0 or 1",
        ),
        (
            lambda: monte_carlo(model, SPREAD, 10, about={"x": np.zeros(2)}),
            TypeError,
            "it must be a dictionary that JSON takes",
        ),
        (
            lambda: monte_carlo(model, SPREAD, 10, resume=True),
            ValueError,
            "`resume` is True and `folder` is None: there is no run to resume",
        ),
        (
            lambda: monte_carlo(model, SPREAD, 10, folder=3),  # pyright: ignore
            TypeError,
            "`folder` is 3; it must be a path, text or a pathlib.Path",
        ),
        (
            lambda: monte_carlo(model, SPREAD, 10, folder=""),
            TypeError,
            "`folder` is ''; it must be",
        ),
        (
            lambda: monte_carlo(model, {1: SPREAD["a"], "b": SPREAD["b"]}, 10),  # pyright: ignore
            ValueError,
            "`distributions` names a parameter 1, of type int; a name must be text",
        ),
        (
            lambda: Distribution("truncated-normal", mean=0.0, std=1.0, low=np.inf, high=np.inf),
            ValueError,
            "`low` must be below `high`",
        ),
        (
            lambda: Distribution("truncated-normal", mean=0.0, std=1.0, low=0.0, high=np.nan),
            ValueError,
            "`high` is nan; every entry must be a finite number",
        ),
        (
            lambda: Distribution("uniform", low=0.0, high=np.inf),
            ValueError,
            "`high` is inf; every entry must be a finite number",
        ),
        (
            lambda: monte_carlo(model, SPREAD, 10).sample(1.7),  # pyright: ignore
            ValueError,
            "there is no trajectory 1.7; there are 10",
        ),
    ],
)
def test_what_cannot_be_is_named(call, kind, message):
    """Messages name the argument, its value and the accepted values before anything runs."""
    with pytest.raises(kind, match=re.escape(message)):
        call()


def test_whole_numbers_of_numpy_are_whole_numbers(tmp_path):
    """NumPy integers are accepted, also by the JSON of a folder; a block larger than the run is cut to its size."""
    found = monte_carlo(model, SPREAD, np.int64(10), seed=np.int64(3), folder=tmp_path, block=10**9)
    assert found.statistics == monte_carlo(model, SPREAD, 10, seed=3).statistics


def test_a_folder_that_cannot_be_written_to(tmp_path):
    """The message does not speak of a full disk or of resuming."""
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OSError, match=r"file/run cannot be written to; nothing is lost\. Make it"):
        monte_carlo(model, SPREAD, 10, folder=tmp_path / "file" / "run")


def test_parameters_that_cannot_be_are_found_before_anything_runs():
    """The system's own error is raised with the trajectory and the seed before the model runs."""

    def build(sample):
        if np.any(sample["a"] <= 0):
            raise ValueError("`a` must be positive.")

    drawn = Samples(SPREAD, 5000, 3)[:]["a"]
    worst = {int(i) for i in np.argmin(drawn, axis=0)}
    with pytest.raises(
        ValueError, match="draw parameters that are not valid: in trajectory"
    ) as found:
        monte_carlo(lambda sample: 1 / 0, SPREAD, 5000, seed=3, check=build)
    assert any(
        f"in trajectory {i} (seed 3), `a` must be positive" in str(found.value) for i in worst
    )


def test_a_check_may_give_false_or_fail_in_its_own_way():
    """A check refuses a sample by False, by an array that contains False, or by an assertion; other errors get a note
    with the trajectory."""
    run = lambda check: monte_carlo(lambda s: 1 / 0, SPREAD, 5000, seed=3, check=check)

    def asserted(sample):
        assert np.all(sample["a"] > 0), "`a` is negative."

    for check in (
        lambda s: s["a"] > 0,
        lambda s: jnp.all(s["a"] > 0),
        lambda s: bool(s["a"][0] > 0),
    ):
        with pytest.raises(ValueError, match=r"in trajectory \d+ \(seed 3\), `check` gives False"):
            run(check)
    with pytest.raises(ValueError, match=r"in trajectory \d+ \(seed 3\), `a` is negative"):
        run(asserted)
    with pytest.raises(KeyError) as found:
        run(lambda s: s["c"])
    assert re.match(r"`check` was given trajectory \d+ \(seed 3\)", found.value.__notes__[0])
    good = monte_carlo(model, SPREAD, 10, check=lambda s: s["a"] < 100)
    assert good.trajectories == 10


def test_a_folder_without_zarr(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        ModuleNotFoundError, match=r"a run with a folder needs zarr.* 'jaxhamel\[cli\]'"
    ):
        monte_carlo(model, SPREAD, 10, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_full_disk_loses_nothing(tmp_path):
    """If the disk is full after the first block (simulated by a limit of 1 kB per file), the message says how much is
    kept, and the run can be resumed."""
    resource = pytest.importorskip("resource")
    allowed = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(progress):
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, allowed[1]))

    run = lambda **options: monte_carlo(model, SPREAD, 1000, seed=3, **options)
    whole = run()
    try:
        with pytest.raises(OSError, match="takes no more; the 256 trajectories written before are"):
            run(folder=tmp_path, progress=fill)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, allowed)
    seen = []
    again = run(folder=tmp_path, resume=True, progress=seen.append)
    assert json.dumps(again.statistics) == json.dumps(whole.statistics)
    assert seen[0].rate == 0 < seen[1].rate  # the first block had been written


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "values.zarr").mkdir()
    table, refused = (
        tmp_path / "values.zarr",
        "exists but was not written by jaxhamel; nothing",
    )
    for name in ("mine.txt", "zarr.json"):
        (table / name).write_text("mine")
        for resume in (False, True):
            with pytest.raises(ValueError, match=refused):
                monte_carlo(model, SPREAD, 10, folder=tmp_path, resume=resume)
        (table / name).unlink()
    (table / "zarr.0123.partial").write_text(
        "{"
    )  # left by a process that was killed before it had written the table
    monte_carlo(model, SPREAD, 10, folder=tmp_path)
    with pytest.raises(
        ValueError, match=r"its `quantities` is \['b', 'sum'\], asked for is \['x'\]"
    ):
        monte_carlo(lambda s: {"x": s["b"]}, SPREAD, 10, folder=tmp_path, resume=True)


def test_a_ball_in_batches():
    """With `rollout` as a batched model, homogeneous balls on a plane move by their constant velocity times 2 s."""
    from jaxhamel.systems import RollingBall

    ball = RollingBall(0.5, 1.0, [0.1] * 3, [0, 0, 0], [], None)
    spread = {"omega": Distribution("normal", mean=[0.0, 1.0, 0.0], std=0.2)}

    def rolled(sample):
        q0 = (jnp.array([1.0, 0, 0, 0]), jnp.zeros(2))
        q, _ = ensemble.rollout(
            ball, q0, sample["omega"], [0.0, 2.0], dt=0.1, in_axes=(None, None, 0, None)
        )
        return {"x": q[1][:, -1, 0], "y": q[1][:, -1, 1]}

    study = monte_carlo(rolled, spread, 100, batched=True, block=64)
    omega = np.array([study.sample(i)["omega"] for i in range(100)])
    np.testing.assert_allclose(study.values["x"], 2.0 * 0.5 * omega[:, 1], atol=1e-6)
    np.testing.assert_allclose(study.values["y"], -2.0 * 0.5 * omega[:, 0], atol=1e-6)


def crossing(sample):
    """b, whether b is above 0.9 (probability 0.1), and failures: NaN for b < 0.02, `failed` for 0.01 < b < 0.06."""
    b = sample["b"]
    root = jnp.where(b < 0.02, jnp.nan, b)
    return {"b": root, "above": b > 0.9, "failed": (b > 0.01) & (b < 0.06)}


def test_an_event_is_no_failure():
    """Trajectories above the limit stay in all statistics; the event's probability has Wilson's interval."""
    study = monte_carlo(crossing, {"b": SPREAD["b"]}, 4000, seed=2)
    b = Samples({"b": SPREAD["b"]}, 4000, 2)[:]["b"]
    well = b >= 0.06
    k, n, z = np.sum(b > 0.9), np.sum(well), 1.959963984540054
    found = study.statistics["quantities"]["above"]
    wilson = stats.binomtest(int(k), int(n)).proportion_ci(method="wilson")
    assert found["probability"] == found["mean"] == k / n
    np.testing.assert_allclose([found["low"], found["high"]], wilson, rtol=1e-12)
    np.testing.assert_allclose(found["error"], np.sqrt(k / n * (1 - k / n) / n), rtol=1e-12)
    assert study.statistics["quantities"]["b"]["max"] == b.max() > 0.9
    np.testing.assert_array_equal(study.failed, np.flatnonzero(~well))
    np.testing.assert_array_equal(study.not_finite, np.flatnonzero(b < 0.02))
    assert study.statistics["failure"]["not_finite"] == np.sum(b < 0.02)
    shown = str(study)
    assert f"{np.sum(~well)} failed ({np.sum(b < 0.02)} not finite)" in shown
    assert f"probability {k / n:.4g} ± " in shown
    assert study.events == ("above",)
    half = (found["high"] - found["low"]) / (2 * z)
    enough = monte_carlo(crossing, {"b": SPREAD["b"]}, 4000, seed=2, accuracy={"above": 2.2 * half})
    assert (
        600 < enough.trajectories < 1300
    )  # 2.2 times the error needs about a fifth of the 4000 trajectories
    with pytest.raises(ValueError, match="asks for a quantile of 'above', which is 0 or 1; ask"):
        monte_carlo(crossing, {"b": SPREAD["b"]}, 10, accuracy={("above", 0.5): 0.1})


def test_an_event_that_never_happens():
    """The mean of an event that never happens has no estimated error, but its probability has an interval, and a run
    stops by it."""
    model = lambda s: {"never": s["b"] > 2.0}
    lines = []
    study = monte_carlo(
        model,
        {"b": SPREAD["b"]},
        4000,
        accuracy={"never": 2e-3},
        progress=lambda p: lines.append(str(p)),
    )
    found = study.statistics["quantities"]["never"]
    assert found["probability"] == found["low"] == 0.0
    np.testing.assert_allclose(found["high"], 3.8415 / (study.trajectories + 3.8415), rtol=1e-4)
    assert study.trajectories < 1500
    assert "never: probability 0 ± 0, 95 %: 0 to 0.0" in lines[-1]


def chunks(folder):
    """The files of the blocks, in the order of their numbers."""
    found = (folder / "values.zarr" / "c").glob("*/0")
    return sorted(found, key=lambda path: int(path.parent.name))


def test_blocks_that_were_exchanged_are_computed_again(tmp_path):
    """Valid blocks from another position or from a run with another seed are detected and computed again."""
    whole = monte_carlo(model, SPREAD, 768, seed=3, folder=tmp_path / "a")
    monte_carlo(model, SPREAD, 768, seed=4, folder=tmp_path / "b")
    first, second, third = chunks(tmp_path / "a")
    stored = [path.read_bytes() for path in (first, second, third)]
    first.write_bytes(stored[1])
    second.write_bytes(stored[0])
    third.write_bytes(chunks(tmp_path / "b")[2].read_bytes())
    again = monte_carlo(model, SPREAD, 768, seed=3, folder=tmp_path / "a", resume=True)
    for name, values in whole.values.items():
        np.testing.assert_array_equal(again.values[name], values)
    assert [path.read_bytes() for path in (first, second, third)] == stored


def test_two_runs_do_not_share_a_folder(tmp_path):
    """A second run in the folder is refused while the first one runs, and accepted after it."""
    heard = []

    def second(progress):
        with pytest.raises(ValueError, match="is written to by another run; nothing was changed"):
            monte_carlo(model, SPREAD, 300, folder=tmp_path, resume=True)
        heard.append(progress.done)

    monte_carlo(model, SPREAD, 300, folder=tmp_path, progress=second)
    assert heard == [256, 300]
    monte_carlo(model, SPREAD, 300, folder=tmp_path, resume=True)


@pytest.mark.parametrize("name", ["values.zarr", "values.zarr/c", "values.zarr/c/0"])
def test_links_in_a_folder_are_not_followed(name, tmp_path):
    monte_carlo(model, SPREAD, 10, folder=tmp_path / "run")
    (tmp_path / "run" / name).rename(tmp_path / "elsewhere")
    (tmp_path / "run" / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="is a symbolic link, which is not followed; nothing was"):
        monte_carlo(model, SPREAD, 10, folder=tmp_path / "run", resume=True)


def test_a_table_of_another_form_is_left_alone(tmp_path):
    monte_carlo(model, SPREAD, 10, folder=tmp_path)
    about = tmp_path / "values.zarr" / "zarr.json"
    said = json.loads(about.read_text())
    for change in ({"shape": [10**9, 4]}, {"attributes": {"asked": 3}}, {"attributes": {}}):
        about.write_text(json.dumps({**said, **change}))
        with pytest.raises(ValueError, match="was not written by jaxhamel"):
            monte_carlo(model, SPREAD, 10, folder=tmp_path, resume=True)


def test_the_check_gets_the_smallest_and_the_largest_of_all():
    """The check gets the samples with the smallest and largest value of each number, also from beyond the first 65,536
    samples."""
    samples, given = Samples(SPREAD, 200_000, 5), []
    samples.check(lambda sample: given.append(sample))
    drawn = samples[:]
    places = []
    for name, x in drawn.items():
        flat = x.reshape(len(x), -1)
        seen = np.array([np.ravel(sample[name]) for sample in given])
        np.testing.assert_array_equal(seen.min(axis=0), flat.min(axis=0))
        np.testing.assert_array_equal(seen.max(axis=0), flat.max(axis=0))
        places += [*np.argmin(flat, axis=0), *np.argmax(flat, axis=0)]
    assert len(given) == len(set(places)) == 6
    assert max(places) > 2 * 65_536 > 65_536 > min(places)
