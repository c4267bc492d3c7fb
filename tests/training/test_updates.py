"""How many updates belong to a round, which runs make them, and with what chance; and what is measured of it."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrac.agents import agent as agents
from hrac.agents import controller, manager
from hrac.agents.decide import Setup
from hrac.agents.subgoals import SubgoalSpace
from hrac.agents.windows import Trajectory
from hrac.config import Config, replace
from hrac.envs.grid import Maze
from hrac.envs.point import PointMaze
from hrac.experiments import tasks
from hrac.nets import MLP
from hrac.spaces import Discrete
from hrac.training import learn, replay
from hrac.training.state import Training
from hrac.worlds.base import Collected
from hrac.worlds.make import make_setup

SMALL = {
    "k": 4,
    "seeds": (0, 1),
    "manager.hidden": (8,),
    "manager.buffer_windows": 200,
    "manager.start_fraction": 0.1,
    "manager.batch_size": 8,
    "controller.hidden": (8,),
    "adjacency.source": "none",
    "training.round_env_steps": 40,
    "training.envs_per_run": 2,
}
CORNER = PointMaze(layout="####\n#A.#\n##.#\n####", time_limit=30)
A2C = replace(tasks.config_for("maze"), SMALL)
TD3 = replace(tasks.config_for("point-maze"), SMALL | {"controller.batch_size": 8, "controller.buffer_steps": 500})
HALF = replace(TD3, {"controller.updates_per_env_step": 0.5})
THRICE = replace(TD3, {"manager.updates_per_window": 3})


def _task(config):
    return CORNER if config is not A2C else Maze("#####\n#A..#\n###.#\n#G..#\n#####", time_limit=30)


def _steps(opt_state):
    """How many steps an optimiser has made, in each run."""
    (count,) = (leaf for leaf in jax.tree.leaves(opt_state) if leaf.dtype == jnp.int32)
    return np.asarray(count).ravel().tolist()


def _counts(training):
    """Steps of the optimisers of each level, in all runs: manager's actor and critics, then the controller's."""
    counts = []
    for part in training.runs:
        low = part.agent.controller
        own = [low.opt_state] if hasattr(low, "opt_state") else [low.actor_opt, low.critic_opt]
        counts.append([_steps(state) for state in (part.agent.manager.actor_opt, part.agent.manager.critic_opt, *own)])
    return [list(itertools.chain(*each)) for each in zip(*counts, strict=True)]


@pytest.mark.parametrize(
    ("config", "low", "actor", "critics"),
    [(A2C, 1, 5, 10), (TD3, 40, 10, 10), (HALF, 20, 5, 5), (THRICE, 40, 30, 30)],
    ids=["A2C", "TD3", "TD3 half as often", "TD3, the manager thrice as often"],
)
def test_a_round_has_its_updates_and_only_runs_that_are_ready_make_them(config, low, actor, critics):
    """Rounds of 40 steps, k = 4. Windows are stored from the first round on; the second run's are taken away.

    Without adjacency, the manager's actor beside A2C has something to learn at every other update only.
    """
    training = Training(config, _task(config))
    training.round()
    training.round()
    before = np.array(_counts(training))
    assert not before.any()  # 20 windows are needed to begin, and a round has ten
    second = training.runs[1]
    none = jnp.zeros_like(second.replay.window_count)
    training.runs[1] = second._replace(replay=second.replay._replace(window_count=none))
    np.testing.assert_array_equal(training.ready(), [True, False])
    for rounds in (1, 2):
        training.round()
        manager_actor, manager_critics, *own = _counts(training)
        assert (manager_actor, manager_critics) == ([actor * rounds, 0], [critics * rounds, 0])
        assert own == [[low * rounds, 0]] * len(own)


def _run(config):
    """A new run, and what does not change in it."""
    setup = make_setup(_task(config), config)
    return jax.jit(learn.init, static_argnums=1)(jax.random.key(0), setup), setup


def test_everything_random_in_a_rounds_learning_has_a_key_of_its_own(monkeypatch):
    keys = []

    def spy(module, name, place, result):
        original = getattr(module, name)

        def spying(*arguments):
            keys.append(jax.random.key_data(arguments[place]).tolist())
            return original(*arguments) if result is None else result(*arguments)

        monkeypatch.setattr(module, name, spying)

    spy(replay, "sample_places", 0, None)
    spy(replay, "sample_windows", 0, None)
    spy(agents, "learn", 0, None)
    spy(controller, "learn", 0, lambda key, state, *_: (state, {}))
    spy(manager, "learn", 0, lambda key, state, *_: (state, {}))
    run, setup = _run(TD3)
    learn.learn(jax.random.key(1), run, setup)
    assert len(keys) == 5  # minibatches of steps and of windows, the updates, and those of each level
    keys.append(jax.random.key_data(jax.random.key(1)).tolist())
    assert all(first != second for first, second in itertools.combinations(keys, 2))


def test_the_manager_learns_with_the_controller_as_it_is_after_the_round(monkeypatch):
    seen = []
    monkeypatch.setattr(
        controller, "learn", lambda key, state, *_: (jax.tree.map(lambda leaf: leaf + 1, state), {"a": jnp.ones(())})
    )
    monkeypatch.setattr(
        manager,
        "learn",
        lambda key, state, low, embedding, *_: (seen.append((low, embedding)), (state, {"b": jnp.ones(())}))[1],
    )
    run, setup = _run(TD3)
    after, metrics = learn.learn(jax.random.key(3), run, setup)
    ((low, embedding),) = seen
    np.testing.assert_allclose(low.biases[0], run.agent.controller.actor.biases[0] + 1)
    np.testing.assert_allclose(after.controller.actor.biases[0], low.biases[0])
    assert embedding is None
    assert metrics.keys() == {"a", "b"}


@pytest.mark.parametrize(
    ("config", "steps", "windows"),
    [(A2C, ((4 + 20) * 2,), (10, 8)), (TD3, (40, 8), (10, 8)), (HALF, (20, 8), (5, 8))],  # of two copies, 20 times in a round
    ids=["A2C", "TD3", "TD3 half as often"],
)
def test_the_steps_and_windows_that_a_round_learns_from(config, steps, windows, monkeypatch):
    """A2C: all of the round, after the k steps before it. TD3: as many minibatches as updates."""
    seen = []
    monkeypatch.setattr(agents, "learn", lambda key, agent, *drawn: (seen.extend(drawn), (agent, {}))[1])
    run, setup = _run(config)
    learn.learn(jax.random.key(1), run, setup)
    assert seen[0].action.shape[: len(steps)] == steps
    assert seen[1].whole.reward.shape == windows


@pytest.mark.parametrize("config", [A2C, TD3], ids=["A2C", "TD3"])
def test_each_round_draws_chance_of_its_own(config):
    """The same experience learned from in the same round gives the same networks, in another round others."""
    training = Training(config, _task(config))
    for _ in range(2):
        training.round()
    collected = training.world.collect(training.actors(), np.array([True, True]), 9)[0]
    copied = jax.tree.map(np.array, training.runs[0])
    static = {"setup": training.setup, "known": None, "ends_on_success": False, "learning": True}

    def learned(index):
        runs = jax.tree.map(jnp.array, copied)
        ready = jnp.array([True])
        after, _ = learn.learn_runs(training._learn_keys[0], runs, jnp.asarray(index), ready, collected, **static)
        return np.asarray(after.agent.manager.actor.weights[0])

    np.testing.assert_array_equal(learned(5), learned(5))
    assert not np.array_equal(learned(5), learned(6))


# What is measured of a round's behaviour, on a line, with k = 3.

LINE = Setup(SubgoalSpace(False, (0.0,), (9.0,)), Discrete(2), 1, replace(Config(), {"k": 3, "training.round_env_steps": 6}))


class _Rungs:
    """A line on which a step leads from one number to the next."""

    cells, cell_distances = np.zeros((0, 1)), np.zeros((0, 0), np.int64)  # not asked for

    def steps_between(self, position, target):
        return jnp.round(jnp.abs(target - position)[0]).astype(jnp.int32)


def _measured(clock, last, known=True, ends_on_success=True):
    """Of six steps from 0, 1, ... to 6 by subgoals 2, 2, 2, 5, 5 and 9. The fourth terminates, the fifth is truncated.

    An embedding of six tenths judges what is nearer than 1.1 / 0.6 = 1.8 to be adjacent.
    """
    column = lambda values: jnp.asarray(values, jnp.float32)[:, None]  # noqa: E731
    flags = lambda *steps: jnp.array([[step in steps] for step in range(6)])  # noqa: E731
    position = column(range(6))[..., None]
    trajectory = Trajectory(
        obs=position,
        subgoal=column([2, 2, 2, 5, 5, 9])[..., None],
        action=jnp.zeros((6, 1), jnp.int32),
        reward=column([0] * 6),
        next_obs=position + 1,
        terminated=flags(3),
        truncated=flags(4),
        clock=jnp.array(clock)[:, None],
        last=flags(*last),
    )
    agent = agents.init(jax.random.key(0), LINE)
    agent = agent._replace(adjacency=agent.adjacency._replace(embedding=MLP((jnp.array([[0.6]]),), (jnp.zeros(1),))))
    collected = Collected(trajectory, column([1, 3, 6, 10, 4, 5]), None)
    means = learn.acting_metrics(collected, agent, LINE, _Rungs() if known else None, ends_on_success)
    return {name.removeprefix("train/"): (float(total), float(weight)) for name, (total, weight) in means.items()}


ROUND = {
    "return": (10.0 + 4.0, 2.0),
    "success": (1.0, 2.0),
    "intrinsic_reward": (2.0, 6.0),  # the second step comes to 2, the fifth to 5
    "subgoal_judged_adjacent": (1.0, 4.0),  # 2, 2, 1 and 4 away where they were proposed
    "subgoal_within_k": (3.0, 4.0),
    "subgoal_miss": (1.0 + 1.0 + 0.0, 3.0),  # windows end at 3, 4 and 5, asked for 2, 5 and 5
}


def test_the_numbers_of_a_round_by_hand():
    """Steps 0 1 2 | 3 | 4 | 5 goes on."""
    clock, last = [0, 1, 2, 0, 0, 0], (2, 3, 4)
    assert _measured(clock, last) == ROUND
    fewer = {name: both for name, both in ROUND.items() if name not in ("success", "subgoal_within_k")}
    assert _measured(clock, last, known=False, ends_on_success=False) == fewer


def test_subgoals_are_measured_for_twice_as_many_windows_as_a_round_usually_has():
    """Six windows of one step where a round of six steps has two of three: the first four are measured."""
    numbers = _measured([0] * 6, range(6))
    assert numbers["subgoal_judged_adjacent"] == (2.0, 4.0)  # 2, 1, 0 and 2 away
    assert numbers["subgoal_within_k"] == (4.0, 4.0)
    assert numbers["subgoal_miss"] == (1.0 + 0.0 + 1.0 + 1.0, 4.0)
