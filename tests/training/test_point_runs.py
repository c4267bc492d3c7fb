"""Whole trainings of two levels by TD3 on the host, small enough for seconds: resuming, overlap, policies, pictures."""

import dataclasses
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hrac
from hrac.config import ConfigError, replace
from hrac.envs.base import SimulationError
from hrac.envs.point import PointBatch
from hrac.experiments import tasks
from hrac.folder import checkpoint, log
from hrac.folder.progress import Silent
from hrac.runs import join
from hrac.training import stop
from hrac.training.session import checkpoint_size
from hrac.training.state import Training
from hrac.worlds.base import DivergedError
from hrac.worlds.host import copy_seeds
from hrac.worlds.streams import Stream

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
    return Training(config, tasks.make_env(config))


@pytest.fixture(scope="module", params=[False, True], ids=["in turns", "overlapping"])
def unbroken(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "unbroken"
    outcome = _train(folder, seeds=2, training__overlap=request.param)
    assert outcome.finished
    return folder, request.param


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
        return len(training.runs), {(row.seed, row.name): row.value for row in rows if not row.name.startswith("eval/")}

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


def test_how_large_a_checkpoint_is_is_known_before_it_is_written():
    training = _training(adjacency__source="none")
    size = checkpoint_size(training)
    seen = []
    for _ in range(50):
        seen.append((size(), sum(array.nbytes for array in training.snapshot().values())))
        training.round()
    first, last = seen[0], seen[-1]
    assert last[0] > 2 * first[0]  # it grows
    assert seen[-1][0] == seen[-2][0]  # until the replay is full
    np.testing.assert_allclose(*np.transpose(seen), rtol=0.1)


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


def test_a_loaded_policy_plays_as_the_evaluation_does(unbroken):
    policy = hrac.load(unbroken[0], seed=1)
    played = policy.player.evaluate(3, random_seed=7)
    returns, env = [], policy.task.evaluation().batch(3)
    first = env.reset(seeds=copy_seeds((7,), 3, Stream.EVAL))
    for copy in range(3):
        policy.reset()
        obs, total, done = first[copy], 0.0, False
        while not done:
            action = policy.act({"observation": obs, "desired_goal": env.context[copy]})
            step = env.step(action[None], [copy])
            obs, total, done = step.obs[0], total + step.reward[0], bool(step.terminated[0] or step.truncated[0])
        returns.append(total)
    np.testing.assert_allclose(returns, played["eval/return"][0], rtol=1e-5)
    assert [evaluation.seed for evaluation in hrac.evaluate(unbroken[0], episodes=2)] == [0, 1]


@pytest.mark.parametrize(("observation", "message"), [(np.zeros(5), r"shape \(7,\)"), (np.full(7, np.nan), "finite")])
def test_a_policy_refuses_what_is_no_observation(unbroken, observation, message):
    with pytest.raises(ValueError, match=message):
        hrac.load(unbroken[0], seed=0).act(observation)


def test_overlapping_rounds_act_with_the_policies_before_the_last_learning():
    training = _training(training__overlap=True, manager__start_fraction=0.05)
    training.pretrain()
    copied = lambda actors: jax.tree.map(np.array, actors)  # noqa: E731
    used, original = [], training.world.collect
    training.world.collect = lambda actors, *rest: (used.append(copied(actors)), original(actors, *rest))[1]
    after = [copied(training.actors())]
    for _ in range(6):
        training.round()
        after.append(copied(training.actors()))
    same = lambda a, b: all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))  # noqa: E731
    assert not same(after[-1], after[-2])  # something was learned
    assert [same(used[n], after[max(n - 1, 0)]) for n in range(6)] == [True] * 6


def test_the_next_round_is_collected_while_learning_is_handed_to_the_device():
    training = _training(training__overlap=True, manager__start_fraction=0.05)
    training.pretrain()
    while not training.ready().all():
        training.round()
    collecting, waited = threading.Event(), []
    learned, collect = training.learned, training.world.collect
    training.learned = lambda *round: (waited.append(collecting.wait(60)), learned(*round))[1]
    training.round()
    training.world.collect = lambda *round: (collecting.set(), collect(*round))[1]
    training.round()
    assert waited[0]


