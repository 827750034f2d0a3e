"""Everything is tested in double precision unless a test asks for single, with strict promotion."""

import jax
import pytest
from hypothesis import HealthCheck, settings

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

settings.register_profile(
    "default",
    deadline=None,  # the first example compiles
    max_examples=25,
    derandomize=True,  # the same examples on every machine: a failure can be repeated
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("default")


@pytest.fixture
def float32():
    """Run one test in single precision."""
    with jax.enable_x64(False):
        yield


@pytest.fixture(autouse=True, scope="module")
def _forget_compiled_programs():
    """One file's programs are of no use to the next: without this a worker grows to 5 GB."""
    yield
    jax.clear_caches()
