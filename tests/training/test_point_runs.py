"""Training with an environment on the host: collecting, whole trainings in seconds, resuming, policies."""

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hrac
from hrac.config import ConfigError, replace
from hrac.envs.base import SimulationError
from hrac.envs.point import PointBatch
from hrac.experiments import bench_host, tasks
from hrac.folder import checkpoint, log
from hrac.folder.progress import Silent
from hrac.nets import MLP
from hrac.training import acting, collect, playing, stop
from hrac.training.acting import forward
from hrac.training.host import HostTraining, store
from hrac.training.state import DivergedError
from hrac.training.streams import Stream

LAYOUT = "####\n#A.#\n##.#\n####"
TINY = {
    "k": 4,
    "env__layout": LAYOUT,
    "env__time_limit": 30,
    "manager__hidden": (16,),
    "manager__buffer_windows": 400,
    "manager__start_fraction": 0.1,
    "manager__batch_size": 16,
    "manager__correction_candidates": 3,
    "controller__hidden": (16,),
    "controller__batch_size": 16,
    "controller__buffer_steps": 1000,
    "adjacency__hidden": (16,),
    "adjacency__pretrain_env_steps": 400,
    "adjacency__pretrain_epochs": 3,
    "adjacency__update_every_env_steps": 500,
    "adjacency__update_epochs": 2,
    "training__round_env_steps": 40,
    "training__envs_per_run": 2,
    "training__eval_every_env_steps": 200,
    "training__checkpoint_every_env_steps": 320,
    "training__eval_episodes": 3,
}


def _train(folder, steps=1600, **changes):
    return hrac.train("point-maze", steps=steps, out=folder, display=Silent(), **(TINY | changes))


def _config(**changes):
    settings = {name.replace("__", "."): value for name, value in (TINY | changes).items()}
    return replace(tasks.config_for("point-maze", "hrac"), settings)


def _training(**changes):
    config = _config(**changes)
    return HostTraining(config, tasks.make_env(config))


