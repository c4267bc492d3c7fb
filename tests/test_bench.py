import re

import pytest

from hrac import cli
from hrac.config import replace
from hrac.experiments import bench, tasks

TINY = {
    "k": 4,
    "manager.hidden": (16,),
    "manager.buffer_windows": 400,
    "manager.batch_size": 16,
    "controller.hidden": (16,),
    "adjacency.hidden": (16,),
    "training.round_env_steps": 40,
    "training.envs_per_run": 2,
    "training.eval_episodes": 3,
}
OVERLAPPING = {
    "manager.start_fraction": 0.1,
    "controller.buffer_steps": 1000,
    "controller.batch_size": 16,
    "training.overlap": True,
}


@pytest.mark.parametrize(
    ("task", "changes", "how"),
    [
        ("maze", {"env.layout": "#####\n#A.G#\n#####", "adjacency.source": "none"}, "1 seed(s) of 2 copies"),
        ("point-maze", OVERLAPPING, "1 seed(s) of 2 copies, collecting while learning"),
    ],
)
def test_the_benchmark_tells_the_speed_of_a_round_and_of_everything(task, changes, how, monkeypatch):
    monkeypatch.setattr(bench, "QUICK", {"adjacency.pretrain_env_steps": 400, "adjacency.pretrain_epochs": 1})
    lines = list(bench.training(replace(tasks.config_for(task), TINY | changes), 2))
    assert lines[1].startswith(f"rounds of 40 steps, {how}: ")
    assert re.fullmatch(r"a round takes [\d,.]+ ms; collecting alone [\d,.]+ ms, learning alone [\d,.]+ ms", lines[2])
    assert re.fullmatch(r"evaluation [\d.]+ s every [\d,]+ steps, adjacency [\d.]+ s every [\d,]+", lines[3])
    speeds = [float(line.split(": ")[1].split(" steps/s")[0].replace(",", "")) for line in (lines[1], lines[4])]
    assert 0 < speeds[1] <= speeds[0]  # everything is more than the rounds
    assert lines[5].startswith("peak memory: ")


def test_any_setting_can_be_measured(monkeypatch):
    measured = []
    monkeypatch.setattr(bench, "training", lambda config, rounds: measured.append((config, rounds)) or iter(()))
    assert cli._main(["bench", "maze", "--rounds", "7", "--set", "manager.eta=3", "manager.hidden=[8,8]", "--seeds", "2"]) == 0
    ((config, rounds),) = measured
    assert (config.manager.eta, config.manager.hidden, config.seeds, rounds) == (3.0, (8, 8), (0, 1), 7)
