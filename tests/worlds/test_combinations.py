"""Any learner in any world, and the same behaviour wherever an environment lives.

What differs between the two kinds of worlds is how chance is drawn and where steps are computed. Given the same chance, both
must live through the same.
"""

import dataclasses

import jax
import numpy as np
import pytest

from hrac.agents import agent as agents
from hrac.config import replace
from hrac.envs.grid import KeyChest, Maze
from hrac.envs.hosted import Hosted
from hrac.envs.point import PointBatch, PointMaze
from hrac.experiments import tasks
from hrac.nets import MLP
from hrac.runs import Parts
from hrac.training import state
from hrac.training.state import Training
from hrac.worlds import device, host
from hrac.worlds.device import DeviceWorld
from hrac.worlds.host import HostWorld
from hrac.worlds.make import make_setup
from hrac.worlds.streams import Stream, run_keys

SMALL = {
    "k": 4,
    "seeds": (3, 5),
    "manager.hidden": (16, 16),
    "manager.buffer_windows": 200,
    "manager.start_fraction": 0.2,
    "manager.batch_size": 16,
    "controller.hidden": (16, 16),
    "adjacency.hidden": (16,),
    "adjacency.pretrain_env_steps": 400,
    "adjacency.pretrain_epochs": 3,
    "adjacency.update_epochs": 2,
    "training.round_env_steps": 40,
    "training.envs_per_run": 2,
    "training.eval_episodes": 3,
}
POINT = replace(tasks.config_for("point-maze"), SMALL | {"controller.batch_size": 16, "controller.buffer_steps": 500})
GRID = replace(tasks.config_for("maze"), SMALL)

ENDING = PointMaze(layout="####\n#A.#\n##.#\n####", time_limit=15, ends_on_success=True, success_radius=2.5)
HAIRPIN = "#####\n#A..#\n###.#\n#G..#\n#####"
CHEST = "#######\n#A..K.#\n#.##..#\n#...C.#\n#######"
GRIDS = {
    "maze": Maze(HAIRPIN, time_limit=15, random_action_prob=0.0),
    "key-chest": KeyChest(CHEST, random_start=False, time_limit=15, random_action_prob=0.0),
}


@pytest.mark.parametrize(
    ("config", "task", "learned"),
    [
        (POINT, ENDING.on_device(), {"controller/critic_loss", "manager/corrected", "manager/critic_loss"}),
        (GRID, Hosted(Maze(HAIRPIN)), {"controller/policy_loss", "controller/entropy", "manager/critic_loss"}),
    ],
    ids=["TD3 on the device", "A2C on the host"],
)
def test_a_learner_trains_where_it_has_not_been_before(config, task, learned, tmp_path):
    config = replace(config, {"seeds": (3,)})
    training, again = Training(config, task), Training(config, task)
    training.pretrain()
    first = training.evaluate()
    for _ in range(5):
        training.round()
    training.update_adjacency()
    state.save(training, tmp_path / "checkpoint", 0)
    state.load(again, tmp_path / "checkpoint")
    (before,) = jax.tree.map(np.array, training.actors())
    training.round()
    (after,) = training.actors()
    moved = jax.tree.map(lambda old, new: not np.array_equal(old, new), before, after)
    assert all(jax.tree.leaves((moved.manager, moved.controller)))
    assert not any(jax.tree.leaves(moved.embedding))
    rows = training.evaluate()
    names = {row.name for row in rows}
    assert learned | {"eval/return", "eval/success", "train/subgoal_miss", "manager/too_far"} <= names
    assert {row.name for row in first} < names
    again.round()
    assert again.evaluate() == rows


# The same chance.


def _lively(setup, config, sure=1.0):
    """Untrained actors of all runs. Subgoals are far apart; `sure` multiplies the controller's outputs."""
    actors = jax.jit(jax.vmap(lambda key: agents.init(key, setup).actors))(run_keys(config.seeds, Stream.INIT))
    return actors._replace(manager=_louder(actors.manager, 10.0), controller=_louder(actors.controller, sure))


def _louder(network, factor):
    *weights, last = network.weights
    *biases, shift = network.biases
    return MLP((*weights, factor * last), (*biases, factor * shift))


