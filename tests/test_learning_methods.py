"""Every method learns: the small maze for a point, as in `test_learning_continuous.py`. Run by hand: pytest -m slow."""

import numpy as np
import pytest

import hrac
from hrac.experiments.methods import METHODS
from hrac.folder import log
from hrac.folder.progress import Silent
from test_learning_continuous import SETTINGS, STEPS


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_the_small_point_maze_is_solved(method, tmp_path):
    hrac.train("point-maze", method, steps=STEPS, seeds=2, out=tmp_path / "run", display=Silent(), **SETTINGS)
    rows = [row for row in log.read(tmp_path / "run") if row.name == "eval/success"]
    first, last = ([row.value for row in rows if low < row.step <= high] for low, high in ((-1, 2_000), (STEPS - 4_000, STEPS)))
    assert np.mean(first) < 0.6  # an untrained policy does not solve it
    assert np.mean(last) > 0.95
