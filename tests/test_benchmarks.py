"""The scripts of `benchmarks/`, as far as they take no time."""

import importlib.util
import json
import re
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hrac
from hrac.agents import td3
from hrac.config import replace
from hrac.experiments import tasks
from hrac.folder.reading import read_series
from hrac.runs import join
from tiny import TWO_TD3

FOLDER = Path(__file__).parents[1] / "benchmarks"


def _script(name):
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_speed_of_ants_is_compared_with_the_physics_alone(monkeypatch):
    script = _script("speed_of_ants")
    monkeypatch.setattr(script, "COPIES", (1, 2))
    monkeypatch.setattr(script, "MANY", (2, 4))
    lines = list(script.environment("ant-gather", seconds=0.05))
    assert lines[1].startswith("one ant in a loop of mj_step: ")
    rows = [line.split() for line in lines if line.strip()[:1].isdigit()]
    table = [row for row in rows if len(row) == 5]
    assert {row[0] for row in table} == {"1", "2"}
    assert all(float(row[2].replace(",", "")) > 0 and float(row[3].replace(",", "")) > 0 for row in table)
    assert [row[0] for row in rows if row[-1] == "GB"] == ["2", "4"]


def test_the_speed_of_ants_wants_ants():
    with pytest.raises(SystemExit, match="Tasks with ants are: ant-maze, ant-maze-sparse, ant-gather"):
        list(_script("speed_of_ants").environment("maze"))


def test_the_speed_of_adjacency_is_told_with_its_size():
    lines = list(_script("speed_of_adjacency").adjacency(cells=16, k=2))
    assert lines[1].startswith("16 explored cells, ")
    assert "training of the network, 3 gradient steps" in lines[3]  # 136 pairs in minibatches of 64


def test_the_quiet_critic_is_measured_by_the_slope_of_its_value_and_the_size_of_its_weights():
    script = _script("quiet_critic")
    ahead = jnp.linspace(-1.0, 1.0, 8)
    seen = script.Experience(ahead[:, None], ahead[:, None], ahead)
    state = td3.init(jax.random.key(0), 1, 2, script.manager.settings(tasks.config_for("ant-gather"))._replace(hidden=(4,)))
    batch = script.windows(jax.random.key(0), seen, jnp.asarray(1.0))
    assert set(np.unique(batch.reward)) == {-1.0, 0.0, 1.0}
    assert batch.obs.shape == (script.BATCH, 1)
    correlation, size = script.agreement(state, seen)
    assert -1.0 <= float(correlation) <= 1.0
    leaves = np.concatenate([np.abs(leaf).ravel() for leaf in jax.tree.leaves(state.critics[0])])
    np.testing.assert_allclose(size, leaves.mean(), rtol=1e-5)


def test_the_picture_of_the_theory_is_drawn(tmp_path, monkeypatch):
    script = _script("theory_picture")
    monkeypatch.setattr(script, "NOISE", 0.0)  # without chance there is little to reckon
    script.main(tmp_path / "theory.png")
    assert (tmp_path / "theory.png").read_bytes().startswith(b"\x89PNG")


def test_the_worlds_with_one_way_doors_are_worlds(tmp_path):
    script = _script("one_way_doors")
    for task, layout in script.WORLDS.items():
        changes = {name.replace("__", "."): value for name, value in script.SETTINGS.items()} | {"env.layout": layout}
        world = tasks.make_env(replace(tasks.config_for(task), changes))
        assert (world.cell_distances != world.cell_distances.T).any()
    (tmp_path / "metrics.csv").write_text(
        "seed,step,name,value\n"
        "0,0,adjacency/accuracy,0.9\n0,50000,eval/success,0.6\n0,90000,eval/success,0.8\n0,90000,eval/subgoal_within_k,1.0\n"
    )
    assert script.row("maze", "directed", tmp_path) == "| maze | directed | 0.80 | 0.80 | 50,000 | 100 % | 0.90 |"


def test_what_the_manager_of_frozen_lake_does_is_told(capsys, monkeypatch):
    tiny = {"manager.hidden": (8,), "controller.hidden": (8,), "adjacency.hidden": (8,), "adjacency.pretrain_env_steps": 400}
    tiny |= {"training.eval_every_env_steps": 400, "training.eval_episodes": 2}
    settings = ["--seeds", "1", "--steps", "480", "--settings", json.dumps(tiny)]
    monkeypatch.setattr(sys, "argv", ["frozen_lake.py", *settings])
    _script("frozen_lake").main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("step 400, seed 100: success ")
    assert re.fullmatch(r"    at \(0, 0\): \([\d.]+, [\d.]+\), value -?[\d.]+; most valued: \(\d, \d\), -?[\d.]+", lines[1])
    assert [line.split(",")[0] for line in lines if line.startswith("step")] == ["step 400", "step 480"]