def _drawn(config, setup, index):
    """What a world on the device draws for a round, of all runs, as the world on the host has it: (time, runs, copies, ...)."""
    keys = run_keys(config.seeds, Stream.ACT)
    draw = jax.jit(jax.vmap(lambda key: device.draw_round(jax.random.fold_in(key, index), setup), out_axes=1))
    noise, action, _, keys_reset = draw(keys)
    return host.Draws(*jax.device_get((noise, action))), keys_reset


def _place(batch, rows, states):
    """Put copies where the device's are at the beginning of an episode."""
    batch.positions[rows], batch.targets[rows] = (
        np.asarray(leaf, np.float64).reshape(-1, 2)[rows] for leaf in (states.position, states.target)
    )
    return batch._observe(rows)


def _assert_alike(ours, theirs, places=1e-4):
    """The same in every field; numbers but for rounding."""
    for name in ours._fields:
        a, b = np.asarray(getattr(ours, name)), np.asarray(getattr(theirs, name))
        assert a.shape == b.shape, name
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=places, atol=places, err_msg=name)
        else:
            np.testing.assert_array_equal(a, b, err_msg=name)


def _worlds(config, on_device, on_host, monkeypatch, mapped):
    setup = make_setup(on_device, config)
    assert setup == make_setup(on_host, config)
    if mapped:
        monkeypatch.setattr(jax, "default_backend", lambda: "an accelerator")
    parts = Parts(len(config.seeds))
    assert len(parts.slices) == (1 if mapped else 2)
    return setup, parts, DeviceWorld(on_device, setup, config, parts), HostWorld(on_host, setup, config, parts)


def _rounds_alike(parts, ours, theirs, actors, index):
    """Both worlds live through a round; what the one on the device saw comes back (runs, time, copies, ...)."""
    ready = np.array([False, True])  # one proposes uniformly, the other by its manager
    both = [jax.device_get(world.collect(parts.split(actors), ready, index)) for world in (ours, theirs)]
    for device_part, host_part in zip(*both, strict=True):
        _assert_alike(device_part.trajectory, host_part.trajectory)
        _assert_alike(device_part.visited, host_part.visited)
        np.testing.assert_allclose(device_part.episode_return, host_part.episode_return, rtol=1e-4, atol=1e-4)
    joined = jax.tree.map(lambda *leaves: np.concatenate(leaves), *both[0])
    return joined.trajectory


@pytest.mark.parametrize("mapped", [False, True], ids=["runs apart", "runs mapped"])
def test_a_point_on_the_device_and_one_on_the_host_live_through_the_same(mapped, monkeypatch):
    config = replace(POINT, {"training.round_env_steps": 80})
    setup, parts, ours, theirs = _worlds(config, ENDING.on_device(), ENDING, monkeypatch, mapped)
    actors, everyone = _lively(setup, config, sure=5.0), np.arange(4)
    states = jax.tree.map(lambda *leaves: np.concatenate(leaves), *[jax.device_get(state.env) for state in ours._states])
    theirs.obs = host.observed(theirs.env, _place(theirs.env, everyone, states)).reshape(2, 2, -1)
    ended = []
    for index in range(3):
        draws, keys_reset = _drawn(config, setup, index)
        fresh = jax.device_get(jax.jit(jax.vmap(jax.vmap(jax.vmap(lambda key: ENDING.on_device().reset(key)[0]))))(keys_reset))
        monkeypatch.setattr(theirs, "_draw_round", lambda *_, draws=draws: draws)
        made = [0]

        def step(actions, ids=None, made=made):
            made[0] += 1
            return PointBatch.step(theirs.env, actions, ids)

        def reset(ids, made=made, fresh=fresh):
            PointBatch.reset(theirs.env, ids)
            return _place(theirs.env, ids, jax.tree.map(lambda leaf: leaf[made[0] - 1], fresh))

        monkeypatch.setattr(theirs.env, "step", step)
        monkeypatch.setattr(theirs.env, "reset", reset)
        seen = _rounds_alike(parts, ours, theirs, actors, index)
        ended += [seen.terminated.sum(), seen.truncated.sum()]
    assert sum(ended[::2]) > 0
    assert sum(ended[1::2]) > 0