@pytest.fixture(scope="module", params=[False, True], ids=["in turns", "overlapping"])
def unbroken(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "unbroken"
    outcome = _train(folder, seeds=2, training__overlap=request.param)
    assert outcome.finished
    return folder, request.param


def _blas_threads():
    return [pool["num_threads"] for pool in acting._BLAS.info()]


@pytest.mark.parametrize("evaluating", [False, True])
def test_matrix_products_leave_the_cores_to_the_copies(evaluating, monkeypatch):
    training, seen = _training(), []
    batch = type(training.collector.env)
    step = batch.step
    monkeypatch.setattr(batch, "step", lambda *arguments: seen.append(_blas_threads()) or step(*arguments))
    with acting._BLAS.limit(limits=2, user_api="blas"):
        before = _blas_threads()
        training.evaluate() if evaluating else training.round()
        assert _blas_threads() == before
    assert seen
    assert all(threads == [1] * len(before) for threads in seen)


def test_a_run_logs_both_levels(unbroken):
    names = {row.name for row in log.read(unbroken[0])}
    expected = {"controller/critic_loss", "manager/critic_loss", "manager/corrected", "manager/too_far", "eval/success"}
    assert expected | {"eval/subgoal_judged_adjacent", "train/intrinsic_reward", "adjacency/cells"} <= names


def test_a_run_cut_in_two_gives_the_same_metrics_to_the_byte(unbroken, tmp_path):
    folder, overlap = unbroken
    _train(tmp_path / "cut", steps=800, seeds=2, training__overlap=overlap)
    before = (tmp_path / "cut" / "metrics.csv").read_bytes()
    hrac.resume(tmp_path / "cut", steps=1600, display=Silent())
    whole, cut = (path.read_bytes() for path in (folder / "metrics.csv", tmp_path / "cut" / "metrics.csv"))
    assert len(before) < len(cut)
    assert whole == cut


def test_a_seed_does_not_depend_on_its_neighbours(unbroken, tmp_path):
    folder, overlap = unbroken
    _train(tmp_path / "alone", seeds=[1], training__overlap=overlap)
    both = [row for row in log.read(folder) if row.seed == 1]
    assert both == list(log.read(tmp_path / "alone"))


def test_evaluating_more_does_not_change_what_is_learned(unbroken, tmp_path):
    folder, overlap = unbroken
    _train(tmp_path / "more", seeds=2, training__overlap=overlap, training__eval_episodes=4)
    learned = [[row for row in log.read(path) if not row.name.startswith("eval/")] for path in (folder, tmp_path / "more")]
    assert learned[0] == learned[1]


def test_runs_mapped_together_are_the_runs_apart_but_for_rounding(monkeypatch):
    def rounds(count):
        training = _training(seeds=[0, 1])
        training.pretrain()
        for _ in range(count):
            training.round()
        rows = training.evaluate()
        return len(training.parts), {(row.seed, row.name): row.value for row in rows if not row.name.startswith("eval/")}

    parts, apart = rounds(8)
    monkeypatch.setattr(jax, "default_backend", lambda: "an accelerator")
    together_parts, together = rounds(8)
    assert (parts, together_parts) == (2, 1)
    np.testing.assert_allclose(list(together.values()), list(apart.values()), rtol=0.02, atol=0.02)


def test_minutes_stop_a_run_with_a_checkpoint_to_go_on_from(unbroken, tmp_path):
    folder, overlap = unbroken
    outcome = _train(tmp_path / "late", seeds=2, training__overlap=overlap, minutes=1e-6)
    assert not outcome.finished
    assert not outcome.interrupted
    assert outcome.env_steps == 400  # the random behaviour that comes first
    hrac.resume(tmp_path / "late", display=Silent())
    assert (tmp_path / "late" / "metrics.csv").read_bytes() == (folder / "metrics.csv").read_bytes()


@pytest.mark.parametrize("minutes", [0, -1.0, float("nan")])
def test_minutes_must_be_positive(minutes, tmp_path):
    with pytest.raises(ConfigError, match="minutes must be a positive number"):
        _train(tmp_path / "run", minutes=minutes)
    assert not (tmp_path / "run").exists()


def test_a_checkpoint_holds_what_was_stored_and_no_empty_rows(tmp_path):
    _train(
        tmp_path / "small",
        steps=440,
        controller__buffer_steps=100_000,
        manager__buffer_windows=100_000,
        manager__start_fraction=0.001,
    )
    assert (tmp_path / "small" / "checkpoint.safetensors").stat().st_size < 1e6  # 100,000 steps alone would be 6.8 MB


def test_the_network_on_the_host_is_that_on_the_device():
    networks = jax.vmap(lambda key: MLP.init(key, (5, 16, 16, 3)))(jax.random.split(jax.random.key(0), 2))
    inputs = jax.random.normal(jax.random.key(1), (2, 7, 5))
    on_device = jax.vmap(jax.vmap(lambda network, x: network(x), (None, 0)))(networks, inputs)
    np.testing.assert_allclose(forward(jax.device_get(networks), np.asarray(inputs)), on_device, rtol=1e-4, atol=1e-5)


def _collected(rounds=3, **changes):
    training = _training(**changes)
    actors = training.actors()
    ready = np.array([True])
    return training, [training.collector.round(actors, ready, index)[0] for index in range(rounds)]


def test_a_round_begins_with_the_end_of_the_one_before():
    _, (first, second, third) = _collected()
    for before, after in ((first, second), (second, third)):
        jax.tree.map(lambda b, a: np.testing.assert_array_equal(b[:, -4:], a[:, :4]), before, after)


def test_experience_hangs_together():
    """Within an episode, each step begins where the last one ended, for the same point of goal space."""
    _, rounds = _collected(controller__noise_sigma=0.0)
    steps = jax.tree.map(lambda *leaves: np.concatenate([leaf[0, 4:] for leaf in leaves]), *rounds)  # (time, copies, ...)
    done = steps.terminated | steps.truncated
    np.testing.assert_array_equal(done, (np.arange(1, 61) % 30 == 0)[:, None].repeat(2, axis=1))  # the limit is 30 steps
    np.testing.assert_array_equal(steps.clock[:, 0], (np.arange(60) % 30) % 4)
    np.testing.assert_array_equal(steps.last, done | (steps.clock == 3))
    np.testing.assert_array_equal(steps.obs[1:][~done[:-1]], steps.next_obs[:-1][~done[:-1]])
    np.testing.assert_allclose(steps.obs[30, :, 2:5], 0.0)  # at rest, at time 0
    same = ~steps.last[:-1]
    points = steps.obs[..., :2] + steps.subgoal
    np.testing.assert_allclose(points[1:][same], points[:-1][same], atol=1e-5)
    assert (np.abs(steps.subgoal[steps.clock == 0]) <= 4.0).all()
    target = steps.obs[..., 5:7]
    assert (target[:30] == target[0]).all()
    assert not (target[30] == target[0]).any()


def _stored(training, rounds):
    """Every step and window in a run's replay buffers after some rounds, in an order of their own."""
    run = jax.tree.map(lambda leaf: leaf[0], training.parts[0])
    for trajectory in rounds:
        run = store(run, jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), trajectory), training.space, training.config)
    for buffer in (run.steps, run.windows):
        rows = [np.asarray(leaf[: buffer.size], np.float64).reshape(buffer.size, -1) for leaf in jax.tree.leaves(buffer.items)]
        table = np.concatenate(rows, axis=1)
        yield table[np.lexsort(table.T)]


