"""Push and Fall: boxes that an ant can push, chasms that it falls into, and goals with a height."""

import dataclasses
import pickle

import gymnasium
import jaxtyping
import numpy as np
import pytest

import hrac
from hrac import cli
from hrac.envs.ant.maze import AntMaze, UnknownDistancesError
from hrac.envs.mazes import MAZES, gym_name
from hrac.envs.paint import paint
from hrac.envs.palette import BLOCK, CHASM
from hrac.experiments import tasks
from hrac.folder.progress import Silent
from hrac.worlds.make import make_setup
from tiny import TWO_TD3

PUSH, FALL = (AntMaze(**MAZES[name].fields) for name in ("push", "fall"))
STILL = np.zeros((1, 8))
X, Y = 14, 15
"""The places of Push's box in `qvel`, after the ant's 14 numbers. In Fall the first is along y."""


def _one(maze):
    batch = maze.batch(1, threads=1)
    batch.reset(seeds=[0])
    return batch


def _pull(batch, number, force, steps):
    """Let a force act on one degree of freedom."""
    batch.physics.bind("qfrc_applied")[:, number] = force
    for _ in range(steps):
        batch.step(STILL)
    batch.physics.bind("qfrc_applied")[:] = 0.0


def test_pushs_box_is_that_of_the_source():
    """It stands in front of the start and slides freely in x and y."""
    model = PUSH.batch(1).model
    box = model.body("block_0")
    assert box.pos.tolist() == [0.0, 8.0, 2.0]
    assert box.mass.tolist() == [0.0002]
    assert model.geom("block_0").size.tolist() == [4.0, 4.0, 2.0]
    joints = [model.joint(f"block_0_{axis}") for axis in "xy"]
    assert [joint.axis.tolist() for joint in joints] == [[1, 0, 0], [0, 1, 0]]
    for joint in joints:
        assert not model.jnt_limited[joint.id]
        assert (joint.damping[0], joint.armature[0], joint.frictionloss[0]) == (0.0, 0.0, 0.0)
    np.testing.assert_allclose(model.geom_solimp, [[0.995, 0.995, 0.01, 0.5, 2.0]] * model.ngeom)


def test_falls_box_and_platform_are_those_of_the_source():
    """All but the chasm stands on a platform 4 high. The box is a hundredth narrower and can fall by 4."""
    model = FALL.batch(1).model
    assert model.body("block_0").pos.tolist() == [8.0, 8.0, 6.0]
    assert model.body("block_0").mass.tolist() == [0.001]
    np.testing.assert_allclose(model.geom("block_0").size, [3.96, 3.96, 2.0])
    assert [model.joint(f"block_0_{axis}").range.tolist() for axis in "yz"] == [[-8, 8], [-4, 0]]
    platform = [(0, 0), (8, 0), (0, 8), (8, 8), (0, 24), (8, 24)]
    assert {(wall.centre, wall.half_size) for wall in FALL.walls if wall.is_floor} == {
        ((x, y, 2.0), (4.0, 4.0, 2.0)) for x, y in platform
    }
    walls = [wall for wall in FALL.walls if not wall.is_floor]
    assert {wall.half_size for wall in walls} == {(4.0, 4.0, 4.0)}  # 4 above the platform, and the 4 of the platform
    assert not {(0.0, 16.0), (8.0, 16.0)} & {wall.centre[:2] for wall in FALL.walls}  # the chasm


def test_a_maze_without_boxes_keeps_its_contacts():
    assert AntMaze().batch(1).model.geom("wall_0").solimp.tolist() == [0.8, 0.8, 0.01, 0.5, 2.0]


def test_observations_are_the_ants_alone():
    batch = _one(PUSH)
    before = batch.observe()
    batch.slid[:] = 3.0
    np.testing.assert_array_equal(batch.observe(), before)
    assert before.shape == (1, 30)  # 15 + 14 + the time


def test_an_ant_pushes_the_box_aside_and_it_stays_there():
    """A force on the torso drives the ant against the box from the left."""
    batch = _one(PUSH)
    batch.qpos[:, :3] = -6.0, 8.0, 0.75
    batch.physics.bind("qfrc_applied")[:, 0] = 12.0
    for _ in range(150):
        batch.step(STILL)
    moved = batch.pushed(0)[0]
    assert moved[0] > 1.0
    assert abs(moved[1]) < 0.1
    assert batch.qpos[0, 0] < -4.0 + moved[0] + 0.5  # it is still on its left
    batch.reset()
    assert np.abs(batch.slid).max() == 0.0


def test_the_way_is_open_only_when_the_box_is_away():
    """Pulled towards the target, an ant is held by the box, and is not where the box was moved to the right."""
    ends = []
    for away in (0.0, 8.0):
        batch = _one(PUSH)
        batch.qpos[:, :2] = 0.0, 2.0
        batch.slid[:, 0] = away
        _pull(batch, 1, 8.0, 60)
        ends.append(batch.qpos[0, 1])
    assert ends[0] < 8.0 < 14.0 < ends[1]