@pytest.mark.parametrize(
    ("name", "subgoals", "mapped"), [("maze", "absolute", False), ("maze", "relative", True), ("key-chest", "absolute", False)]
)
def test_a_grid_world_on_the_device_and_one_on_the_host_live_through_the_same(name, subgoals, mapped, monkeypatch):
    """With 20 candidates a subgoal, of which those judged adjacent count."""
    config = replace(GRID, {"training.round_env_steps": 80, "manager.subgoals": subgoals})
    grid = GRIDS[name]
    setup, parts, ours, theirs = _worlds(config, grid, Hosted(grid), monkeypatch, mapped)
    actors, ends = _lively(setup, config), 0
    for index in range(2):
        draws, _ = _drawn(config, setup, index)
        monkeypatch.setattr(theirs, "_draw_round", lambda *_, draws=draws: draws)
        seen = _rounds_alike(parts, ours, theirs, actors, index)
        ends += (seen.terminated | seen.truncated).sum()
        assert len(np.unique(seen.obs[..., :2].reshape(-1, 2), axis=0)) > 3
    assert ends > 8


class _Told:
    """A task whose copies begin where they are told to."""

    def __init__(self, definition, states):
        self._definition, self._states, self.ends_on_success = definition, states, definition.ends_on_success
        self.in_wall = definition.in_wall

    def batch(self, num_envs, threads=None):
        batch = self._definition.batch(num_envs, threads)
        original = batch.reset
        batch.reset = lambda seeds: (original(seeds=seeds), _place(batch, np.arange(num_envs), self._states))[1]
        return batch

    def evaluation(self):
        return self


def test_an_evaluation_on_the_device_and_one_on_the_host_come_to_the_same():
    """In a room whose walls are too far to be touched: beside them rounding decides what happens."""
    room = "#######\n#.....#\n#.....#\n#..A..#\n#.....#\n#.....#\n#######"
    longer = dataclasses.replace(ENDING, layout=room, success_radius=4.0, time_limit=24)
    setup = make_setup(longer, POINT)
    actors, seeds = _lively(setup, POINT, sure=6.0), np.arange(24)
    env, keys = longer.on_device().evaluation(), run_keys(POINT.seeds, Stream.EVAL)
    starts = jax.vmap(lambda key: jax.vmap(lambda k: env.reset(jax.random.split(k)[0])[0])(jax.random.split(key, 12)))(keys)
    told = _Told(longer.evaluation(), jax.device_get(starts))
    ours = jax.device_get(device.play(keys, actors, episodes=12, env=env, setup=setup))
    theirs = host.play(told, jax.device_get(actors), seeds, setup, None)
    length = theirs.alive.shape[1]  # the host stops when all episodes have ended
    assert not ours.alive[:, length:].any()
    assert len(set(ours.alive.sum(axis=1).ravel().tolist())) > 2  # of different lengths
    shown = lambda episode: type(episode)(*(np.asarray(leaf)[:, :length][ours.alive[:, :length]] for leaf in episode))  # noqa: E731
    _assert_alike(shown(ours), shown(theirs))
    numbers = device.evaluate(keys, actors, episodes=12, env=env, setup=setup)
    others = host.evaluate(told, jax.device_get(actors), seeds, setup, None)
    assert numbers.keys() == others.keys()
    for name, (total, weight) in numbers.items():
        np.testing.assert_allclose(total, others[name][0], rtol=1e-3, atol=1e-4, err_msg=name)
        np.testing.assert_array_equal(weight, others[name][1], err_msg=name)


@pytest.mark.parametrize("name", GRIDS)
def test_an_evaluation_in_a_grid_world_comes_to_the_same_on_the_host(name):
    """With a controller so sure of itself that drawing its actions changes nothing."""
    grid = GRIDS[name]
    setup = make_setup(grid, GRID)
    actors = _lively(setup, GRID, sure=1e4)
    ours = DeviceWorld(grid, setup, GRID, Parts(2)).evaluate(Parts(2).split(actors), 2, 0)
    theirs = host.evaluate(Hosted(grid).evaluation(), jax.device_get(actors), np.arange(4), setup, None)
    unknown = {"eval/subgoal_within_k", "eval/subgoal_in_wall"}  # distances and walls are known on the device only
    assert ours.keys() - theirs.keys() == unknown
    for measured, numbers in theirs.items():
        np.testing.assert_allclose(ours[measured], numbers, rtol=1e-4, atol=1e-4, err_msg=measured)