def test_rounds_may_be_shorter_than_a_window():
    """20 copies make two steps each in a round of 40, and k is 4."""
    training, rounds = _collected(40, training__envs_per_run=20, manager__buffer_windows=2000, controller__buffer_steps=2000)
    whole = jax.tree.map(lambda *leaves: np.concatenate([leaves[0], *(leaf[:, 4:] for leaf in leaves[1:])], axis=1), *rounds)
    assert whole.reward.shape == (1, 4 + 80, 20)
    for apart, together in zip(_stored(training, rounds), _stored(training, [whole]), strict=True):
        np.testing.assert_allclose(apart, together, rtol=1e-5, atol=1e-5)
    assert len(together) == 20 * (8 + 8 + 5)  # episodes of 30 steps have 8 windows, the 20 steps of the third have 5


def test_what_was_done_is_what_the_controller_does():
    training, rounds = _collected(1, controller__noise_sigma=0.0)
    steps = jax.tree.map(lambda leaf: leaf[0, 4:].reshape(-1, *leaf.shape[3:]), rounds[0])
    agent = jax.tree.map(lambda leaf: leaf[0], training.parts[0].agent)
    inputs = jax.vmap(training.space.controller_input)(jnp.asarray(steps.obs), jnp.asarray(steps.subgoal))
    expected = jnp.tanh(jax.vmap(agent.controller.actor)(inputs))
    np.testing.assert_allclose(steps.action, expected, rtol=1e-4, atol=1e-5)
    proposed = steps.clock == 0
    plain = jax.vmap(lambda obs: training.space.squash(agent.manager.actor(obs)))(jnp.asarray(steps.obs))
    moved = (steps.subgoal - plain)[proposed]
    assert 0.5 < np.abs(moved).mean() < 1.5  # noise of 1, whose mean absolute value is 0.8, clipped at 4


def test_until_enough_is_stored_subgoals_are_uniform():
    training = _training(training__round_env_steps=400)
    trajectory, _ = training.collector.round(training.actors(), np.array([False]), 0)
    subgoals = trajectory.subgoal[0, 4:][trajectory.clock[0, 4:] == 0]
    assert np.abs(subgoals).max() <= 4.0
    np.testing.assert_allclose(subgoals.std(axis=0), 4.0 / np.sqrt(3), rtol=0.2)


def test_random_behaviour_stays_in_the_maze_and_differs_between_runs():
    config = _config(seeds=[0, 1])
    task = tasks.make_env(config)
    walks = collect.wander(task, config, 5, 2)
    assert walks.shape == (2, 5, 31, 2)
    assert not task.in_wall(walks.reshape(-1, 2).astype(np.float64)).any()
    assert not np.array_equal(walks[0], walks[1])


def test_a_loaded_policy_plays_as_the_evaluation_does(unbroken):
    policy = hrac.load(unbroken[0], seed=1)
    task, config = policy.task.evaluation(), policy.config
    seeds = collect.copy_seeds((7,), 3, Stream.EVAL)
    played = playing.play(task, policy.hierarchy, policy.actors, seeds, config)
    returns, env = [], task.batch(3)
    first = env.reset(seeds=seeds)
    for copy in range(3):
        policy.reset()
        obs, total, done = first[copy], 0.0, False
        while not done:
            action = policy.act({"observation": obs, "desired_goal": env.context[copy]})
            step = env.step(action[None], [copy])
            obs, total, done = step.obs[0], total + step.reward[0], bool(step.terminated[0] or step.truncated[0])
        returns.append(total)
    np.testing.assert_allclose(returns, played["eval/return"][0, 0], rtol=1e-5)
    assert [evaluation.seed for evaluation in hrac.evaluate(unbroken[0], episodes=2)] == [0, 1]


@pytest.mark.parametrize(("observation", "message"), [(np.zeros(5), r"shape \(7,\)"), (np.full(7, np.nan), "finite")])
def test_a_policy_refuses_what_is_no_observation(unbroken, observation, message):
    with pytest.raises(ValueError, match=message):
        hrac.load(unbroken[0], seed=0).act(observation)


