"""Strict numerics for all tests: no silent dtype or rank promotion, warnings as errors, array shapes checked at run time."""

import gc
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Tests that start a process of their own find what was compiled before them. A folder that is kept makes the next run faster.
_compiled = tempfile.TemporaryDirectory(prefix="hrac-tests-")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", _compiled.name)
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.5"

import jax
import numpy as np
import pytest
from jaxtyping import install_import_hook

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

assert "hrac" not in sys.modules, "the shape-checking hook must be installed before hrac is imported"
ROOMS = ["hrac.adjacency", "hrac.agents", "hrac.envs", "hrac.folder", "hrac.nets", "hrac.training", "hrac.worlds"]
install_import_hook(ROOMS, "beartype.beartype")

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="session")
def golden():
    """Parity data by name: `golden("maze")["distances"]`."""
    return lambda name: np.load(GOLDEN / f"{name}.npz")


AS_FOR_USERS = ("test_bench", "test_golden_runs", "test_kill", "test_learning", "test_loop", "test_sweep")
"""How the names of modules begin whose programs are optimised: stored numbers, long runs, and runs that must equal one of
another process to the byte.

Most tests compile for longer than they run, so theirs are not. What a test starts as a process of its own is.
"""


_optimised = [True]


@pytest.fixture(scope="module", autouse=True)
def _optimise(request):
    wanted = request.module.__name__.rpartition(".")[2].startswith(AS_FOR_USERS)
    if wanted != _optimised[0]:
        jax.clear_caches()
        jax.config.update("jax_disable_most_optimizations", not wanted)
        _optimised[0] = wanted


MAPS = Path("/proc/self/maps")
MOST_MAPS = 20_000
"""Compiled programs take memory maps, of which Linux allows a process 65,530. Past that, JAX crashes."""


@pytest.fixture(scope="module", autouse=True)
def _forget_compiled_programs():
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
        gc.collect()
