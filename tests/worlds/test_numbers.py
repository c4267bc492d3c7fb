"""The numbers of episodes made by hand, on a line, with k = 3."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrac import config as configs
from hrac.agents.decide import Setup
from hrac.agents.subgoals import SubgoalSpace
from hrac.config import Config
from hrac.nets import MLP
from hrac.spaces import Discrete
from hrac.worlds.base import Episode
from hrac.worlds.numbers import endings, mean_where, summarise

SETUP = Setup(
    SubgoalSpace(False, (0.0,), (9.0,)), Discrete(2), 1, configs.replace(Config(), {"k": 3, "training.round_env_steps": 6})
)


@dataclasses.dataclass(frozen=True)
class Task:
    """What an evaluation asks a task that knows nothing of its map."""

    ends_on_success: bool


@dataclasses.dataclass(frozen=True)
class Lake(Task):
    """One with holes."""

    ends_on_success: bool = True
    may_end_before = 5


@dataclasses.dataclass(frozen=True)
class Rungs:
    """A line on which a step leads from one number to the next. All beyond 4.2 is wall."""

    ends_on_success = True

    cells: np.ndarray = dataclasses.field(default_factory=lambda: np.arange(10)[:, None], compare=False)
    cell_distances: np.ndarray = dataclasses.field(
        default_factory=lambda: np.abs(np.subtract.outer(np.arange(10), np.arange(10))), compare=False
    )

    def steps_between(self, position, target):
        return jnp.round(jnp.abs(target - position)[0]).astype(jnp.int32)

    def in_wall(self, positions):
        return positions[:, 0] > 4.2


def _episodes(xp, relative=False):
    """Three episodes of 5, 3 and 1 steps, made into 6 (time, episodes, ...); what follows an end means nothing.

    The first walks from 0 to 5 by subgoals 2 and 8 (windows end at 3 and 5: misses 1 and 3); the second from 4 to 7 by one
    subgoal, 4.5 (a miss of 2.5), and succeeds with its window's last step; the third ends at once, at 1, asked for 1.
    """
    position = np.array([[0, 4, 0], [1, 5, 9], [2, 6, 9], [3, 9, 9], [4, 9, 9], [9, 9, 9]], np.float32)
    after = np.array([[1, 5, 1], [2, 6, 0], [3, 7, 0], [4, 0, 0], [5, 0, 0], [0, 0, 0]], np.float32)
    target = np.array([[2, 4.5, 1], [2, 4.5, 9], [2, 4.5, 9], [8, 9, 9], [8, 9, 9], [9, 9, 9]], np.float32)
    alive = np.array([[1, 1, 1], [1, 1, 0], [1, 1, 0], [1, 0, 0], [1, 0, 0], [0, 0, 0]], bool)
    reward = np.array([[1, 10, 7], [2, 20, 99], [3, 30, 99], [4, 99, 99], [5, 99, 99], [99, 99, 99]], np.float32)
    terminated = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 0, 0], [0, 0, 0], [1, 0, 0]], bool)
    subgoal = target - position if relative else target
    column = lambda values: xp.asarray(values[..., None])  # noqa: E731
    return Episode(
        obs=column(position),
        subgoal=column(subgoal),
        action=xp.zeros((6, 3), dtype=xp.int32),
        reward=xp.asarray(reward),
        next_obs=column(after),
        terminated=xp.asarray(terminated),
        alive=xp.asarray(alive),
    )


def _plain(numbers):
    return {name: np.stack([np.asarray(total), np.asarray(weight)]).tolist() for name, (total, weight) in numbers.items()}


EXPECTED = {
    "eval/return": [[15.0, 60.0, 7.0], [1.0, 1.0, 1.0]],
    "eval/episode_length": [[5.0, 3.0, 1.0], [1.0, 1.0, 1.0]],
    # Proposed at 0 for 2 and at 3 for 8; at 4 for 4.5; at 0 for 1. In an embedding of halves, nearer than 2.2 is below 1.1, and
    # so judged adjacent.
    "eval/subgoal_judged_adjacent": [[1.0, 1.0, 1.0], [2.0, 1.0, 1.0]],
    "eval/subgoal_miss": [[1.0 + 3.0, 2.5, 0.0], [2.0, 1.0, 1.0]],
    "eval/subgoal_within_k": [[1.0, 1.0, 1.0], [2.0, 1.0, 1.0]],
    "eval/window_displacement": [[3.0 + 2.0, 3.0, 1.0], [2.0, 1.0, 1.0]],
    "eval/subgoal_length": [[2.0 + 5.0, 0.5, 1.0], [2.0, 1.0, 1.0]],
    "eval/subgoal_in_wall": [[1.0, 1.0, 0.0], [2.0, 1.0, 1.0]],
    "eval/success": [[0.0, 1.0, 0.0], [1.0, 1.0, 1.0]],
    # The third never left the place where it ended.
    "eval/failed_stuck": [[0.0, 0.0, 1.0], [1.0, 1.0, 1.0]],
    "eval/failed_out_of_time": [[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]],
}


@pytest.mark.parametrize("xp", [np, jnp])
@pytest.mark.parametrize("relative", [False, True])
def test_the_numbers_of_episodes_by_hand(xp, relative):
    setup = SETUP._replace(space=SETUP.space._replace(relative=relative))
    halves = MLP((xp.asarray([[0.5]], dtype=xp.float32),), (xp.asarray([3.0], dtype=xp.float32),))
    numbers = summarise(_episodes(xp, relative), halves, setup, Rungs())
    assert _plain(numbers) == EXPECTED


@pytest.mark.parametrize("xp", [np, jnp])
def test_without_network_truth_or_success_there_are_fewer_numbers(xp):
    numbers = summarise(_episodes(xp), None, SETUP, Task(ends_on_success=False))
    without = ("judged_adjacent", "within_k", "in_wall", "success", "stuck", "out_of_time")
    assert _plain(numbers) == {name: both for name, both in EXPECTED.items() if not name.endswith(without)}


@pytest.mark.parametrize("xp", [np, jnp])
def test_who_is_on_its_back_at_the_end_has_fallen(xp):
    """Those who end beyond 4.9 have: the first, which therefore fails, and the second, which has succeeded."""
    setup = SETUP._replace(space=SETUP.space._replace(fallen=lambda obs: obs[..., 0] > 4.9))
    numbers = summarise(_episodes(xp), None, setup, Task(ends_on_success=True))
    shares = {name.removeprefix("eval/"): np.asarray(total).tolist() for name, (total, _) in numbers.items()}
    assert shares["fallen"] == [1.0, 1.0, 0.0]
    assert shares["success"] == [0.0, 1.0, 0.0]
    assert shares["failed_fallen"] == [1.0, 0.0, 0.0]
    assert shares["failed_stuck"] == [0.0, 0.0, 1.0]
    assert shares["failed_out_of_time"] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("xp", [np, jnp])
def test_who_ends_before_the_time_limit_without_success_has_ended_early(xp):
    """The limit is 5 steps: the first has them, the second has succeeded after 3, the third has ended after 1."""
    shares = endings(_episodes(xp), SETUP, Lake())
    assert {name: np.asarray(each).tolist() for name, each in shares.items()} == {
        "success": [False, True, False],
        "failed_early": [False, False, True],
        "failed_stuck": [False, False, False],
        "failed_out_of_time": [True, False, False],
    }


def test_who_only_steps_between_two_cells_is_stuck():
    place = (np.arange(40) % 2).astype(np.float32).reshape(40, 1, 1)
    alive, nothing = np.ones((40, 1), bool), np.zeros((40, 1), bool)
    shares = endings(Episode(place, place, nothing, place[..., 0], place, nothing, alive), SETUP, Task(ends_on_success=True))
    assert shares["failed_stuck"].tolist() == [True]


def test_an_agent_that_came_lately_is_not_stuck_and_one_that_stays_is():
    """k = 3: what counts are the last 15 steps. One moves from 0 to 2 in step 4 of 20, the other in step 8."""
    place = np.zeros((20, 2, 1), np.float32)
    place[4:, 0], place[8:, 1] = 2.0, 2.0
    alive, nothing = np.ones((20, 2), bool), np.zeros((20, 2), bool)
    episode = Episode(place, place, nothing, place[..., 0], place, nothing, alive)
    shares = endings(episode, SETUP, Task(ends_on_success=True))
    assert shares["failed_stuck"].tolist() == [True, False]
    assert shares["failed_out_of_time"].tolist() == [False, True]


@pytest.mark.parametrize("xp", [np, jnp])
def test_episodes_of_several_runs_are_summed_up_apart(xp):
    """The second run lives through the first one's episodes in another order."""
    one = _episodes(xp)
    other = jax.tree.map(lambda leaf: leaf[:, np.array([2, 0, 1])], one)
    both = jax.tree.map(lambda *leaves: xp.stack(leaves), one, other)
    halves = MLP((xp.full((2, 1, 1), 0.5, dtype=xp.float32),), (xp.zeros((2, 1), dtype=xp.float32),))
    numbers = summarise(both, halves, SETUP, Task(ends_on_success=True))
    expected = {name: EXPECTED[name] for name in numbers}
    order = np.array([2, 0, 1])
    for name, (total, weight) in numbers.items():
        np.testing.assert_array_equal(np.asarray(total), [expected[name][0], np.array(expected[name][0])[order]], name)
        np.testing.assert_array_equal(np.asarray(weight), [expected[name][1], np.array(expected[name][1])[order]], name)


@pytest.mark.parametrize("xp", [np, jnp])
def test_a_mean_is_a_total_and_a_weight_where_the_mask_holds(xp):
    mask, values = xp.asarray([[True, False], [True, True]]), xp.asarray([[1.0, 2.0], [4.0, 8.0]], dtype=xp.float32)
    total, weight = mean_where(mask, values)
    assert (float(total), float(weight)) == (13.0, 3.0)
    total, weight = mean_where(mask, values, axis=0)
    np.testing.assert_array_equal(total, [5.0, 8.0])
    np.testing.assert_array_equal(weight, [2.0, 1.0])
    total, weight = mean_where(mask, mask)  # of flags: how many hold
    assert (float(total), float(weight)) == (3.0, 3.0)
