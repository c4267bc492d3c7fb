"""Whole trainings, small enough for seconds: determinism, resuming, interruption, divergence."""

import json
import os
import signal
import subprocess
import sys

import jax
import numpy as np
import pytest

import hrac
from hrac import api
from hrac.folder import checkpoint, log
from hrac.folder.files import CHECKPOINT
from hrac.folder.progress import Silent
from hrac.training import state, stop
from hrac.training.state import Training
from hrac.worlds.base import DivergedError

LAYOUT = "#####\n#A..#\n###.#\n#G..#\n#####"
TINY = {
    "k": 4,
    "env__layout": LAYOUT,
    "manager__hidden": (16,),
    "manager__buffer_windows": 200,
    "manager__start_fraction": 0.2,
    "manager__batch_size": 16,
    "controller__hidden": (16,),
    "adjacency__hidden": (16,),
    "adjacency__pretrain_env_steps": 400,
    "adjacency__pretrain_epochs": 3,
    "adjacency__update_every_env_steps": 500,
    "adjacency__update_epochs": 2,
    "training__round_env_steps": 40,
    "training__eval_every_env_steps": 200,
    "training__checkpoint_every_env_steps": 320,
    "training__eval_episodes": 5,
}


def _train(folder, steps=1600, **changes):
    return hrac.train("maze", steps=steps, out=folder, display=Silent(), **(TINY | changes))


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "unbroken"
    outcome = _train(folder, seeds=2)
    assert outcome.finished
    assert outcome.env_steps == 1600
    return folder


def test_a_run_folder_has_everything(unbroken):
    names = {path.name for path in unbroken.iterdir()}
    assert {"config.json", "metrics.csv", "timing.csv", "checkpoint.safetensors", "policy"} <= names
    assert {path.name for path in (unbroken / "tensorboard").iterdir() if path.is_dir()} == {"seed-0", "seed-1"}
    about = json.loads((unbroken / "config.json").read_text())
    assert about["config"]["seeds"] == [0, 1]
    assert about["versions"]["jax"] == jax.__version__
    assert {path.name for path in (unbroken / "policy").iterdir()} == {"seed-0.safetensors", "seed-1.safetensors"}


def test_all_the_promised_metrics_are_logged_for_every_seed(unbroken):
    rows = log.read(unbroken)
    names = {row.name for row in rows}
    assert names >= {
        *("eval/return", "eval/success", "eval/episode_length"),
        *("eval/subgoal_judged_adjacent", "eval/subgoal_within_k", "eval/subgoal_miss"),
        *("train/return", "train/success", "train/intrinsic_reward"),
        *("train/subgoal_judged_adjacent", "train/subgoal_within_k", "train/subgoal_miss"),
        *("controller/policy_loss", "controller/value_loss", "controller/entropy"),
        *("manager/critic_loss", "manager/value", "manager/too_far"),
        *("adjacency/loss", "adjacency/accuracy", "adjacency/cells", "adjacency/pairs"),
    }
    steps = [row.step for row in rows if row.name == "eval/return" and row.seed == 1]
    assert steps == [400, 600, 800, 1000, 1200, 1400, 1600]
    assert [row.step for row in rows if row.name == "adjacency/loss" and row.seed == 0] == [400, 520, 1000, 1520]
    assert all(0 <= row.value <= 1 for row in rows if "within_k" in row.name or "judged" in row.name or "success" in row.name)


def test_the_same_seed_gives_the_same_numbers_alone_or_beside_another(unbroken, tmp_path):
    _train(tmp_path / "alone", seeds=[1])
    alone = [line for line in (tmp_path / "alone" / "metrics.csv").read_text().splitlines() if line.startswith("1,")]
    beside = [line for line in (unbroken / "metrics.csv").read_text().splitlines() if line.startswith("1,")]
    assert alone == beside


def test_evaluating_more_often_does_not_change_what_is_learned(unbroken, tmp_path):
    _train(tmp_path / "more", seeds=[0], training__eval_every_env_steps=40, training__eval_episodes=7)
    ours, other = (hrac.load(folder, 0).actors.manager for folder in (tmp_path / "more", unbroken))
    jax.tree.map(np.testing.assert_array_equal, ours, other)