def test_the_slow_point_goes_as_far_in_a_window_as_an_ant_and_its_runs_are_told(capsys, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    script = _script("slow_point")
    points = script.make({}).batch(1)
    starts = points.reset(seeds=[0])
    for _ in range(10):
        obs = points.step([[1.0, 0.0]]).obs
    assert 0.7 < obs[0, 0] - starts[0, 0] < 1.0  # from rest; 1.0 at full speed
    script.table()
    runs, parts = (table.splitlines() for table in capsys.readouterr().out.split("\n\n"))
    assert runs[0].split(" | ")[1:] == [*list(script.RUNS)[:-1], f"{list(script.RUNS)[-1]} |"]
    assert runs[-1].startswith("| 300,200 | 100% | ")
    assert parts[0].startswith("| step | `hrac-plus` | eta-2 | no-hindsight | ")
    assert [row.split("|")[2] for row in parts[2:-1]] == [row.split("|")[-2] for row in runs[2:]]  # the same run
    assert parts[-1].startswith("| mean of all | 78% (")


def test_averages_beside_the_newest_actors_are_those_of_the_setting(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    script = _script("averaging")
    settings = {name.replace("__", "."): value for name, value in TWO_TD3.items()} | {"training.total_env_steps": 1200}
    config = replace(tasks.config_for("point-maze"), settings)
    script.train(config, tmp_path / "averages", lengths=(200,))
    outcome = hrac.run(replace(config, {"training.averaging_env_steps": 200}), tmp_path / "run", hrac.Silent())
    folders = outcome.folder, tmp_path / "averages" / "200", tmp_path / "averages" / "newest"
    expected, found, newest = (read_series(folder, "eval/return") for folder in folders)
    assert found.steps.tolist() == [800, 1200]
    np.testing.assert_allclose(found.values, expected.values[:, -2:], rtol=1e-3)
    assert newest.steps.tolist() == expected.steps.tolist()
    assert newest.values[0, -1] != found.values[0, -1]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nope"], "task: there is no 'nope'"),
        (["slow-point", "--steps", "1000"], "training.total_env_steps"),
        (["slow-point", "--lengths", "0"], "--lengths: different whole numbers from 1 up, got 0"),
        (["slow-point", "--lengths", "5", "5"], "--lengths: different whole numbers from 1 up, got 5 5"),
        (["slow-point", "--set", "manager.eta=1,2"], "--set manager.eta: one value is wanted"),
        (["slow-point", "--set", "manager.etta=1"], "manager.etta"),
    ],
)
def test_averages_with_wrong_words_are_refused_in_one_line(words, told, capsys, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    with pytest.raises(SystemExit):
        _script("averaging").main([*words[:1], "--out", str(tmp_path / "run"), *words[1:]])
    assert told in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "run").exists()


def test_walking_ants_have_the_controller_of_the_package_and_keep_it_while_their_managers_learn(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    script = _script("walking_ant")
    seen = []

    def prepare(training):
        seen.append(training)
        script.give_legs(training)

    small = {"seeds": [0, 1], "training.total_env_steps": 1600, "training.eval_episodes": 1, "env.time_limit": 40}
    small |= {
        "manager.buffer_windows": 40,
        "manager.batch_size": 4,
        "manager.start_fraction": 0.2,
        "controller.buffer_steps": 800,
        "controller.batch_size": 4,
    }
    small |= {"manager.hidden": (8,), "adjacency.hidden": (8,), "adjacency.pretrain_env_steps": 800}
    config = replace(script.config_of("goes-on"), small)
    assert config.manager.bootstrap_at_time_limit
    script.averaging.train(config, tmp_path / "run", lengths=(), prepare=prepare)
    (training,) = seen
    assert training.ready().all()
    walker = hrac.load("ant-maze").actors
    for run in range(2):
        learned = jax.tree.map(lambda leaf, run=run: leaf[run], join(training.actors()))
        jax.tree.map(lambda now, then: np.testing.assert_allclose(now, then, atol=1e-10), learned.controller, walker.controller)
    managers = join([part.agent.manager for part in training.runs])
    assert not np.array_equal(managers.actor.weights[0], managers.target_actor.weights[0])


def test_staying_and_the_way_are_paid_by_hand_worked_numbers(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    script = _script("time_limit")
    assert script.cost(np.ones(15), windows=2) == pytest.approx(10 + 0.99 * 5)
    assert script.cost(np.ones(15), windows=1) == 10
    away = script.distances(per_window=10.0)  # 1 in a step: along the wall, past its end, and to the target
    np.testing.assert_allclose(away[[0, 11, 19]], [(1 + 12**2) ** 0.5, (12**2 + 12**2) ** 0.5, (12**2 + 4**2) ** 0.5])
    assert (len(away), away[-1]) == (33, 0.0)
    assert script.first_to_stay(per_window=0.1) == 0  # 5 along the wall until the end, away from the target


def test_the_tables_of_ablations_and_averages_are_told_from_stored_runs(capsys, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    text = (FOLDER / "README.md").read_text()
    for name in ("ablations", "averaging", "time_limit"):
        _script(name).table()
        told = capsys.readouterr().out
        assert "| 250," in told
        for line in told.splitlines():
            assert line in text


def test_ants_with_no_torque_stay_and_with_all_of_it_walk_as_in_an_evaluation(capsys):
    script = _script("less_torque")
    player = hrac.load("ant-maze-sparse").player
    sums = player.evaluate(2, script.RANDOM_SEED)
    assert script.means(player, 30.0, 2) == {name: total.sum() / weight.sum() for name, (total, weight) in sums.items()}
    script.table(("ant-maze-sparse",), (1e-6,), 2)
    _, _, row = capsys.readouterr().out.splitlines()
    assert row.startswith("| ant-maze-sparse | 1e-06 | 0.0% | ")
    assert float(row.split("|")[-2]) < 0.05