def test_an_error_of_learning_beside_a_round_is_raised():
    training = _training(training__overlap=True)
    training.pretrain()
    training.learned = lambda *_: {}["no memory"]
    training.round()
    for _ in range(2):  # it is not forgotten
        with pytest.raises(KeyError, match="no memory"):
            training.evaluate()


def test_runs_may_start_to_learn_in_different_rounds(monkeypatch):
    """Windows that end early fill one run's buffer before another's: together or apart, each learns from its own round on."""
    config = _config(seeds=[0, 1, 2], manager__start_fraction=0.0525, manager__batch_size=8, training__envs_per_run=2)
    task = dataclasses.replace(tasks.make_env(config), ends_on_success=True, success_radius=3.0)

    def manager_bias(training):
        return np.array(join(training.actors()).manager.biases[-1])

    def learned(mapped):
        if mapped:
            monkeypatch.setattr(jax, "default_backend", lambda: "an accelerator")
        training = Training(config, task)
        training.pretrain()
        history = []
        for _ in range(6):
            before, ready = manager_bias(training), training.ready()
            training.round()
            history.append((ready.tolist(), np.any(before != manager_bias(training), axis=-1).tolist()))
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
    agent = training.runs[1].agent
    broken = jax.tree.map(lambda leaf: leaf.at[...].set(jnp.nan), agent.controller.actor)
    training.runs[1] = training.runs[1]._replace(agent=agent._replace(controller=agent.controller._replace(actor=broken)))
    with pytest.raises(DivergedError, match=r"controller.*of seed 1 is not finite after step 400"):
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


def test_reading_a_checkpoint_tells_a_resumed_run_how_long_the_next_may_take(tmp_path, monkeypatch):
    _train(tmp_path / "run", steps=800)
    asked = []
    look = lambda self: asked.append((self._save, self._saved_size, self._size()))  # noqa: E731
    monkeypatch.setattr(stop.Deadline, "__call__", look)
    assert hrac.resume(tmp_path / "run", steps=880, display=Silent()).finished
    assert asked[0][0] > 0
    assert asked[0][1] == asked[0][2] > 10_000


def test_threads_that_suited_the_machine_of_the_training_are_not_kept(tmp_path):
    _train(tmp_path / "run", steps=440, training__env_threads=3)
    path = tmp_path / "run" / "policy" / "seed-0.safetensors"
    assert checkpoint.load(path, "policy")[1]["config"]["training"]["env_threads"] == 3
    assert hrac.load(path).config.training.env_threads is None


def test_an_episode_can_be_drawn(unbroken, tmp_path):
    policy = hrac.load(unbroken[0], seed=0)
    seed, (episode, sketches) = next((s, w) for s in range(20) if len((w := policy.player.watch(s))[0].reward) > 4)
    assert len(sketches) == len(episode.reward) + 1 <= 31
    space = policy.setup.space
    asked = space.target(episode.subgoal, space.phi(episode.obs))
    np.testing.assert_allclose(asked[0], asked[3], atol=1e-5)  # one subgoal for k = 4 steps
    policy.draw(tmp_path / "picture.png", seed)
    assert (tmp_path / "picture.png").stat().st_size > 10_000


@pytest.mark.parametrize(("task", "objects"), [("ant-maze-sparse", 0), ("ant-gather", 16)])  # Ant Maze: see the golden runs
def test_an_ant_can_be_trained_played_and_drawn(task, objects, tmp_path):
    settings = {name: value for name, value in TINY.items() if name != "env__layout"}
    outcome = hrac.train(task, steps=800, out=tmp_path / "run", display=Silent(), **settings)
    assert outcome.finished
    names = {row.name for row in log.read(tmp_path / "run") if row.step == 800}
    assert {"controller/critic_loss", "manager/critic_loss", "manager/corrected", "eval/return"} <= names
    succeeds = {"ant-maze": {"eval/success"}, "ant-maze-sparse": {"eval/success", "train/success"}, "ant-gather": set()}
    assert {name for name in names if "success" in name} == succeeds[task]
    policy = hrac.load(tmp_path / "run")
    episode, sketches = policy.player.watch(0)
    assert len(sketches) == len(episode.reward) + 1
    assert sorted(kind for *_, kind in sketches[0].things) == ["apple"] * (objects // 2) + ["bomb"] * (objects // 2)
    policy.draw(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000
