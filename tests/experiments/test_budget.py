"""Memory is reckoned before it is taken."""

import jax
import numpy as np
import pytest

import hrac
from hrac.config import replace
from hrac.experiments import budget, tasks
from hrac.experiments.budget import OutOfMemoryError
from hrac.runs import join
from hrac.training import session
from hrac.training.state import Training

GIGABYTE = 10**9


def _needs(task, changes):
    config = replace(tasks.config_for(task), changes)
    return config, budget.needs(config, budget.sizes_of(tasks.make_env(config)))


def _bytes(tree):
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree))


@pytest.mark.parametrize("task", ["maze", "point-maze", "ant-maze"])
def test_buffers_and_networks_are_about_as_large_as_they_are(task):
    config, needs = _needs(task, {"manager.buffer_windows": 5000, "manager.start_fraction": 0.5, "seeds": [0, 1]})
    training = Training(config, tasks.make_env(config))
    held = [jax.tree.map(lambda leaf: leaf.nbytes, part) for part in training.runs]
    replay = sum(sum(jax.tree.leaves(part.replay)) for part in held)
    agent = sum(sum(jax.tree.leaves(part.agent)) for part in held) + _bytes(join(training.actors()))  # of the best evaluation
    stored = needs["manager.buffer_windows"] + needs.get("controller.buffer_steps", 0)
    assert stored == pytest.approx(replay, rel=0.2)
    assert sum(needs[f"{level}.hidden"] for level in ("manager", "controller", "adjacency")) == pytest.approx(agent, rel=0.5)


def test_ways_are_counted_by_the_cells_of_goal_space():
    config, needs = _needs("point-maze", {"manager.way_pull": 1.0, "seeds": [0, 1]})
    training = Training(config, tasks.make_env(config))
    assert needs["manager.way_pull"] == 2 * sum(part.agent.ways.nbytes for part in training.runs)
    assert "manager.way_pull" not in _needs("point-maze", {})[1]


def test_the_best_policies_are_counted_beside_the_newest(monkeypatch):
    config = replace(tasks.config_for("point-maze"), {"adjacency.directed": True})
    env = tasks.make_env(config)
    training = Training(config, env)
    training.best.see({"eval/return": np.zeros(1)}, join(training.actors()), 0)
    monkeypatch.setattr(budget, "LEARNED", 0)
    counted = sum(budget.networks(config, budget.sizes_of(env)).values())
    assert counted == pytest.approx(_bytes(training.best.actors), rel=0.05)


@pytest.mark.parametrize(
    ("task", "changes"),
    [
        ("maze", {"manager.buffer_windows": 2_000_000_000}),
        ("ant-maze", {"controller.buffer_steps": 1_000_000_000}),
        ("maze", {"manager.hidden": [10_000] * 16}),
        ("maze", {"controller.hidden": [10_000] * 16}),
        ("maze", {"adjacency.hidden": [10_000] * 16}),
        ("maze", {"adjacency.batch_size": 1_000_000}),
        ("maze", {"training.eval_episodes": 1_000_000}),
        ("ant-maze", {"training.round_env_steps": 100_000, "controller.batch_size": 1_000}),
        ("ant-maze", {"manager.correction_candidates": 10_000}),
        ("maze", {"seeds": list(range(10_000))}),
    ],
)
def test_what_cannot_fit_is_refused_with_the_field_the_need_and_what_there_is(task, changes, tmp_path, monkeypatch):
    monkeypatch.setattr(budget, "available", lambda: 16 * GIGABYTE)
    settings = {name.replace(".", "__"): value for name, value in changes.items()}
    field = "hidden" if "seeds" in changes else list(changes)[-1 if task == "ant-maze" else 0]
    message = rf"this needs about [\d,.]+ GB of memory, and 16.0 GB are free\. Most of it is for .*{field}"
    with pytest.raises(OutOfMemoryError, match=message):
        hrac.train(task, out=tmp_path / "run", display=hrac.Silent(), **settings)
    assert list(tmp_path.iterdir()) == []


def test_an_accelerator_counts_too(monkeypatch):
    device = type("Device", (), {"memory_stats": lambda self: {"bytes_limit": 2 * GIGABYTE, "bytes_in_use": GIGABYTE}})
    monkeypatch.setattr(jax, "devices", lambda: [device()])
    assert budget.available() == GIGABYTE


def test_memory_in_containers(tmp_path):
    assert budget._container_memory(tmp_path, 7) == 7
    (tmp_path / "memory.stat").write_text("anon 5\nfile 300\n")
    (tmp_path / "memory.current").write_text("1000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert budget._container_memory(tmp_path, 7) == 7
    (tmp_path / "memory.max").write_text("5000\n")
    assert budget._container_memory(tmp_path, 7) == 4300


@pytest.mark.parametrize(
    "error",
    [
        jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: 7 bytes"),
        jax.errors.JaxRuntimeError("INTERNAL: Error dispatching computation: Out of memory allocating 7 bytes."),
        MemoryError(),
    ],
)
def test_where_memory_ends_all_the_same_the_message_says_what_to_reduce(error, tmp_path, monkeypatch):
    def exhausted(*_):
        raise error

    monkeypatch.setattr(session, "Training", exhausted)
    with pytest.raises(OutOfMemoryError, match=r"there is no more memory\. Most of it is for .* = .*, for 1 seed"):
        hrac.train("maze", out=tmp_path / "run", display=hrac.Silent())
    assert list(tmp_path.iterdir()) == []


def test_other_errors_of_the_device_stay_what_they_are():
    config, needs = _needs("maze", {})
    with pytest.raises(jax.errors.JaxRuntimeError), budget.explaining(config, needs):
        raise jax.errors.JaxRuntimeError("INTERNAL: something else")
    assert np.isfinite(sum(needs.values()))
