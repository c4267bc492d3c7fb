"""What each method does differently, at work."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hrac
from hrac.adjacency import learn as adjacency_learn
from hrac.agents import a2c, decide, manager
from hrac.agents.decide import SubgoalState
from hrac.agents.subgoals import SubgoalSpace
from hrac.agents.td3 import Transition
from hrac.agents.windows import Trajectory, controller_steps, controller_transitions, empty_steps, intrinsic_rewards
from hrac.config import ConfigError, differences, replace
from hrac.envs.grid import Maze
from hrac.envs.hosted import Hosted
from hrac.experiments import budget, tasks
from hrac.experiments.methods import METHODS
from hrac.folder import log
from hrac.folder.progress import Silent
from hrac.nets import MLP
from hrac.training import learn, replay
from hrac.training.state import Training
from hrac.worlds.make import fallen_of, make_setup

TINY = {
    "k": 4,
    "env__time_limit": 30,
    "manager__hidden": (16,),
    "manager__buffer_windows": 200,
    "manager__start_fraction": 0.2,
    "manager__batch_size": 16,
    "controller__hidden": (16,),
    "adjacency__hidden": (16,),
    "adjacency__pretrain_env_steps": 400,
    "adjacency__pretrain_epochs": 3,
    "adjacency__update_every_env_steps": 200,
    "adjacency__update_epochs": 2,
    "training__round_env_steps": 40,
    "training__envs_per_run": 2,
    "training__eval_every_env_steps": 400,
    "training__checkpoint_every_env_steps": 320,
    "training__eval_episodes": 3,
}
TASKS = {
    "maze": {"env__layout": "#####\n#A..#\n###.#\n#G..#\n#####"},
    "point-maze": {"env__layout": "####\n#A.#\n##.#\n####", "controller__batch_size": 16, "controller__buffer_steps": 500},
}


def _config(task, method, **more):
    changes = {name.replace("__", "."): value for name, value in (TINY | TASKS[task] | more).items()}
    return replace(tasks.config_for(task, method), changes)


@pytest.mark.parametrize("task", tasks.TASKS)
def test_a_method_is_the_settings_in_which_it_differs(task):
    hrac_settings = tasks.config_for(task)
    for name, method in METHODS.items():
        config = tasks.config_for(task, name)
        changed = set(differences(hrac_settings, config)) - {"method"}
        row = tasks.find(task)
        assert changed <= set(method.settings_for(config.controller.learner, row.can_fall, row.sees_target))
        assert bool(changed) is (name != "hrac")


@pytest.mark.parametrize("name", sorted(tasks.BUILT_IN_NAMES))
def test_a_task_says_whether_its_agent_can_fall(name):
    task = tasks.find(name)
    assert task.can_fall is (fallen_of(task.make({})) is not None)


@pytest.mark.parametrize("name", sorted(tasks.BUILT_IN_NAMES))
def test_a_task_says_whether_its_agent_sees_a_target_that_hindsight_can_replace(name):
    config = replace(tasks.config_for(name), {"manager.hindsight": 0.5})
    if tasks.find(name).sees_target:
        tasks.make_env(config)
    else:
        with pytest.raises(ConfigError, match=r"manager\.hindsight must be 0"):
            tasks.make_env(config)


def test_hrac_plus_has_hindsight_where_a_target_is_seen():
    shares = [tasks.config_for(name, "hrac-plus").manager.hindsight for name in ("ant-maze", "ant-maze-sparse", "ant-medium")]
    assert shares == [0.5, 0.0, 0.8]


def test_only_an_agent_that_can_fall_uses_less_of_its_torque():
    plus = {name: tasks.config_for(name, "hrac-plus") for name in ("ant-gather", "point-maze", "maze")}
    assert plus["ant-gather"].controller.action_share == pytest.approx(17.5 / 30)
    assert plus["point-maze"].controller.action_share == 1
    assert {config.manager.value_scale for config in plus.values()} == {"slope"}
    assert [config.manager.discount for config in plus.values()] == [0.99, 0.99, 0.95]
    assert [config.manager.eta for config in plus.values()] == [1.0, 1.0, 8.0]
    assert [config.training.quiet_share for config in plus.values()] == [0.0, 0.0, 0.5]
    assert [config.manager.search_candidates for config in plus.values()] == [0, 0, 20]
    assert [config.manager.soft_update_rate for config in plus.values()] == [0.005, 0.005, 0.02]
    assert [config.controller.subgoals_shown_as for config in plus.values()] == ["given", "given", "displacement"]


def test_hrac_plus_raises_nothing_that_a_task_has_lower(monkeypatch):
    own = {"manager.discount": 0.9}
    monkeypatch.setitem(tasks.TASKS, "mine", dataclasses.replace(tasks.find("maze"), name="mine", settings=own))
    assert tasks.config_for("mine", "hrac-plus").manager.discount == 0.9
    monkeypatch.setitem(tasks.TASKS, "far", dataclasses.replace(tasks.find("maze"), name="far", settings={}))
    assert tasks.config_for("far", "hrac-plus").manager.discount == 0.95


def test_hrac_plus_raises_nothing_that_is_lower_by_default(monkeypatch):
    row = tasks.find("point-maze")
    own = {name: value for name, value in row.settings.items() if name != "manager.critic_weight_decay"}
    monkeypatch.setitem(tasks.TASKS, "mine", dataclasses.replace(row, name="mine", settings=own))
    assert tasks.config_for("mine", "hrac-plus").manager.critic_weight_decay == 0.0


def test_hrac_plus_lowers_no_updates_of_a_task(monkeypatch):
    row = tasks.find("point-maze")
    for own, kept in (1, 3), (3, 3), (10, 10):
        settings = row.settings | {"manager.updates_per_window": own}
        monkeypatch.setitem(tasks.TASKS, "mine", dataclasses.replace(row, name="mine", settings=settings))
        assert tasks.config_for("mine", "hrac-plus").manager.updates_per_window == kept
    updates = [tasks.config_for(name, "hrac-plus").manager.updates_per_window for name in ("ant-maze", "key-chest")]
    assert updates == [3, 1]


def _train(task, method, folder, steps=600):
    return hrac.train(task, method, steps=steps, out=folder, display=Silent(), **(TINY | TASKS[task]))


@pytest.mark.parametrize(
    ("task", "method"),
    [("maze", name) for name in ("hiro", "neg-reward", "hrac-plus")]
    + [("point-maze", name) for name in ("hrl-her", "vanilla", "hrac-o", "hrac-plus")],
)
def test_a_method_trains(task, method, tmp_path):
    """The others differ from these in their source of pairs (tests/training/test_runs_by_source.py) or in one number."""
    assert _train(task, method, tmp_path / "run").finished
    rows = log.read(tmp_path / "run")
    assert {"eval/return", "manager/critic_loss", "train/intrinsic_reward"} <= {row.name for row in rows if row.step > 500}
    assert all(np.isfinite(row.value) for row in rows)


def test_what_an_episode_remembers_is_in_the_checkpoint(tmp_path):
    _train("maze", "hrl-her", tmp_path / "run")
    _train("maze", "hrl-her", tmp_path / "cut", steps=440)
    hrac.resume(tmp_path / "cut", steps=600, display=Silent())
    assert (tmp_path / "cut" / "metrics.csv").read_bytes() == (tmp_path / "run" / "metrics.csv").read_bytes()


@pytest.mark.parametrize("method", ["hiro", "hiro-b", "hrl-her", "vanilla"])
@pytest.mark.parametrize("task", TASKS)
def test_baselines_make_no_adjacency_step(task, method, monkeypatch):
    monkeypatch.setattr(adjacency_learn, "train", lambda *_: pytest.fail("an adjacency network was trained"))
    config = _config(task, method)
    training = Training(config, tasks.make_env(config))
    training.pretrain()
    training.round()
    training.update_adjacency()
    assert training.env_steps == 40  # no random behaviour first
    assert training.sources == []
    assert training.actors()[0].embedding is None


def test_direct_pair_sampling_makes_as_many_gradient_steps(monkeypatch):
    counts = {}
    for method in ("hrac", "no-adj"):
        config = _config("maze", method)
        training = Training(config, tasks.make_env(config))
        training.pretrain()
        cells = training.sources[0].numbers()["adjacency/cells"]
        counts[method] = cells, adjacency_learn.gradient_steps(training.sources[0].epoch_pairs, 3, config.adjacency)
    assert counts["hrac"] == counts["no-adj"]
    assert counts["hrac"][1] > 0


# NegReward

IDENTITY = MLP((jnp.eye(2),), (jnp.zeros(2),))
"""An embedding in which the learned distance is the distance. The threshold is 1.1."""


def test_the_penalty_is_paid_exactly_on_subgoals_that_are_judged_not_adjacent():
    config = tasks.config_for("maze", "neg-reward")
    assert config.manager.eta == 0.0
    setup = make_setup(Maze(), config)
    obs = jnp.array([[1.0, 1.0], [1.0, 1.0], [5.0, 5.0]])
    subgoals = jnp.array([[2.0, 1.0], [2.0, 2.0], [2.0, 2.0]])  # absolute: at distances 1.0, 1.41 and 4.24
    windows = Transition(obs, subgoals, jnp.zeros(3), obs, jnp.ones(3, bool))
    np.testing.assert_array_equal(manager.non_adjacent_costs(IDENTITY, windows, setup), [0.0, 1.0, 1.0])
    relative = setup._replace(space=setup.space._replace(relative=True))
    steps = windows._replace(action=jnp.array([[0.5, 0.5], [1.0, 1.0], [0.0, 1.0]]))  # of lengths 0.71, 1.41 and 1.0
    np.testing.assert_array_equal(manager.non_adjacent_costs(IDENTITY, steps, relative), [0.0, 1.0, 0.0])


def test_the_managers_reward_has_the_penalty(monkeypatch):
    seen = []
    update = manager.td3.update

    def spy(key, state, batch, *others):
        jax.debug.callback(seen.append, batch.reward)
        return update(key, state, batch, *others)

    monkeypatch.setattr(manager.td3, "update", spy)
    monkeypatch.setattr(manager, "non_adjacent_costs", lambda embedding, windows, setup: jnp.full_like(windows.reward, 7.0))
    config = _config("maze", "neg-reward", manager__reward_scale=0.1)
    training = Training(config, tasks.make_env(config))
    run = jax.tree.map(lambda leaf: leaf[0], training.runs[0])  # an empty replay: all rewards are zero
    learn.learn(jax.random.key(0), run, training.setup)
    jax.effects_barrier()
    assert seen
    assert all((np.asarray(rewards) == -70.0).all() for rewards in seen)  # times reward_scale: -7


# Hindsight

LINE = SubgoalSpace(relative=True, low=(0.0,), high=(100.0,))


def test_each_point_of_an_episode_has_the_same_chance_to_be_remembered():
    """4,000 copies walk through 0, 1, ..., 4; then their episodes end."""
    rng, copies = np.random.default_rng(0), 4000
    points, numbers = np.zeros((copies, 1), np.float32), np.zeros(copies, np.int32)
    state = SubgoalState(points, numbers, points, numbers)
    for time in range(5):
        obs = np.full((copies, 1), time, np.float32)
        chance = rng.random((copies, 2)).astype(np.float32)
        state = decide.remember(state, obs, np.full(copies, time == 4), chance, LINE)
        assert (state.visits == (0 if time == 4 else time + 1)).all()
    points, counts = np.unique(state.visited, return_counts=True)
    np.testing.assert_array_equal(points, np.arange(5))
    np.testing.assert_allclose(counts, copies / 5, rtol=0.1)
    again = decide.remember(state, np.full((copies, 1), 9.0, np.float32), np.zeros(copies, bool), chance, LINE)
    assert (again.visited == 9.0).all()  # the first point of a new episode


@pytest.mark.parametrize("on_host", [False, True])
@pytest.mark.parametrize("subgoals", ["relative", "absolute"])
def test_on_the_grid_new_subgoals_are_points_visited_earlier_in_the_episode(on_host, subgoals):
    config = _config("maze", "hrl-her", controller__hindsight=1.0, manager__correction_candidates=0, manager__subgoals=subgoals)
    grid = tasks.make_env(config)
    training = Training(config, Hosted(grid) if on_host else grid)
    rounds = [training.world.collect(training.actors(), np.array([True]), index)[0].trajectory for index in range(5)]
    steps = jax.tree.map(lambda *leaves: np.concatenate([np.asarray(leaf)[0] for leaf in leaves]), *rounds)
    replaced = 0
    for copy in range(2):
        visited = []
        for time in range(len(steps.reward)):
            position = steps.obs[time, copy, :2]
            point = steps.subgoal[time, copy] + (position if subgoals == "relative" else 0.0)
            if steps.clock[time, copy] == 0 and visited:
                assert np.abs(np.array(visited) - point).max(axis=1).min() < 1e-5
                replaced += 1
            visited.append(position)
            if steps.terminated[time, copy] or steps.truncated[time, copy]:
                visited = []
    assert replaced > 20


def test_the_share_of_subgoals_in_hindsight_is_the_settings():
    setup = make_setup(Maze(), tasks.config_for("maze", "hrl-her"))
    assert setup.cfg.controller.hindsight == 0.2
    n = 10_000
    state = SubgoalState(jnp.zeros((n, 2)), jnp.zeros(n, jnp.int32), jnp.full((n, 2), 9.0), jnp.ones(n, jnp.int32))
    chance = jax.random.uniform(jax.random.key(0), (n, 2))
    obs = jnp.full((n, 2), 2.0)
    chosen = decide.in_hindsight(jnp.zeros((n, 2)), state, obs, chance, setup)
    assert set(np.unique(chosen)) == {0.0, 7.0}  # 9 as seen from 2
    np.testing.assert_allclose((chosen[:, 0] == 7.0).mean(), 0.2, atol=0.02)
    fresh = state._replace(visits=jnp.zeros(n, jnp.int32))
    assert (decide.in_hindsight(jnp.zeros((n, 2)), fresh, obs, chance, setup) == 0.0).all()  # nothing was visited yet


def test_with_continuous_actions_stored_steps_are_learned_from_in_hindsight():
    """Every subgoal is then a point at which the same copy was after one of the next k steps of the episode."""
    config = _config("point-maze", "hrl-her", controller__hindsight=1.0)
    training = Training(config, tasks.make_env(config))
    for _ in range(6):  # 120 steps of each copy: four episodes
        training.round()
    run = jax.tree.map(lambda leaf: leaf[0], training.runs[0])
    drawn = jax.device_get(learn._drawn_steps(jax.random.key(0), run.replay, training.setup))
    assert drawn.reward.shape == (40, 16)
    stored = jax.device_get(jax.tree.map(lambda leaf: leaf[:240].reshape(120, 2, *leaf.shape[1:]), run.replay.steps))
    done = stored.terminated | stored.truncated
    points = (drawn.obs + np.pad(drawn.subgoal, ((0, 0), (0, 0), (0, drawn.obs.shape[-1] - 2))))[..., :2].reshape(-1, 2)
    steps_later = []
    for obs, point in zip(drawn.obs.reshape(640, -1), points, strict=True):
        time, copy = np.argwhere((stored.obs == obs).all(axis=-1))[0]
        end = time + np.argmax(np.append(done[time:, copy], True))
        possible = stored.next_obs[time : min(time + 4, end + 1), copy, :2]
        nearest = np.abs(possible - point).max(axis=1)
        assert nearest.min() < 1e-5
        steps_later.append(int(nearest.argmin()))
    assert set(steps_later) == {0, 1, 2, 3}


def test_without_hindsight_stored_subgoals_are_kept():
    config = _config("point-maze", "hiro")
    training = Training(config, tasks.make_env(config))
    training.round()
    run = jax.tree.map(lambda leaf: leaf[0], training.runs[0])
    drawn = jax.device_get(learn._drawn_steps(jax.random.key(0), run.replay, training.setup))
    stored = np.asarray(run.replay.steps.subgoal[:40])
    assert all((stored == subgoal).all(axis=1).any() for subgoal in drawn.subgoal.reshape(-1, 2))


# No hierarchy


@pytest.mark.parametrize(("task", "method"), [("maze", "flat"), ("point-maze", "flat"), ("point-maze", "flat-her")])
def test_without_a_hierarchy_there_is_no_manager_and_all_else_works(task, method, tmp_path):
    folder = tmp_path / "run"
    more = {"k": 4, "controller__updates_per_env_step": 1.0} if method == "flat-her" else {}
    settings = TINY | TASKS[task] | more
    hrac.train(task, method, steps=600, out=folder, display=Silent(), **settings)
    names = {row.name for row in log.read(folder) if row.step > 500}
    assert {"eval/return", "train/intrinsic_reward"} <= names
    assert not [name for name in names if name.startswith(("manager/", "adjacency/"))]
    assert bool([name for name in names if "subgoal" in name]) is (method == "flat-her")
    hrac.train(task, method, steps=440, out=tmp_path / "cut", display=Silent(), **settings)
    hrac.resume(tmp_path / "cut", steps=600, display=Silent())
    assert (tmp_path / "cut" / "metrics.csv").read_bytes() == (folder / "metrics.csv").read_bytes()
    policy = hrac.load(folder)
    assert policy.actors.manager is None
    assert np.isfinite(policy.act(np.ones(policy.setup.obs_dim))).all()
    (evaluation,) = hrac.evaluate(folder, episodes=2)
    assert np.isfinite(evaluation.returns).all()
    policy.draw(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5_000


def test_a_flat_agent_sees_everything_and_is_rewarded_by_the_environment():
    config = _config("point-maze", "flat")
    training = Training(config, tasks.make_env(config))
    training.round()
    run = jax.tree.map(lambda leaf: leaf[0], training.runs[0])
    steps = jax.device_get(
        controller_transitions(jax.tree.map(lambda leaf: leaf[:40], run.replay.steps), training.setup.space, config)
    )
    stored = jax.device_get(jax.tree.map(lambda leaf: leaf[:40], run.replay.steps))
    np.testing.assert_array_equal(steps.obs, np.concatenate([stored.obs, np.zeros((40, 2))], axis=1))
    np.testing.assert_allclose(steps.reward, 0.1 * stored.reward, rtol=1e-6)  # scaled as the manager's
    assert (stored.reward < 0).all()  # minus the distance to the target
    assert not stored.subgoal.any()


def test_the_goal_of_a_flat_agent_with_hindsight_is_the_target():
    config = _config("point-maze", "flat-her", k=4)
    training = Training(config, tasks.make_env(config))
    (collected,) = training.world.collect(training.actors(), np.array([True]), 0)
    steps = collected.trajectory
    np.testing.assert_allclose(steps.obs[..., :2] + steps.subgoal, steps.obs[..., 5:7], atol=1e-5)
    rewards = intrinsic_rewards(jax.tree.map(jnp.asarray, steps), training.setup.space, config)
    np.testing.assert_allclose(rewards, steps.reward, rtol=1e-4)  # the same as the environment's


@pytest.mark.parametrize("task", ["ant-maze", "ant-maze-sparse", "ant-gather", "point-maze"])
def test_a_flat_agent_knows_no_windows_and_keeps_none(task):
    config = tasks.config_for(task, "flat")
    assert not config.controller.ends_with_window
    needs = budget.needs(config, budget.sizes_of(tasks.make_env(config)))
    assert needs["manager.buffer_windows"] == 0
    setup = make_setup(tasks.make_env(config), config)
    assert config.controller.buffer_steps < replay.places(setup) < config.controller.buffer_steps + 1_000


def test_a_task_that_shows_no_target_has_no_goal_to_give():
    for task in ("maze", "ant-gather", "ant-maze-sparse"):
        with pytest.raises(ConfigError, match=f"manager.subgoals must be .* on {task}, which shows no target, got 'task'"):
            tasks.make_env(tasks.config_for(task, "flat-her"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"adjacency.source": "table"}, "adjacency.source must be 'none' where manager.subgoals are 'none', got 'table'"),
        ({"controller.hindsight": 0.2}, "controller.hindsight must be 0 where manager.subgoals are 'none', got 0.2"),
        (
            {"controller.intrinsic_reward": "reached"},
            "controller.intrinsic_reward must be 'environment' where manager.subgoals are 'none', got 'reached'",
        ),
    ],
)
def test_without_subgoals_nothing_else_may_need_them(changes, message):
    with pytest.raises(ConfigError, match=message):
        replace(tasks.config_for("maze", "flat"), changes)


def test_returns_that_go_on_past_a_window():
    """k = 2, discount 0.5. Rewards 1, 2, 3, 4; windows are steps 0-1 and 2-3; the episode ends with step 3.

    Within windows: 1 + 1 = 2, 2, 3 + 2 = 5, 4. Beyond the first window is step 2's observation, at weights 0.25 and 0.5. Beyond
    the second there is nothing.
    """
    changes = {"k": 2, "controller.discount": 0.5, "training.round_env_steps": 4}
    config = replace(tasks.config_for("maze", "flat"), changes)
    setup = make_setup(Maze(), config)
    obs = jnp.arange(6.0)[:, None] * jnp.ones((1, 2))
    empty = empty_steps(setup, 2)
    new = Trajectory(
        obs=obs[:4],
        subgoal=jnp.zeros((4, 2)),
        action=jnp.zeros(4, jnp.int32),
        reward=jnp.array([1.0, 2.0, 3.0, 4.0]),
        next_obs=obs[1:5],
        terminated=jnp.array([False, False, False, True]),
        truncated=jnp.zeros(4, bool),
        clock=jnp.array([0, 1, 0, 1], jnp.int32),
        last=jnp.array([False, True, False, True]),
    )
    steps = controller_steps(jax.tree.map(lambda *leaves: jnp.concatenate(leaves), empty, new), setup.space, config)
    np.testing.assert_array_equal(steps.valid, [False, False, True, True, True, True])
    np.testing.assert_allclose(steps.ret[2:], [2.0, 2.0, 5.0, 4.0])
    np.testing.assert_allclose(steps.beyond.weight[2:], [0.25, 0.5, 0.0, 0.0])
    np.testing.assert_array_equal(steps.beyond.seen[2:4], [[2.0, 2.0, 0.0, 0.0]] * 2)
    # A critic that says 8 everywhere: returns are 2 + 2, 2 + 4, 5, 4, so the errors are -4, -2, -3, -4.
    zeros = MLP((jnp.zeros((4, 4)),), (jnp.zeros(4),))
    eight = MLP((jnp.zeros((4, 1)),), (jnp.full(1, 8.0),))
    _, metrics = a2c.loss((zeros, eight), steps, config.controller)
    np.testing.assert_allclose(metrics["controller/value_loss"], (16 + 4 + 9 + 16) / 4)


# Binary rewards


def test_the_binary_reward_of_the_ants_is_one_within_the_square_root_of_two():
    config = tasks.config_for("ant-maze", "hiro-b")
    assert config.controller.intrinsic_reward == "reached"
    assert config.controller.reach_measure == "euclidean"
    np.testing.assert_allclose(config.controller.reach_radius, np.sqrt(2))
    assert tasks.config_for("ant-maze", "hiro").controller.intrinsic_reward == "distance"