def test_mapped_runs_equal_runs_alone(monkeypatch, tmp_path):
    """What an accelerator does (one program for all runs) agrees with one program a run, up to rounding."""
    often = {"training__eval_every_env_steps": 40}
    _train(tmp_path / "apart", steps=520, seeds=2, **often)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    _train(tmp_path / "mapped", steps=520, seeds=2, **often)
    apart, mapped = ({row[:3]: row.value for row in log.read(tmp_path / name)} for name in ("apart", "mapped"))
    assert apart.keys() == mapped.keys()
    early = {row: value for row, value in apart.items() if row[1] <= 440}
    assert len(early) > 20
    for row, value in early.items():
        assert mapped[row] == pytest.approx(value, rel=1e-3, abs=1e-4), row


KILLED = """
import os, signal, sys, hrac
from hrac.training import state, stop
from hrac.worlds import device
from hrac.folder import checkpoint, log
count = 0
original = {target}
def counting(*args, **kwargs):
    global count
    count += 1
    if count == {at} and {before}:
        os.kill(os.getpid(), signal.SIGKILL)
    result = original(*args, **kwargs)
    if count == {at}:
        os.kill(os.getpid(), signal.SIGKILL)
    return result
{target} = counting
from hrac.folder.progress import Silent
hrac.train("maze", steps=1600, seeds=2, out=sys.argv[1], display=Silent(), **{settings!r})
"""


@pytest.mark.parametrize(
    ("target", "at", "before"),
    [
        ("device._random_walk", 1, True),  # before anything is saved
        ("state.learn_runs", 20, False),  # between two checkpoints
        ("checkpoint.save", 6, True),  # new policies without their checkpoint
        ("checkpoint.save", 6, False),  # right after a checkpoint
        ("checkpoint.save", 15, True),  # within the last of five saves
        ("log.RunLog.write", 8, False),  # metrics written that no checkpoint knows of
    ],
)
def test_a_killed_run_ends_as_if_it_had_not_been_killed(unbroken, tmp_path, target, at, before):
    folder = tmp_path / "killed"
    script = KILLED.format(target=target, at=at, before=before, settings=TINY)
    process = subprocess.run([sys.executable, "-c", script, str(folder)], capture_output=True, text=True, check=False)
    assert process.returncode == -signal.SIGKILL, process.stderr
    outcome = hrac.resume(folder, display=Silent())
    assert outcome.finished
    assert (folder / "metrics.csv").read_bytes() == (unbroken / "metrics.csv").read_bytes()
    for seed in (0, 1):
        ours, other = (hrac.load(path, seed).actors for path in (folder, unbroken))
        jax.tree.map(np.testing.assert_array_equal, ours, other)


def test_a_polite_interruption_saves_and_can_be_resumed(unbroken, tmp_path, monkeypatch):
    folder = tmp_path / "interrupted"
    count = 0
    original = Training.round

    def interrupting(self):
        nonlocal count
        original(self)
        count += 1
        if count == 13:  # in the middle of an evaluation interval
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Training, "round", interrupting)
    outcome = _train(folder, seeds=2)
    assert not outcome.finished
    assert outcome.interrupted
    assert outcome.env_steps == 400 + 13 * 40
    monkeypatch.undo()
    assert hrac.resume(folder, display=Silent()).finished
    assert (folder / "metrics.csv").read_bytes() == (unbroken / "metrics.csv").read_bytes()


def test_a_stop_in_the_middle_of_pre_training_ends_in_order_and_the_run_begins_anew(tmp_path, monkeypatch):
    folder = tmp_path / "early"

    monkeypatch.setattr(stop.Interrupted, "__call__", lambda self: True)  # somebody asked before anything was done
    outcome = _train(folder, steps=480)
    assert (outcome.finished, outcome.interrupted, outcome.env_steps) == (False, True, 0)
    monkeypatch.undo()
    assert hrac.resume(folder, display=Silent()).finished


def test_a_finished_run_can_be_made_longer(unbroken, tmp_path):
    folder = tmp_path / "longer"
    _train(folder, steps=800, seeds=2)
    assert hrac.resume(folder, steps=1600, display=Silent()).env_steps == 1600
    assert (folder / "metrics.csv").read_bytes() == (unbroken / "metrics.csv").read_bytes()
    assert api.read_config(folder).training.total_env_steps == 1600


