"""Rounds in a corridor whose every number can be followed by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrac import config as configs
from hrac.agents import agent as agents
from hrac.config import Config
from hrac.envs.grid import Maze
from hrac.envs.layout import MOVES
from hrac.nets import MLP
from hrac.runs import Parts
from hrac.worlds import device
from hrac.worlds.device import DeviceWorld
from hrac.worlds.make import make_setup
from hrac.worlds.streams import Stream, run_keys

CORRIDOR = "#######\n#A...G#\n#######"
SMALL = {"k": 3, "manager.hidden": [8], "controller.hidden": [8], "adjacency.hidden": [8], "training.round_env_steps": 24}
READY = np.array([True])


def _world(time_limit=7, **changes):
    """A world in the corridor, and untrained actors for its one run."""
    cfg = configs.replace(Config(), SMALL | changes)
    env = Maze(CORRIDOR, time_limit=time_limit, random_action_prob=0.0)
    setup = make_setup(env, cfg)
    world = DeviceWorld(env, setup, cfg, Parts(len(cfg.seeds)))
    actors = jax.jit(lambda keys: jax.vmap(lambda key: agents.init(key, setup).actors)(keys))(run_keys(cfg.seeds, Stream.INIT))
    return world, actors


@pytest.mark.parametrize("form", ["absolute", "relative"])
@pytest.mark.parametrize("copies", [1, 2])
def test_clock_windows_and_episodes_in_a_round(form, copies):
    world, actors = _world(**{"manager.subgoals": form, "training.envs_per_run": copies})
    (collected,) = world.collect([actors], READY, 0)
    space = world.setup.space
    steps = jax.tree.map(lambda leaf: np.asarray(leaf)[0], collected.trajectory)
    for copy in range(copies):
        one = jax.tree.map(lambda leaf, c=copy: leaf[:, c], steps)
        time = clock = 0
        for t in range(24 // copies):
            assert one.clock[t] == clock
            done = one.terminated[t] or one.truncated[t]
            assert one.truncated[t] == (time == 6 and not one.terminated[t])
            assert one.last[t] == (done or clock == 2)
            if clock > 0:  # the subgoal asks for the same point as a step before
                before = space.target(one.subgoal[t - 1], one.obs[t - 1])
                np.testing.assert_allclose(space.target(one.subgoal[t], one.obs[t]), before, atol=1e-5)
            if t + 1 < 24 // copies:
                expected = [1.0, 1.0] if done else one.next_obs[t]
                np.testing.assert_array_equal(one.obs[t + 1], expected)
            time = 0 if done else time + 1
            clock = 0 if one.last[t] else clock + 1
        assert world._states[0].hierarchy.clock[0, copy] == clock


def test_the_next_round_goes_on_where_the_last_one_stopped():
    world, actors = _world()
    first, second = (jax.device_get(world.collect([actors], READY, index)[0]) for index in range(2))
    ended = first.trajectory.last[0, -1, 0]
    done = (first.trajectory.terminated | first.trajectory.truncated)[0, -1, 0]
    assert second.trajectory.clock[0, 0, 0] == (0 if ended else first.trajectory.clock[0, -1, 0] + 1)
    np.testing.assert_array_equal(second.trajectory.obs[0, 0, 0], [1.0, 1.0] if done else first.trajectory.next_obs[0, -1, 0])


def test_what_an_episode_earned_so_far_is_told_at_each_step():
    world, actors = _world()
    (collected,) = jax.device_get(world.collect([actors], READY, 0))
    new = jax.tree.map(lambda leaf: leaf[0, :, 0], collected.trajectory)
    total, expected = 0.0, []
    for reward, done in zip(new.reward, new.terminated | new.truncated, strict=True):
        total += reward
        expected.append(total)
        total = 0.0 if done else total
    np.testing.assert_allclose(collected.episode_return[0, :, 0], expected, atol=1e-6)


def test_a_restored_world_goes_on_as_if_nothing_had_happened():
    world, actors = _world(**{"seeds": [3, 5], "training.envs_per_run": 2})
    parts, ready = Parts(2).split(actors), np.array([True, True])
    world.collect(parts, ready, 0)
    kept = world.snapshot()
    whole = jax.device_get(world.collect(parts, ready, 1))
    again, _ = _world(**{"seeds": [3, 5], "training.envs_per_run": 2})
    again.restore(kept)
    jax.tree.map(np.testing.assert_array_equal, whole, jax.device_get(again.collect(parts, ready, 1)))


def test_each_round_has_chance_of_its_own():
    world, actors = _world()
    kept, rounds = world.snapshot(), []
    for index in (0, 0, 1):
        world.restore(kept)
        rounds.append(jax.device_get(world.collect([actors], READY, index))[0].trajectory)
    np.testing.assert_array_equal(rounds[0].action, rounds[1].action)
    assert not np.array_equal(rounds[0].action, rounds[2].action)


def test_a_random_walk_covers_whole_episodes_without_ends():
    world, _ = _world(time_limit=50)
    (walk,) = jax.device_get(world.random_walk(1000))
    assert walk.position.shape == walk.after.shape == (1, 50, 20, 2)
    np.testing.assert_array_equal(walk.position[:, 1:], walk.after[:, :-1])
    assert set(np.unique(walk.after[..., 1])) == {1.0, 2.0, 3.0, 4.0, 5.0}
    assert (np.abs(walk.after - walk.position).sum(axis=-1) <= 1).all()
    np.testing.assert_array_equal(walk.done[0], np.arange(50)[:, None].repeat(20, axis=1) == 49)


def test_a_random_walk_has_at_least_as_many_steps_as_asked_for():
    """Episodes of at most 7 steps: of 15 steps there are three, and so five steps each."""
    world, _ = _world()
    (walk,) = world.random_walk(15)
    assert walk.done.shape == (1, 5, 3)


def test_an_evaluation_episode_is_summed_up_to_its_end():
    world, actors = _world(time_limit=40)
    # A controller that always goes right: 4 steps of +0.1 to G.
    right = MLP((jnp.zeros((1, 4, 4)),), (jnp.array([[0.0, 0.0, 0.0, 50.0]]),))
    actors = actors._replace(controller=right)
    static = {"episodes": 1, "env": world.env.evaluation(), "setup": world.setup}
    keys = jax.random.key(0)[None]
    episode = device.play(keys, actors, **static)
    assert int(episode.alive.sum()) == 4
    assert episode.alive.shape == (1, 42, 1)  # 40 steps, rounded up to whole windows
    numbers = jax.tree.map(lambda leaf: float(leaf[0, 0]), device.evaluate(keys, actors, **static))
    np.testing.assert_allclose(numbers["eval/return"], [0.4, 1.0], rtol=1e-6)
    assert numbers["eval/success"] == (1.0, 1.0)
    assert numbers["eval/episode_length"] == (4.0, 1.0)
    assert numbers["eval/subgoal_within_k"][1] == 2.0  # proposed at steps 0 and 3
    assert numbers["eval/subgoal_miss"][1] == 2.0  # windows ended at steps 2 and 3
    manager = jax.tree.map(lambda leaf: leaf[0], actors.manager)
    targets = [np.asarray(world.setup.space.squash(manager(jnp.array([1.0, c])))) for c in (1.0, 4.0)]
    expected = np.linalg.norm(targets[0] - [1, 4]) + np.linalg.norm(targets[1] - [1, 5])
    np.testing.assert_allclose(numbers["eval/subgoal_miss"][0], expected, rtol=1e-5)


def test_the_action_that_is_drawn_says_nothing_about_the_one_that_chance_puts_in_its_place():
    """In a wide room where every action is replaced, with a controller that draws them all alike."""
    inside = "#" + 18 * "." + "#\n"
    room = "#" * 20 + "\n" + 8 * inside + "#........A........G#\n" + 9 * inside + "#" * 20
    env = Maze(room, time_limit=50, random_action_prob=1.0, random_start=True)
    cfg = configs.replace(Config(), SMALL | {"k": 5, "training.round_env_steps": 4000, "training.envs_per_run": 80})
    setup = make_setup(env, cfg)
    world = DeviceWorld(env, setup, cfg, Parts(1))
    actors = jax.tree.map(lambda leaf: leaf[None], jax.jit(agents.init, static_argnums=1)(jax.random.key(0), setup).actors)
    actors = actors._replace(controller=jax.tree.map(jnp.zeros_like, actors.controller))
    (collected,) = world.collect([actors], READY, 0)
    played = device.play(jax.random.key(1)[None], actors, episodes=80, env=env, setup=setup)
    for steps in (collected.trajectory, played):
        chosen, moves = np.asarray(steps.action).ravel(), np.asarray(steps.next_obs - steps.obs).reshape(-1, 2)
        made = (moves[:, None] == MOVES[None]).all(axis=-1)  # no row where a wall was in the way
        table = np.array([made[chosen == action].sum(axis=0) for action in range(4)])
        assert table.sum() > 3000
        np.testing.assert_allclose(table / table.sum(axis=1, keepdims=True), 0.25, atol=0.07)
