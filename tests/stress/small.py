"""Trainings of a few seconds, and what is left of them."""

import jax
import numpy as np

import hrac
from hrac.folder import checkpoint

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
    "training__checkpoint_every_env_steps": 120,
}
TWO_TD3 = SMALL | {"controller__batch_size": 16, "controller__buffer_steps": 500, "training__envs_per_run": 2}
RUNS = {
    "maze": ("maze", SMALL | {"env__layout": "#####\n#A..#\n###.#\n#G..#\n#####"}),
    "point-maze": ("point-maze", TWO_TD3),
    "point-maze-overlap": ("point-maze", TWO_TD3 | {"training__overlap": True}),
    "ant-maze": ("ant-maze", TWO_TD3 | {"env__time_limit": 40}),
}
STEPS = 1000


def train(name, folder, seeds=2):
    """One of `RUNS`, from the start or from where it was cut off."""
    task, settings = RUNS[name]
    if (folder / "config.json").exists():
        return hrac.resume(folder, display=hrac.Silent())
    return hrac.train(task, steps=STEPS, seeds=seeds, out=folder, display=hrac.Silent(), **settings)


def assert_same(folder, other):
    """Two runs have the same metrics, newest and best policies, and complete state."""
    assert (folder / "metrics.csv").read_bytes() == (other / "metrics.csv").read_bytes()
    names = [f"{place}/{path.name}" for place in ("policy", "best") for path in (other / place).iterdir()]
    for kind, name in [("checkpoint", "checkpoint.safetensors"), *(("policy", name) for name in names)]:
        (ours, facts), (theirs, known) = (checkpoint.load(run / name, kind) for run in (folder, other))
        assert facts == known
        jax.tree.map(np.testing.assert_array_equal, ours, theirs)


def everything(folder):
    """All files below a folder, with their content."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}