def test_the_box_falls_into_the_chasm_and_fills_it():
    batch = _one(FALL)
    batch.physics.bind("qfrc_applied")[:, X] = 0.4
    while batch.slid[0, 0] < 7.9 and batch.steps[0] < 100:
        batch.step(STILL)
    batch.physics.bind("qfrc_applied")[:] = 0.0
    for _ in range(60):
        batch.step(STILL)
    np.testing.assert_allclose(batch.pushed(0), [[0.0, 8.0, -4.0]], atol=0.1)


@pytest.mark.parametrize(("bridged", "height"), [(False, (0.0, 1.0)), (True, (4.2, 5.0))])
def test_an_ant_over_the_chasm_falls_unless_the_box_is_in_it(bridged, height):
    batch = _one(FALL)
    batch.qpos[:, :3] = 8.0, 16.0, 4.8
    if bridged:
        batch.slid[:] = 8.0, -4.0
    for _ in range(30):
        batch.step(STILL)
    assert height[0] < batch.qpos[0, 2] < height[1]


def test_an_ant_starts_on_the_platform():
    batch = FALL.batch(20)
    heights = batch.reset()[:, 2]
    assert (heights > 4.64).all()
    assert (heights < 4.86).all()  # 4 + 0.75, within 0.1
    for _ in range(10):
        batch.step(np.zeros((20, 8)))
    assert (batch.qpos[:, 2] > 4.2).all()


def test_the_controller_sees_its_height_but_not_its_place():
    config = tasks.config_for("ant-fall")
    space = make_setup(tasks.make_env(config), config).space
    seen = space.controller_input(np.arange(1.0, 34.0, dtype=np.float32), np.zeros(3, np.float32))
    assert seen[:4].tolist() == [0.0, 0.0, 3.0, 4.0]


def test_falls_goals_have_a_height():
    batch = _one(FALL)
    assert (batch.position_low, batch.position_high) == ((-4.0, -4.0, 0.0), (12.0, 28.0, 5.0))
    assert batch.context.tolist() == [[0.0, 27.0, 4.5]]
    batch.place([2.0, 24.0, 10.5, 1.0] + [0.0] * 11, np.zeros(14))
    reward, ended = batch._outcome(np.array([0]))
    assert reward.tolist() == [-7.0]  # 2, 3 and 6 away
    assert ended.tolist() == [False]
    batch.place([2.0, 24.0, 6.5, 1.0] + [0.0] * 11, np.zeros(14))
    assert batch.info(np.array([0]))["success"].tolist() == [True]  # 2, 3 and 2 away: sqrt(17)


def test_gymnasium_takes_goals_with_a_height():
    env = gymnasium.make(gym_name("fall"), ends_on_success=True)
    obs, _ = env.reset(seed=0, options={"target": (1.0, 2.0, 3.0)})
    assert env.observation_space["achieved_goal"].shape == (3,)
    np.testing.assert_array_equal(obs["achieved_goal"], obs["observation"][:3])
    assert obs["desired_goal"].tolist() == [1.0, 2.0, 3.0]
    assert env.reset()[0]["desired_goal"].tolist() == [0.0, 27.0, 4.5]  # it was for one episode
    assert env.unwrapped.compute_reward([2.0, 24.0, 10.5], [0.0, 27.0, 4.5], {}) == -7.0
    assert env.unwrapped.compute_terminated([[0.0, 27.0, 0.0]] * 2, [0.0, 27.0, 4.5], {}).tolist() == [True, True]
    with pytest.raises(ValueError, match=r'options\["target"\] must be finite numbers of shape \(3,\)'):
        env.reset(options={"target": (1.0, 2.0)})
    many = gymnasium.make_vec(gym_name("fall"), num_envs=2, threads=1)
    seen, _ = many.reset(seed=0, options={"target": (1.0, 2.0, 3.0)})
    assert seen["desired_goal"].tolist() == [[1.0, 2.0, 3.0]] * 2


@pytest.mark.parametrize("maze", [PUSH, FALL], ids=["push", "fall"])
def test_a_snapshot_has_the_boxes_too(maze):
    batch = _one(maze)
    _pull(batch, X, 5.0, 3)
    copy = pickle.loads(pickle.dumps(batch))
    assert np.abs(copy.slid).max() > 0.01
    for _ in range(3):
        np.testing.assert_array_equal(batch.step(STILL).obs, copy.step(STILL).obs)
    np.testing.assert_array_equal(batch.slid, copy.slid)


