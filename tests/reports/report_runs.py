"""Run folders for the tests of reports, written by hand. Nothing is trained."""

import json

import jax
import numpy as np

from hrac import config as configs
from hrac.agents import agent as agents
from hrac.experiments.tasks import config_for, make_env
from hrac.training import policies
from hrac.worlds.make import make_setup

LAYOUT = "#####\n#A..#\n###.#\n#G..#\n#####"
TINY = {
    "k": 4,
    "env.layout": LAYOUT,
    "env.time_limit": 20,
    "manager.hidden": (16,),
    "controller.hidden": (16,),
    "adjacency.hidden": (16,),
}


def written(folder, rows, method="hrac", changes=None, about=None, timing=()):
    """A run folder without policies: rows are (seed, step, name, value)."""
    folder.mkdir(parents=True)
    config = configs.replace(config_for("maze", method), changes or {})
    (folder / "config.json").write_text(json.dumps({"config": configs.to_dict(config), **(about or {})}))
    lines = [",".join(map(str, row)) for row in rows]
    (folder / "metrics.csv").write_text("\n".join(["seed,step,name,value", *lines]) + "\n")
    if timing:
        times = [",".join(map(str, row)) for row in timing]
        (folder / "timing.csv").write_text("\n".join(["step,seconds,steps_per_second", *times]) + "\n")
    return folder


def with_policies(folder, rows, method="hrac", seeds=2, k=4):
    """A run folder with the policies of untrained networks, on a grid of 7 cells."""
    changes = TINY | {"seeds": tuple(range(seeds)), "k": k}
    written(folder, rows, method, changes, timing=[(0, 1.0, 0.0), (10_000, 3.0, 5000.0)])
    config = configs.replace(config_for("maze", method), changes)
    setup = make_setup(make_env(config), config)
    like = jax.eval_shape(lambda: agents.init(jax.random.key(0), setup).actors)
    rng = np.random.default_rng(3)
    actors = jax.tree.map(lambda leaf: rng.uniform(-0.5, 0.5, (seeds, *leaf.shape)).astype(leaf.dtype), like)
    policies.save(folder / "policy", actors, config, setup, None)
    better = jax.tree.map(lambda leaf: leaf + np.float32(0.1), actors)
    policies.save(folder / "best", better, config, setup, None, {seed: {"step": 10_000.0} for seed in range(seeds)})
    return folder


def renamed(folder, task=None, method=None):
    """The same folder, said to be of another task or method."""
    about = json.loads((folder / "config.json").read_text())
    about["config"] |= {name: value for name, value in (("task", task), ("method", method)) if value is not None}
    (folder / "config.json").write_text(json.dumps(about))
    return folder