@pytest.mark.parametrize("overlap", [False, True])
def test_a_nan_stops_the_run_and_says_what_where_and_when(overlap, tmp_path, monkeypatch):
    folder = tmp_path / "nan"
    original = state.learn_runs

    def poisoned(keys, runs, index, *rest, **static):
        runs, metrics = original(keys, runs, index, *rest, **static)
        if int(index) * 40 == 920:
            total, weight = metrics["manager/critic_loss"]
            metrics["manager/critic_loss"] = (total * np.float32("nan"), weight)
        return runs, metrics

    monkeypatch.setattr(state, "learn_runs", poisoned)
    message = (
        r"manager/critic_loss of seed 3 is nan in the round that ended at step 960\. The last good checkpoint is .*checkpoint"
    )
    with pytest.raises(DivergedError, match=message):
        _train(folder, seeds=[3], training__overlap=overlap)
    monkeypatch.undo()
    assert hrac.resume(folder, display=Silent()).finished


def test_a_weight_that_is_not_finite_is_never_saved(tmp_path, monkeypatch):
    folder = tmp_path / "inf"
    original = Training.round

    def poisoned(self):
        original(self)
        if self.env_steps == 640:
            part = self.runs[0]
            critic = part.agent.manager.critics[1]
            broken = jax.tree.map(lambda leaf: leaf.at[0].set(np.inf), critic)
            manager = part.agent.manager._replace(critics=(part.agent.manager.critics[0], broken))
            self.runs[0] = part._replace(agent=part.agent._replace(manager=manager))

    monkeypatch.setattr(Training, "round", poisoned)
    with pytest.raises(DivergedError, match=r"agent\.manager\.critics\[1\].* of seed 0 is nan .* step 640"):
        _train(folder)
    _, facts = checkpoint.load(folder / CHECKPOINT, "checkpoint")
    assert facts["env_steps"] == 400


def test_a_damaged_checkpoint_is_refused_and_nothing_is_touched(tmp_path):
    folder = tmp_path / "damaged"
    _train(folder, steps=480)
    path = folder / CHECKPOINT
    path.write_bytes(path.read_bytes()[:-100])
    before = {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}
    with pytest.raises(hrac.CheckpointError, match="damaged"):
        hrac.resume(folder, display=Silent())
    assert {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()} == before


def test_a_checkpoint_of_another_configuration_is_refused(tmp_path):
    _train(tmp_path / "one", steps=480)
    _train(tmp_path / "other", steps=480, manager__eta=1.0)
    (tmp_path / "one" / CHECKPOINT).write_bytes((tmp_path / "other" / CHECKPOINT).read_bytes())
    with pytest.raises(hrac.CheckpointError, match=r"another configuration: manager\.eta differ"):
        hrac.resume(tmp_path / "one", display=Silent())


def test_without_its_checkpoint_a_run_is_not_started_over(tmp_path):
    folder = tmp_path / "lost"
    _train(folder, steps=640)
    (folder / CHECKPOINT).unlink()
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    with pytest.raises(hrac.CheckpointError, match=r"has metrics up to step 640 but no checkpoint\.safetensors"):
        hrac.resume(folder, display=Silent())
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_runs_may_start_to_learn_at_different_times(tmp_path):
    config = api.tasks.config_for("maze", "hrac")
    changes = {name.replace("__", "."): value for name, value in TINY.items()} | {"seeds": [0, 1]}
    config = hrac.config.replace(config, changes)
    training = Training(config, api.tasks.make_env(config))
    training.pretrain()
    empty = jax.tree.map(np.array, training.runs[1].replay)
    for _ in range(5):  # the second run's buffer never fills
        training.round()
        training.runs[1] = training.runs[1]._replace(replay=jax.device_put(empty))
    np.testing.assert_array_equal(training.ready(), [True, False])
    rows = training.evaluate()
    assert {row.seed for row in rows if row.name == "manager/critic_loss"} == {0}
    assert {row.seed for row in rows if row.name == "train/intrinsic_reward"} == {0, 1}


def test_a_run_is_not_made_shorter_than_it_is(tmp_path):
    folder = tmp_path / "short"
    _train(folder, steps=640)
    before = (folder / "config.json").read_bytes()
    with pytest.raises(hrac.RunFolderError, match="already at step 640"):
        hrac.resume(folder, steps=480, display=Silent())
    assert (folder / "config.json").read_bytes() == before