def test_overlapping_rounds_act_with_the_policies_before_the_last_learning():
    training = _training(training__overlap=True, manager__start_fraction=0.05)
    training.pretrain()
    used, original = [], training.collector.round
    training.collector.round = lambda actors, *rest: (used.append(actors), original(actors, *rest))[1]
    after = [training.actors()]
    for _ in range(6):
        training.round()
        after.append(training.actors())
    same = lambda a, b: all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))  # noqa: E731
    assert not same(after[-1], after[-2])  # something was learned
    assert [same(used[n], after[max(n - 1, 0)]) for n in range(6)] == [True] * 6


def test_actions_have_the_exploration_noise_of_the_configuration():
    training, rounds = _collected(5, controller__noise_sigma=0.1, training__round_env_steps=80)
    steps = jax.tree.map(lambda *leaves: np.concatenate([leaf[0, 4:].reshape(-1, *leaf.shape[3:]) for leaf in leaves]), *rounds)
    plain = training.hierarchy.act(training.actors(), steps.obs[None], steps.subgoal[None])[0]
    np.testing.assert_allclose((steps.action - plain).std(), 0.1, rtol=0.1)


def test_runs_may_start_to_learn_in_different_rounds(monkeypatch):
    """Windows that end early fill one run's buffer before another's: together or apart, each learns from its own round on."""
    config = _config(seeds=[0, 1, 2], manager__start_fraction=0.0525, manager__batch_size=8, training__envs_per_run=2)
    task = dataclasses.replace(tasks.make_env(config), ends_on_success=True, success_radius=3.0)

    def learned(mapped):
        if mapped:
            monkeypatch.setattr(jax, "default_backend", lambda: "an accelerator")
        training = HostTraining(config, task)
        training.pretrain()
        history = []
        for _ in range(6):
            before = training.actors()
            ready = training.windows_seen >= config.manager.start_windows
            training.round()
            moved = np.any(before.manager.biases[-1] != training.actors().manager.biases[-1], axis=-1)
            history.append((ready.tolist(), moved.tolist()))
        training.settle()
        return history

    apart = learned(mapped=False)
    assert all(ready == moved for ready, moved in apart)
    assert any(len(set(ready)) == 2 for ready, _ in apart)  # they did differ
    together = learned(mapped=True)
    assert all(ready == moved for ready, moved in together)


def test_a_policy_that_is_not_finite_stops_the_training_with_its_seed_and_step():
    training = _training(seeds=[0, 1])
    training.pretrain()
    agent = training.parts[1].agent
    broken = jax.tree.map(lambda leaf: leaf.at[...].set(jnp.nan), agent.controller.actor)
    training.parts[1] = training.parts[1]._replace(agent=agent._replace(controller=agent.controller._replace(actor=broken)))
    with pytest.raises(DivergedError, match=r"controller.*of seed 1 is nan in the round that ended at step 400"):
        training.round()


@pytest.mark.parametrize("evaluating", [False, True])
def test_physics_that_breaks_down_stops_the_training_with_its_seed_and_its_checkpoint(evaluating, tmp_path, monkeypatch):
    """Of seeds 3 and 4 with two copies each in training, three in evaluation."""
    step, calls = PointBatch.step, [0]

    def break_down(batch, actions, ids=None):
        after = step(batch, actions, ids)
        calls[0] += batch.num_envs == (6 if evaluating else 4)
        if calls[0] > 40:
            raise SimulationError([3])
        return after

    monkeypatch.setattr(PointBatch, "step", break_down)
    when = 600 if evaluating else 480  # the second evaluation; the third round of 20 steps
    with pytest.raises(DivergedError, match=rf"of seed 4 became unstable after step {when}. The last good checkpoint is .*run"):
        _train(tmp_path / "run", seeds=[3, 4])


def _at(step):
    return SimpleNamespace(env_steps=step)


