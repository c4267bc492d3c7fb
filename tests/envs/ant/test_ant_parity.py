"""The ants move as those of the published environments: their trajectories, made on MuJoCo 4.0.0, are in tests/golden."""

import mujoco
import numpy as np
import pytest

from hrac.envs.ant import body
from hrac.envs.ant.gather import AntGather
from hrac.envs.ant.maze import SPARSE, AntMaze

MAZES = {"ant_maze": AntMaze(), "ant_maze_sparse": SPARSE}

# On the MuJoCo that made the data every step is the same (seen: 0.0, and 1e-16 in the readings of Ant Gather). Another MuJoCo
# may order its arithmetic differently, and an ant in contact with the ground is chaotic: a difference in the last digit grows
# by orders of magnitude within tens of steps. There only the beginning says anything, and only roughly.
SAME_PHYSICS = mujoco.__version__.startswith("4.0.")
COMPARED = slice(None) if SAME_PHYSICS else slice(20)
TOLERANCE = 1e-10 if SAME_PHYSICS else 1e-3


def assert_close(actual, expected):
    np.testing.assert_allclose(np.asarray(actual)[COMPARED], expected[COMPARED], rtol=0, atol=TOLERANCE)


def play(batch, actions):
    """Observations and rewards of one ant's steps."""
    steps = [batch.step(action[None]) for action in actions]
    return np.array([step.obs[0] for step in steps]), np.array([step.reward[0] for step in steps])


def placed(batch, data, prefix):
    """The first observation of an episode from the recorded state with the recorded target."""
    batch.reset()
    batch.place(data[f"{prefix}_qpos"], data[f"{prefix}_qvel"])
    batch.targets[:] = data[f"{prefix}_target"]
    return batch.observe()[0]


@pytest.fixture(params=MAZES)
def maze(request, golden):
    return MAZES[request.param].batch(1), golden(request.param)


@pytest.fixture
def gather(golden):
    batch, data = AntGather().batch(1), golden("ant_gather")
    batch.reset()
    batch.put_objects(0, data["objects"])
    batch.place(data["qpos"], data["qvel"])
    return batch, data


@pytest.mark.parametrize("prefix", ["train", "eval"])
def test_maze_steps_are_those_of_the_published_environment(maze, prefix):
    batch, data = maze
    first = placed(batch, data, prefix)
    obs, rewards = play(batch, data[f"{prefix}_actions"])
    assert len(obs) == 120
    np.testing.assert_allclose(first, data[f"{prefix}_obs"][0], rtol=0, atol=TOLERANCE)
    assert_close(obs, data[f"{prefix}_obs"][1:])
    assert_close(rewards, data[f"{prefix}_rewards"])


def test_an_ant_put_beside_a_wall_moves_as_in_the_published_environment(maze):
    batch, data = maze
    placed(batch, data, "eval")
    play(batch, data["eval_actions"])
    batch.place(data["wall_qpos"], data["wall_qvel"])  # the episode and its time go on
    obs, _ = play(batch, data["wall_actions"])
    assert len(obs) == 60
    assert_close(obs, data["wall_obs"])


def test_the_targets_are_the_published_ones(golden):
    for name, definition in MAZES.items():
        low, high = np.broadcast_to(definition.rule, (2, 2))
        assert (low <= golden(name)["train_target"]).all()
        assert (golden(name)["train_target"] <= high).all()
        np.testing.assert_array_equal(golden(name)["eval_target"], definition.evaluation().rule)
    assert MAZES["ant_maze"].rule == ((-4.0, -4.0), (20.0, 20.0))


def test_the_compiled_model_is_the_published_one(maze):
    batch, data = maze
    fields = [name for name in data.files if hasattr(batch.model, name)]
    assert {"body_mass", "geom_pos", "geom_size", "geom_friction", "geom_solref", "geom_solimp", "jnt_range"} <= set(fields)
    for name in fields:
        np.testing.assert_array_equal(getattr(batch.model, name), data[name], err_msg=name)
    np.testing.assert_array_equal(batch.model.actuator_ctrlrange, data["ctrlrange"])
    assert batch.model.opt.timestep == data["timestep"]
    assert batch.model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4


def test_start_positions_are_the_published_ones(maze):
    batch, data = maze
    np.testing.assert_array_equal(batch.definition.starts, data["start_positions"])


def test_a_step_is_five_steps_of_the_physics(maze):
    batch, _ = maze
    batch.reset()
    batch.step(np.zeros((1, 8)))
    assert body.FRAME_SKIP == 5
    assert batch.data(0).time == pytest.approx(5 * 0.02)


def test_gather_steps_are_those_of_the_published_environment(gather):
    batch, data = gather
    first = batch.observe()[0]
    obs, rewards = play(batch, data["actions"])
    assert len(obs) == 120
    np.testing.assert_allclose(first, data["obs"][0], rtol=0, atol=TOLERANCE)
    assert_close(obs, data["obs"][1:])
    assert_close(rewards, data["rewards"])


def test_an_ant_put_next_to_objects_collects_them_as_in_the_published_environment(gather):
    batch, data = gather
    play(batch, data["actions"])
    assert len(data["teleports"]) == 10
    for number, (x, y, reward, collected) in enumerate(data["teleports"]):
        qpos, before = batch.qpos[0].copy(), batch.collected.sum()
        qpos[:2] = x, y
        batch.place(qpos, batch.qvel[0].copy())
        step = batch.step(np.zeros((1, 8)))
        assert step.reward[0] == reward
        assert batch.collected.sum() - before == collected
        if SAME_PHYSICS:  # elsewhere 120 steps have made another pose of it
            np.testing.assert_allclose(step.obs[0], data[f"teleport_obs_{number}"], rtol=0, atol=TOLERANCE)
