"""Groups of copies: one is stepped while actors decide for the other, and nobody can tell from what happens."""

import threading

import jax
import numpy as np
import pytest

from hrac.agents.decide import Noise
from hrac.config import replace
from hrac.envs.base import SimulationError
from hrac.envs.point import PointBatch, PointMaze
from hrac.experiments import tasks
from hrac.training.state import Training
from hrac.worlds.base import DivergedError
from hrac.worlds.group import Draws, now
from tests.worlds.test_host import TINY

SMALL_ANTS = {name: value for name, value in TINY.items() if name not in ("env.layout", "env.time_limit")}


def _training(task="point-maze", **changes):
    settings = {name.replace("__", "."): value for name, value in changes.items()}
    config = replace(tasks.config_for(task), (TINY if task == "point-maze" else SMALL_ANTS) | settings)
    return Training(config, tasks.make_env(config))


def _rounds(training, count=3):
    ready = np.ones(len(training.config.seeds), bool)
    return [training.world.collect(training.actors(), ready, index) for index in range(count)]


@pytest.fixture
def two_groups(monkeypatch):
    """Points that say what ants say: another thread may step them."""
    monkeypatch.setattr(PointMaze, "releases_gil", True, raising=False)


@pytest.mark.parametrize(
    ("seeds", "threads", "expected"),
    [
        (1, None, [(0, 1, None)]),
        (2, None, [(0, 1, None), (1, 2, None)]),
        (5, None, [(0, 3, None), (3, 5, None)]),
        (5, 1, [(0, 5, 1)]),  # one thread is nothing to share
        (5, 2, [(0, 3, 1), (3, 5, 1)]),
        (4, 7, [(0, 2, 4), (2, 4, 3)]),
    ],
)
def test_two_groups_divide_the_runs_and_the_threads(seeds, threads, expected, two_groups, monkeypatch):
    asked, batch = [], PointMaze.batch
    monkeypatch.setattr(PointMaze, "batch", lambda self, *sizes: asked.append(sizes) or batch(self, *sizes))
    training = _training(seeds=list(range(seeds)), training__env_threads=threads)
    made = asked[-len(expected) :]
    assert [(group.runs.start, group.runs.stop) for group in training.world.groups] == [each[:2] for each in expected]
    assert made == [((last - first) * 2, each) for first, last, each in expected]


def test_an_environment_that_needs_python_is_one_group():
    assert len(_training(seeds=[0, 1, 2]).world.groups) == 1


def test_the_same_happens_in_one_group_and_in_two(monkeypatch):
    one = _training(seeds=[3, 4, 5])
    monkeypatch.setattr(PointMaze, "releases_gil", True, raising=False)
    two = _training(seeds=[3, 4, 5])
    assert (len(one.world.groups), len(two.world.groups)) == (1, 2)
    jax.tree.map(np.testing.assert_array_equal, _rounds(one), _rounds(two))
    jax.tree.map(np.testing.assert_array_equal, one.world.snapshot(), two.world.snapshot())


def test_a_state_of_one_group_goes_on_in_two(monkeypatch):
    one = _training(seeds=[3, 4, 5])
    _rounds(one, 1)
    kept = one.world.snapshot()
    monkeypatch.setattr(PointMaze, "releases_gil", True, raising=False)
    two = _training(seeds=[3, 4, 5])
    two.world.restore(kept)
    jax.tree.map(np.testing.assert_array_equal, two.world.snapshot(), kept)
    jax.tree.map(np.testing.assert_array_equal, _rounds(one), _rounds(two))


@pytest.mark.parametrize("task", ["ant-maze", "ant-gather"])
def test_ants_of_two_seeds_are_two_groups_and_do_what_they_do_alone(task):
    pytest.importorskip("mujoco")
    both = _training(task, seeds=[7, 8])
    assert len(both.world.groups) == 2
    together = _rounds(both, 2)
    for part, seed in enumerate((7, 8)):
        alone = _rounds(_training(task, seeds=[seed]), 2)
        for mine, apart in zip(together, alone, strict=True):
            jax.tree.map(np.testing.assert_array_equal, mine[part], apart[0])


def test_one_group_is_decided_for_while_the_other_is_stepped(two_groups, monkeypatch):
    """The first step of the first group does not end before that of the second has begun, or this would wait for ever."""
    training = _training(seeds=[0, 1])
    second_begun, step, threads = threading.Event(), PointBatch.step, set()

    def slow(self, *arguments):
        threads.add(threading.get_ident())
        if self is training.world.groups[1].env:
            second_begun.set()
        assert second_begun.wait(timeout=20)
        return step(self, *arguments)

    monkeypatch.setattr(PointBatch, "step", slow)
    _rounds(training, 1)
    assert threading.get_ident() not in threads


@pytest.mark.parametrize(("group", "copy", "seed"), [(0, 3, 4), (1, 0, 5), (1, 1, 5)])
def test_a_broken_simulation_names_its_seed_and_leaves_nobody_in_a_step(group, copy, seed, two_groups, monkeypatch):
    """Seeds 3 and 4 are in the first group, 5 in the second; each has two copies."""
    training, step, under_way = _training(seeds=[3, 4, 5]), PointBatch.step, []

    def broken(self, *arguments):
        under_way.append(self)
        try:
            if self is training.world.groups[group].env:
                raise SimulationError([copy])
            return step(self, *arguments)
        finally:
            under_way.remove(self)

    monkeypatch.setattr(PointBatch, "step", broken)
    with pytest.raises(DivergedError, match=rf"of seed {seed} became unstable"):
        _rounds(training, 1)
    assert not under_way


def test_a_closed_world_has_no_threads_left(two_groups):
    before = threading.active_count()
    training = _training(seeds=[0, 1])
    _rounds(training, 1)
    assert threading.active_count() > before
    training.world.close()
    assert threading.active_count() == before


def test_draws_of_some_runs():
    numbers = np.arange(24, dtype=np.float32).reshape(2, 3, 4)  # time, runs, copies
    draws = Draws(Noise(numbers, numbers + 100, numbers + 200), numbers + 300)
    action, noise = draws.of(slice(1, 3)).at(1)
    np.testing.assert_array_equal(action, numbers[1, 1:] + 300)
    np.testing.assert_array_equal(noise.lottery, numbers[1, 1:] + 200)
    assert noise.hindsight is None


def test_now_is_now():
    done = now(lambda *arguments: arguments, 1, 2)
    assert done.done()
    assert done.result() == (1, 2)
