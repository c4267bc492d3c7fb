"""The whole method on a small maze: a test that fails when a sign is wrong in any loss.

`test_a_flipped_sign_is_noticed` (slow, run by hand) flips them one at a time and shows that it does.
"""

import jax
import numpy as np
import pytest

import hrac
from hrac.adjacency import network
from hrac.agents import a2c, td3
from hrac.folder import log
from hrac.folder.progress import Silent
from hrac.worlds.base import DivergedError

HAIRPIN = """\
########
#A.....#
######.#
#G.....#
########
"""
STEPS = 90_000
BOUNDS = {
    "eval/return": (1.0, 1.21),  # 12 moves: 1.2 is the best
    "eval/subgoal_within_k": (0.8, 1.01),
    "adjacency/accuracy": (0.95, 1.01),
    "controller/value_loss": (0.0, 1.0),
    "controller/entropy": (0.3, 1.3),
    # A controller that flees its subgoals can be steered too: only these two numbers tell.
    "eval/subgoal_miss": (0.0, 2.0),
    "train/intrinsic_reward": (0.03, 1.0),
}
"""Where the means of the last evaluations must lie."""

SETTINGS = {
    "k": 5,
    "env__layout": HAIRPIN,
    "env__time_limit": 100,
    "env__random_action_prob": 0.1,
    "manager__hidden": (64, 64),
    "manager__buffer_windows": 2_000,
    "manager__noise_sigma": 3.0,
    "manager__actor_learning_rate": 5e-4,
    "manager__soft_update_rate": 0.01,
    "controller__hidden": (64, 64),
    "controller__learning_rate": 1e-3,
    "controller__subgoals_shown_as": "displacement",
    "adjacency__hidden": (64, 64),
    "adjacency__learning_rate": 1e-3,
    "adjacency__pretrain_env_steps": 10_000,
    "adjacency__pretrain_epochs": 100,
    "adjacency__update_every_env_steps": 20_000,
    "adjacency__update_epochs": 100,
    "training__round_env_steps": 100,
    "training__envs_per_run": 5,
    "training__eval_every_env_steps": 5_000,
}


def _train(folder) -> dict[str, float]:
    """Train, and give back the means over the last four evaluations and both seeds."""
    hrac.train("maze", steps=STEPS, seeds=2, out=folder, display=Silent(), **SETTINGS)
    rows = [row for row in log.read(folder) if row.step > STEPS - 20_000]
    return {name: float(np.mean([row.value for row in rows if row.name == name])) for name in BOUNDS}


def _broken(numbers: dict[str, float]) -> list[str]:
    """Which of the bounds do not hold."""
    return [f"{name} = {numbers[name]:.3f}" for name, (low, high) in BOUNDS.items() if not low < numbers[name] < high]


def test_the_small_maze_is_solved(tmp_path):
    assert _broken(_train(tmp_path / "run")) == []


def _changed(original, change):
    """A loss function `(..., cfg) -> (loss, metrics)` with its loss changed."""

    def loss(*arguments):
        value, metrics = original(*arguments)
        return change(value, metrics, *arguments), metrics

    return loss


FLIPS = {
    "contrastive": (network, "contrastive_loss", lambda original: lambda *arguments: -original(*arguments)),
    "critic": (td3, "critic_loss", lambda original: _changed(original, lambda loss, *_: -loss)),
    "manager's value": (
        td3,
        "actor_loss",
        lambda original: _changed(original, lambda loss, metrics, *a: 2 * a[5].penalty_weight * metrics["penalty"] - loss),
    ),
    "manager's adjacency": (
        td3,
        "actor_loss",
        lambda original: _changed(original, lambda loss, metrics, *a: loss - 2 * a[5].penalty_weight * metrics["penalty"]),
    ),
    "controller's policy": (
        a2c,
        "loss",
        lambda original: _changed(original, lambda loss, metrics, *_: loss - 2 * metrics["controller/policy_loss"]),
    ),
    "controller's value": (
        a2c,
        "loss",
        lambda original: _changed(original, lambda loss, metrics, *_: loss - 2 * metrics["controller/value_loss"]),
    ),
    "controller's entropy": (
        a2c,
        "loss",
        lambda original: _changed(
            original, lambda loss, metrics, *a: loss + 2 * a[2].entropy_weight * metrics["controller/entropy"]
        ),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("which", FLIPS)
def test_a_flipped_sign_is_noticed(which, tmp_path, monkeypatch):
    module, name, flip = FLIPS[which]
    monkeypatch.setattr(module, name, flip(getattr(module, name)))
    jax.clear_caches()  # what was compiled knows the right signs
    try:
        broken = _broken(_train(tmp_path / "run"))
    except DivergedError as error:
        broken = [str(error)]
    finally:
        jax.clear_caches()
    print(f"{which}: {broken}")
    assert broken
