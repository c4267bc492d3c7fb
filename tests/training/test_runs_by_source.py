"""Whole trainings with each source of pairs, small enough for seconds; one of them learns no adjacency at all."""

import numpy as np
import pytest

import hrac
from hrac.adjacency import learn as adjacency_learn
from hrac.adjacency import network
from hrac.config import ConfigError, replace
from hrac.envs.grid import Maze
from hrac.envs.hosted import Hosted
from hrac.experiments import tasks
from hrac.folder import log
from hrac.folder.progress import Silent
from hrac.training.state import Training
from hrac.worlds.device import DeviceWorld
from hrac.worlds.host import HostWorld

TINY = {
    "k": 4,
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
    "training__eval_every_env_steps": 200,
    "training__checkpoint_every_env_steps": 320,
    "training__eval_episodes": 3,
}
TASKS = {
    "maze": {"env__layout": "#####\n#A..#\n###.#\n#G..#\n#####", "env__time_limit": 30},
    "point-maze": {
        "env__layout": "####\n#A.#\n##.#\n####",
        "env__time_limit": 30,
        "controller__batch_size": 16,
        "controller__buffer_steps": 500,
        "manager__correction_candidates": 3,
    },
}


def _train(task, source, folder, steps=800):
    settings = TINY | TASKS[task] | {"adjacency__source": source}
    return hrac.train(task, steps=steps, seeds=2, out=folder, display=Silent(), **settings)


def _forbid(monkeypatch, *places):
    for place, name in places:
        monkeypatch.setattr(place, name, lambda *_, n=name, **__: pytest.fail(f"{n} was called"))


@pytest.mark.parametrize("task", TASKS)
def test_without_a_source_no_adjacency_is_learned_and_all_else_works(task, tmp_path, monkeypatch):
    _forbid(
        monkeypatch,
        (adjacency_learn, "train"),
        (network, "init"),
        (network, "update"),
        (network, "distance"),
        (DeviceWorld, "random_walk"),
        (HostWorld, "random_walk"),
    )
    folder = tmp_path / "run"
    assert _train(task, "none", folder).finished
    rows = log.read(folder)
    assert [row.step for row in rows if row.name == "eval/return" and row.seed == 1] == [0, 200, 400, 600, 800]
    names = {row.name for row in rows}
    assert {"manager/critic_loss", "train/intrinsic_reward", "eval/subgoal_miss"} <= names
    assert not [name for name in names if "adjacen" in name or "too_far" in name]

    _train(task, "none", tmp_path / "cut", steps=440)
    hrac.resume(tmp_path / "cut", steps=800, display=Silent())
    assert (tmp_path / "cut" / "metrics.csv").read_bytes() == (folder / "metrics.csv").read_bytes()

    policy = hrac.load(folder, seed=1)
    assert policy.actors.embedding is None
    observation = np.ones(policy.setup.obs_dim)
    actions = [policy.act(observation) for _ in range(3)]
    assert np.isfinite(actions).all()
    (evaluation,) = hrac.evaluate(folder, episodes=2, seed=1)
    assert evaluation.means.keys() == {name for name in names if name.startswith("eval/")}
    policy.draw(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5_000


@pytest.mark.parametrize("source", ["oracle", "trajectories"])
def test_a_run_of_another_source_cut_in_two_gives_the_same_metrics_to_the_byte(source, tmp_path):
    _train("maze", source, tmp_path / "whole")
    _train("maze", source, tmp_path / "cut", steps=440)
    hrac.resume(tmp_path / "cut", steps=800, display=Silent())
    assert (tmp_path / "cut" / "metrics.csv").read_bytes() == (tmp_path / "whole" / "metrics.csv").read_bytes()
    rows = log.read(tmp_path / "whole")
    begins = 0 if source == "oracle" else 400  # an oracle needs no random behaviour to learn from
    assert [row.step for row in rows if row.name == "adjacency/loss" and row.seed == 0] == list(range(begins, 801, 200))
    accuracy = [row.value for row in rows if row.name == "adjacency/accuracy"]
    assert all(0 <= value <= 1 for value in accuracy)
    assert {row.name for row in rows if row.name.startswith("adjacency/")} == {
        *("adjacency/loss", "adjacency/accuracy", "adjacency/cells"),
        *(("adjacency/pairs",) if source == "oracle" else ()),
    }


def test_not_every_environment_knows_its_distances():
    config = replace(tasks.config_for("maze"), {"adjacency.source": "oracle"})
    with pytest.raises(ConfigError, match=r"adjacency\.source must be 'none', 'table' or 'trajectories' here, got 'oracle'"):
        Training(config, Hosted(Maze()))


def test_an_oracle_teaches_the_true_relation(tmp_path):
    """Seven cells in a row: after some hundred gradient steps nearly all of the pairs are judged right."""
    settings = TINY | TASKS["maze"] | {"adjacency__source": "oracle", "adjacency__hidden": (64,)}
    settings |= {"adjacency__pretrain_epochs": 1000, "adjacency__learning_rate": 2e-3}
    hrac.train("maze", steps=440, out=tmp_path / "run", display=Silent(), **settings)
    first = next(row.value for row in log.read(tmp_path / "run") if row.name == "adjacency/accuracy")
    assert first > 0.95