def test_leftovers_of_a_cut_off_write_are_removed(tmp_path):
    folder = tmp_path / "left"
    _train(folder, steps=480)
    (folder / ".checkpoint.safetensors.abcdefgh.tmp").write_bytes(b"half")
    hrac.resume(folder, steps=520, display=Silent())
    assert not list(folder.rglob(".*.tmp"))


def test_timing_goes_on_where_the_checkpoint_was_made(tmp_path):
    folder = tmp_path / "timed"
    _train(folder, steps=600)
    timing = folder / "timing.csv"
    timing.write_text("step,seconds,steps_per_second\n400,1000.0,1.0\n600,2000.0,1.0\n800,9000.0,1.0\n1000,95")
    hrac.resume(folder, steps=1000, display=Silent())
    rows = [tuple(map(float, line.split(","))) for line in timing.read_text().splitlines()[1:]]
    assert [row[0] for row in rows] == [400, 600, 800, 1000]  # 800 and half of 1000 came after the checkpoint
    assert [row[1] for row in rows[:2]] == [1000.0, 2000.0]
    assert 2000.0 < rows[2][1] < rows[3][1] < 3000.0


def test_a_timing_file_that_cannot_be_read_is_refused_and_nothing_is_touched(tmp_path):
    folder = tmp_path / "untimed"
    _train(folder, steps=480)
    (folder / "timing.csv").write_text("step,seconds,steps_per_second\n400,soon\n")
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    with pytest.raises(log.LogError, match=r"timing\.csv, line 2 is not step,seconds,steps_per_second: '400,soon'"):
        hrac.resume(folder, display=Silent())
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_a_cut_metrics_file_is_refused(tmp_path):
    folder = tmp_path / "cut"
    _train(folder, steps=480)
    (folder / "metrics.csv").write_text("seed,step,name,value\n")
    with pytest.raises(log.LogError, match="its checkpoint knows of"):
        hrac.resume(folder, display=Silent())


def test_tensorboard_reads_the_same_numbers_also_after_a_resume(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = tmp_path / "resumed"
    _train(folder, steps=600)
    hrac.resume(folder, steps=1000, display=Silent())
    events, speed = EventAccumulator(str(folder / "tensorboard" / "seed-0")), EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    speed.Reload()
    ours = [(row.step, np.float32(row.value)) for row in log.read(folder) if row.name == "eval/return"]
    assert [step for step, _ in ours] == [400, 600, 800, 1000]
    assert [(event.step, np.float32(event.value)) for event in events.Scalars("eval/return")] == ours
    assert len(speed.Scalars("time/steps_per_second")) == 4
    settings = events.PluginTagToContent("hparams")
    assert b"manager.eta" in settings["_hparams_/session_start_info"]
    assert set(settings) == {"_hparams_/experiment", "_hparams_/session_start_info"}


class Heard(Silent):
    """Remembers what is said."""

    def __init__(self):
        self.lines = []

    def say(self, text):
        self.lines.append(text)


@pytest.mark.parametrize(
    ("steps", "said"),  # 400 random steps, then 40 windows of 4
    [
        (480, "nothing will be learned: learning starts at about step 560, and the run ends at 480 (--steps)"),
        (600, "learning starts at about step 560"),
    ],
)
def test_a_run_says_when_learning_starts_and_when_it_never_will(tmp_path, steps, said):
    display = Heard()
    hrac.train("maze", steps=steps, out=tmp_path / "run", display=display, **TINY)
    assert display.lines == ["random behaviour for 400 steps, first adjacency network ...", said]
    learned = "manager/critic_loss" in (tmp_path / "run" / "metrics.csv").read_text()
    assert learned == (steps > 560)


def test_the_search_is_made_in_the_updates_with_a_value_term_and_logged(tmp_path):
    """On Maze every second update has one."""
    _train(tmp_path / "run", 1200, manager__search_candidates=4, manager__value_scale="slope")
    distances = [row.value for row in log.read(tmp_path / "run") if row.name == "manager/search_distance"]
    assert distances
    assert all(0 < distance < 5 for distance in distances)
