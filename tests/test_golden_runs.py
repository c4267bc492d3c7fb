"""Six tiny trainings whose `metrics.csv` is kept: nothing may move a bit of them unnoticed.

The files were made on one kind of machine, whose fingerprint is beside them. There they must agree byte for byte. Elsewhere
another processor rounds differently and learning makes that grow: there only what was logged when is compared, and the numbers
of the first adjacency network within one part in a hundred.

Make them anew, after a change that is meant to alter numbers:  python tests/test_golden_runs.py
"""

import json
import os
import platform
import sys
import tempfile
from pathlib import Path

import jax
import numpy as np
import pytest

import hrac
from hrac.compiled import _processor

FOLDER = Path(__file__).parent / "golden" / "runs"
MACHINE = FOLDER / "machine.json"

SMALL = {
    "k": 4,
    "manager__hidden": (16, 16),
    "manager__buffer_windows": 200,
    "manager__start_fraction": 0.2,
    "manager__batch_size": 16,
    "controller__hidden": (16, 16),
    "adjacency__hidden": (16,),
    "adjacency__pretrain_env_steps": 400,
    "adjacency__pretrain_epochs": 3,
    "adjacency__update_every_env_steps": 400,
    "adjacency__update_epochs": 2,
    "training__round_env_steps": 40,
    "training__eval_every_env_steps": 200,
    "training__eval_episodes": 4,
    "training__checkpoint_every_env_steps": 100_000,
}
TWO_TD3 = SMALL | {"controller__batch_size": 16, "controller__buffer_steps": 500, "training__envs_per_run": 2}
RUNS = {
    "maze": ("maze", 1200, SMALL | {"env__layout": "#####\n#A..#\n###.#\n#G..#\n#####"}),
    "key-chest": ("key-chest", 1200, SMALL | {"training__envs_per_run": 2, "manager__subgoals": "relative"}),
    "point-maze": ("point-maze", 1200, TWO_TD3),
    "point-maze-overlap": ("point-maze", 1200, TWO_TD3 | {"training__overlap": True}),
    "ant-maze": ("ant-maze", 1000, TWO_TD3 | {"env__time_limit": 40}),
    "ant-gather": ("ant-gather", 1000, TWO_TD3 | {"env__time_limit": 40}),
}


def _machine():
    about = {"processor": _processor(), "cores": os.cpu_count(), "python": platform.python_version_tuple()[:2]}
    return json.loads(json.dumps(about | {"jax": jax.__version__, "numpy": np.__version__}))


def _train(name, folder):
    task, steps, settings = RUNS[name]
    return hrac.train(task, steps=steps, seeds=2, out=folder, display=hrac.Silent(), **settings)


def _rows(text):
    return [line.split(",") for line in text.splitlines()[1:]]


@pytest.mark.parametrize("name", RUNS)
def test_a_tiny_training_gives_the_numbers_it_gave(name, tmp_path):
    outcome = _train(name, tmp_path / "run")
    assert outcome.finished
    found, kept = (tmp_path / "run" / "metrics.csv").read_text(), (FOLDER / f"{name}.csv").read_text()
    if _machine() == json.loads(MACHINE.read_text()):
        assert found == kept
        return
    assert [row[:3] for row in _rows(found)] == [row[:3] for row in _rows(kept)]
    for now, before in zip(_rows(found), _rows(kept), strict=True):
        if now[2].startswith("adjacency/") and now[1] == "400":
            assert float(now[3]) == pytest.approx(float(before[3]), rel=0.01), now


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        for name in sys.argv[1:] or RUNS:
            _train(name, Path(temporary) / name)
            (FOLDER / f"{name}.csv").write_bytes((Path(temporary) / name / "metrics.csv").read_bytes())
    MACHINE.write_text(json.dumps(_machine(), indent=2) + "\n")