def test_a_deadline_leaves_time_for_another_round_and_a_save(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(stop.time, "monotonic", lambda: now[0])
    deadline = stop.Deadline(1.0, rounds=2)
    for seconds in (0.5, 5.0, 3.0):
        with deadline.measuring_round():
            now[0] += seconds
    with deadline.measuring_save(_at(1_000)):
        now[0] += 10.0
    assert not deadline.near(_at(1_000))  # 18.5 s of 60 are over, 15 may be needed
    now[0] = 100.0 + 44.9
    assert not deadline.near(_at(1_000))
    now[0] = 100.0 + 45.1
    assert deadline.near(_at(1_000))
    now[0] = 100.0 + 40.1  # twice the steps: a checkpoint may be twice as large
    assert not deadline.near(_at(1_400))
    assert deadline.near(_at(1_500))
    with deadline.measuring_round():  # the 5 s are forgotten
        now[0] += 1.0
    assert not deadline.near(_at(1_500))
    assert not stop.Deadline(None).near(_at(10**9))
    resumed = stop.Deadline(1.0)
    with resumed.measuring_save(_at(1_000), reading=True):
        now[0] += 9.0  # writing may take 54
    assert resumed.near(_at(1_000))


def test_reading_a_checkpoint_tells_a_resumed_run_how_long_the_next_may_take(tmp_path, monkeypatch):
    _train(tmp_path / "run", steps=800)
    asked = []
    monkeypatch.setattr(stop.Deadline, "near", lambda self, run: asked.append((self._save, self._saved_at, run.env_steps)))
    assert hrac.resume(tmp_path / "run", steps=880, display=Silent()).finished
    assert asked[0][0] > 0
    assert asked[0][1:] == (800, 800)


@pytest.mark.parametrize("ids", [[-1], [0, 0], [1, 0], [3]])
def test_a_point_batch_refuses_copies_that_there_are_not(ids):
    env = tasks.make_env(_config()).batch(3)
    env.reset()
    with pytest.raises(ValueError, match="ids must be different copies from 0 to 2"):
        env.reset(ids)
    np.testing.assert_array_equal(env.episodes, [0, 0, 0])


def test_a_point_batch_takes_masks_and_wants_a_seed_a_copy():
    env = tasks.make_env(_config()).batch(3)
    with pytest.raises(RuntimeError, match="reset the copies"):
        env.step(np.zeros((3, 2)))
    env.reset()
    env.reset([False, False, True])
    np.testing.assert_array_equal(env.episodes, [0, 0, 1])
    with pytest.raises(ValueError, match="seeds must be 2 integers"):
        env.reset([0, 1], seeds=[5])


def test_threads_that_suited_the_machine_of_the_training_are_not_kept(tmp_path):
    _train(tmp_path / "run", steps=440, training__env_threads=3)
    path = tmp_path / "run" / "policy" / "seed-0.safetensors"
    assert checkpoint.load(path, "policy")[1]["config"]["training"]["env_threads"] == 3
    assert hrac.load(path).config.training.env_threads is None


def test_an_episode_can_be_drawn(unbroken, tmp_path):
    from hrac.view import host_episode

    policy = hrac.load(unbroken[0], seed=0)
    episode, record = next((seed, r) for seed in range(20) if len((r := host_episode.play(policy, seed)).asked) > 4)
    assert len(record.position) == len(record.asked) + 1 <= 31
    np.testing.assert_allclose(record.asked[0], record.asked[3], atol=1e-5)  # one subgoal for k = 4 steps
    host_episode.draw(policy, tmp_path / "picture.png", episode)
    assert (tmp_path / "picture.png").stat().st_size > 10_000


@pytest.mark.parametrize(("task", "objects"), [("ant-maze", 0), ("ant-maze-sparse", 0), ("ant-gather", 16)])
def test_every_ant_can_be_trained_played_and_drawn(task, objects, tmp_path):
    from hrac.view import host_episode

    settings = {name: value for name, value in TINY.items() if name != "env__layout"}
    outcome = hrac.train(task, steps=800, out=tmp_path / "run", display=Silent(), **settings)
    assert outcome.finished
    names = {row.name for row in log.read(tmp_path / "run") if row.step == 800}
    assert {"controller/critic_loss", "manager/critic_loss", "manager/corrected", "eval/return"} <= names
    succeeds = {"ant-maze": {"eval/success"}, "ant-maze-sparse": {"eval/success", "train/success"}, "ant-gather": set()}
    assert {name for name in names if "success" in name} == succeeds[task]
    policy = hrac.load(tmp_path / "run")
    record = host_episode.play(policy, 0)
    assert record.objects[0].shape == (objects, 3)
    assert sum(record.objects[0][:, 2] == 1) == objects // 2
    assert len(record.objects) == len(record.asked)
    host_episode.draw(policy, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000


def test_the_benchmark_tells_where_a_rounds_time_goes():
    lines = list(bench_host.training(_config(), 2))
    assert any(line.startswith("rounds of 40 steps, 1 seed(s) of 2 copies: ") for line in lines)
    parts = [line.split("  ")[1] for line in lines if line.startswith("  ") and not line.startswith("    ")]
    host, learning = ["collecting", "physics", "acting", "copies"], ["controller updates", "manager updates", "correction"]
    assert parts == [*host, *learning, "all updates"]
    updates = next(line for line in lines if line.startswith("  controller updates"))
    assert "40 updates" in updates
    assert "GFLOP/s" in updates
    assert sum("the rate of one product of " in line for line in lines) == 2