def test_pictures_show_boxes_where_they_are_and_chasms():
    batch = _one(FALL)
    batch.slid[:] = 5.0, 0.0
    sketch = batch.sketch(0)
    assert sketch.blocks == ((8.0 - 3.96, 13.0 - 3.96, 7.92, 7.92),)
    assert [(chasm.x, chasm.y, chasm.width) for chasm in sketch.chasms] == [(-4.0, 12.0, 8.0), (4.0, 12.0, 8.0)]
    image = paint(sketch, 240, 400).picture()  # 24 x 40 metres
    for colour, area in ((CHASM, 128.0 - 7.92 * 4.96), (BLOCK, 7.92**2)):  # the box reaches 4.96 into the chasm
        assert (image == colour).all(axis=-1).sum() / 100 == pytest.approx(area, rel=0.04)


def test_the_episode_picture_follows_the_box(tmp_path):
    for name in ("push", "fall"):
        run = tmp_path / name
        hrac.train(f"ant-{name}", steps=480, out=run, display=Silent(), env__time_limit=20, **TWO_TD3)
        (evaluation,) = hrac.evaluate(run, episodes=2)
        assert {"eval/fallen", "eval/failed_fallen"} <= evaluation.means.keys()  # a policy file does not know who has fallen
        assert cli._main(["picture", str(run), "--out", str(tmp_path / f"{name}.png")]) == 0
        assert (tmp_path / f"{name}.png").stat().st_size > 5_000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"slides": "xw"}, "slides must be some of the axes, such as \"xy\", got 'xw'"),
        ({"slides": "xx"}, "slides must be some of the axes"),
        ({"slides": ""}, "slides must be some of the axes"),
        ({"slides": "yz"}, r"slides must be without 'z' where no chasm \('~'\) is in the layout, got 'yz'"),
        ({"target_height": True}, "target_height must be a positive number or None, got True"),
        ({"target_height": -1.0}, "target_height must be a positive number or None, got -1.0"),
        ({"target_height": float("nan")}, "target_height must be a positive number or None"),
    ],
)
def test_what_cannot_be_is_refused(changes, message, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(ValueError, match=message):
        AntMaze(**changes)


def test_there_is_no_oracle():
    for maze in (PUSH, FALL):
        with pytest.raises(UnknownDistancesError, match="true distances depend on where the blocks"):
            _ = maze.cell_distances
    assert cli._main(["train", "ant-push", "--method", "hrac-o", "--steps", "100000"]) == 2


def test_a_box_of_ones_own_and_the_tasks_fields():
    own = AntMaze(layout="######\n#A.M.#\n######", block_size=4.0, slides="x", target=(12.0, 0.0))
    assert [block.centre for block in own.blocks] == [(8.0, 0.0, 1.0)]
    assert own.batch(1).slid.shape == (1, 1)
    config = hrac.config.replace(tasks.config_for("ant-push"), {"env.sigma": 0.05})
    assert tasks.make_env(config) == dataclasses.replace(PUSH, sigma=0.05)
    assert tasks.config_for("ant-fall").manager.subgoal_range == (10.0, 10.0, 0.5)


WAYS = {
    "push": [(-7, 0), (-8, 4), (-8, 8), (4, 8), (0.5, 9), (0, 13), (0, 19)],  # around, against the box, and through
    "fall": [(4, 0), (8, 0), (8, 11.9), (8, 7), (8, 12), (8, 17), (8, 24), (1, 26)],  # push, let it fall, and over it
}


@pytest.mark.parametrize(("name", "near"), [("push", 1.5), ("fall", 1.0)])
def test_an_ant_that_has_learned_to_walk_can_do_it(name, near):
    """The controller of the package's ant is led along a way by hand. In 7 of 10 episodes of each it arrived in time."""
    policy = hrac.load(hrac.pretrained("ant-maze"))
    maze = AntMaze(**MAZES[name].fields).evaluation()
    batch, way, reached = maze.batch(10), np.array(WAYS[name], float), np.zeros(10, int)
    obs, arrived = batch.reset(seeds=np.arange(10)), np.zeros(10, bool)
    for _ in range(batch.time_limit):
        ahead = way[reached] - batch.qpos[:, :2]
        distance = np.linalg.norm(ahead, axis=1, keepdims=True)
        reached = np.minimum(reached + (distance[:, 0] < near), len(way) - 1)
        subgoal = ahead / np.maximum(distance, 1e-6) * np.minimum(distance, 3.0)
        seen = np.concatenate([obs, np.zeros((10, 2))], axis=1)
        seen[:, 2] -= maze.floor  # it has learned on the ground
        raw = policy.actors.controller(policy.setup.space.controller_input(np.float32(seen), np.float32(subgoal)))
        after = batch.step(policy.setup.actions.squash(raw))
        obs, arrived = after.obs, arrived | after.terminated
    assert arrived.sum() >= 3
