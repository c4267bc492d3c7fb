"""Rounds in a corridor whose every number can be followed by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrac import config as configs
from hrac.agents import hierarchy
from hrac.agents.subgoals import SubgoalSpace
from hrac.config import Config
from hrac.envs.grid import Maze
from hrac.training import evaluate, rollout, rounds
from hrac.training.memory import TrajectoryMemory
from hrac.training.spaces import subgoal_space

CORRIDOR = "#######\n#A...G#\n#######"
SMALL = {"k": 3, "manager.hidden": [8], "controller.hidden": [8], "adjacency.hidden": [8], "training.round_env_steps": 24}


def _setup(time_limit=7, **changes):
    cfg = configs.replace(Config(), SMALL | changes)
    env = Maze(CORRIDOR, time_limit=time_limit, random_action_prob=0.0)
    space = subgoal_space(env, cfg)
    return env, space, cfg, rounds.init(jax.random.key(0), env, space, cfg)


@pytest.mark.parametrize("form", ["absolute", "relative"])
@pytest.mark.parametrize("copies", [1, 2])
def test_clock_windows_and_episodes_in_a_round(form, copies):
    env, space, cfg, run = _setup(**{"manager.subgoals": form, "training.envs_per_run": copies})
    live, collected = rollout.collect(jax.random.key(1), run.agent, run.live, jnp.asarray(True), env, space, cfg)
    steps = jax.tree.map(lambda leaf: np.asarray(leaf)[cfg.k :], collected.trajectory)
    for copy in range(copies):
        one = jax.tree.map(lambda leaf, c=copy: leaf[:, c], steps)
        time = clock = 0
        for t in range(24 // copies):
            assert one.clock[t] == clock
            done = one.terminated[t] or one.truncated[t]
            assert one.truncated[t] == (time == 6 and not one.terminated[t])
            assert one.last[t] == (done or clock == 2)
            if clock > 0:  # the subgoal asks for the same point as a step before
                before = space.target(jnp.asarray(one.subgoal[t - 1]), jnp.asarray(one.obs[t - 1]))
                np.testing.assert_allclose(
                    space.target(jnp.asarray(one.subgoal[t]), jnp.asarray(one.obs[t])), before, atol=1e-5
                )
            if t + 1 < 24 // copies:
                expected = [1.0, 1.0] if done else one.next_obs[t]
                np.testing.assert_array_equal(one.obs[t + 1], expected)
            time = 0 if done else time + 1
            clock = 0 if one.last[t] else clock + 1
        assert live.intent.clock[copy] == clock


def test_the_next_round_goes_on_where_the_last_one_stopped():
    env, space, cfg, run = _setup()
    live, first = rollout.collect(jax.random.key(1), run.agent, run.live, jnp.asarray(True), env, space, cfg)
    _, second = rollout.collect(jax.random.key(2), run.agent, live, jnp.asarray(True), env, space, cfg)
    tail = jax.tree.map(lambda leaf: leaf[-cfg.k :], first.trajectory)
    start = jax.tree.map(lambda leaf: leaf[: cfg.k], second.trajectory)
    jax.tree.map(np.testing.assert_array_equal, tail, start)


def test_before_learning_starts_subgoals_are_uniform_and_afterwards_the_managers():
    _, space, cfg, run = _setup(**{"manager.noise_sigma": 0.0})
    obs = jnp.array([1.0, 3.0])
    keys = jax.random.split(jax.random.key(0), 400)
    early, late = (
        np.asarray(jax.vmap(lambda k, r=ready: hierarchy.propose(k, run.agent, obs, jnp.asarray(r), space, cfg))(keys))
        for ready in (False, True)
    )
    np.testing.assert_allclose(early.mean(axis=0), [1.0, 3.0], atol=0.2)
    assert early.std(axis=0).min() > 0.5
    np.testing.assert_allclose(late, np.broadcast_to(hierarchy.propose_greedy(run.agent, obs, space), late.shape), rtol=1e-5)


def test_candidates_are_adjacent_where_any_is_and_plain_where_none_is():
    _, space, cfg, run = _setup(**{"manager.noise_sigma": 2.0})
    # An embedding that is the position itself, so that adjacent means nearer than 1.1.
    identity = run.agent.adjacency.embedding
    identity = type(identity)((jnp.eye(2), jnp.eye(2)), (jnp.zeros(2), jnp.zeros(2)))
    agent = run.agent._replace(adjacency=run.agent.adjacency._replace(embedding=identity))
    keys = jax.random.split(jax.random.key(0), 300)

    def proposed(obs):
        return np.asarray(jax.vmap(lambda k: hierarchy.propose(k, agent, obs, jnp.asarray(True), space, cfg))(keys))

    plain = np.asarray(hierarchy.propose_greedy(agent, jnp.array([1.0, 3.0]), space))
    near = proposed(jnp.array([1.0, 3.0]))
    adjacent = np.linalg.norm(near - [1.0, 3.0], axis=1) < 1.1
    assert adjacent.mean() > 0.95
    assert (np.abs(near[~adjacent] - plain) < 1e-5).all()
    far = proposed(jnp.array([1.0, 100.0]))  # no candidate can be adjacent to a place off the map
    plain_far = hierarchy.propose_greedy(agent, jnp.array([1.0, 100.0]), space)
    np.testing.assert_allclose(far, np.broadcast_to(plain_far, far.shape), rtol=1e-5)


def test_wandering_covers_whole_episodes_without_ends():
    env = Maze(CORRIDOR, time_limit=50).exploring()
    positions = np.asarray(rollout.wander(jax.random.key(0), env, 20, SubgoalSpace(False, (0.0, 0.0), (2.0, 6.0))))
    assert positions.shape == (20, 51, 2)
    assert set(np.unique(positions[..., 1])) == {1.0, 2.0, 3.0, 4.0, 5.0}
    assert (np.abs(np.diff(positions, axis=1)).sum(axis=-1) <= 1).all()


def test_an_evaluation_episode_is_summed_up_to_its_end():
    env, space, cfg, run = _setup(time_limit=40)
    # A controller that always goes right: 4 steps of +0.1 to G.
    actor = run.agent.controller.actor
    right = type(actor)((jnp.zeros((4, 4)),), (jnp.array([0.0, 0.0, 0.0, 50.0]),))
    agent = run.agent._replace(controller=run.agent.controller._replace(actor=right))
    episode = evaluate.play(jax.random.key(0), agent, env, space, cfg)
    assert int(episode.alive.sum()) == 4
    numbers = evaluate.summarise(episode, agent, env, space, cfg)
    np.testing.assert_allclose(numbers["eval/return"][0], 0.4, rtol=1e-6)
    assert float(numbers["eval/success"][0]) == 1.0
    assert float(numbers["eval/subgoal_within_k"][1]) == 2.0  # proposed at steps 0 and 3
    assert float(numbers["eval/subgoal_miss"][1]) == 2.0  # windows ended at steps 2 and 3
    targets = [np.asarray(hierarchy.propose_greedy(agent, jnp.array([1.0, c]), space)) for c in (1.0, 4.0)]
    expected = np.linalg.norm(targets[0] - [1, 4]) + np.linalg.norm(targets[1] - [1, 5])
    np.testing.assert_allclose(numbers["eval/subgoal_miss"][0], expected, rtol=1e-5)


def test_the_trajectory_memory_keeps_episodes_apart_and_their_last_states():
    def visited(positions, after, done):
        column = lambda x: np.asarray(x, np.float32)[None, :, None, None]  # noqa: E731  (runs, time, copies, goal)
        return rounds.Visited(column(positions), column(after), np.asarray(done)[None, :, None])

    memory = TrajectoryMemory()
    memory.append(visited([0, 1, 9], [1, 2, 8], [False, True, False]))
    memory.append(visited([8, 7], [7, 6], [False, False]))
    positions, episodes = memory.sequences(0)
    np.testing.assert_array_equal(positions[:, 0], [0, 1, 2, 9, 8, 7, 6])
    np.testing.assert_array_equal(episodes, [0, 0, 0, 1, 1, 1, 1])
    memory.clear()
    assert memory.to_arrays() == {}
