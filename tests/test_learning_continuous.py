"""Both levels by TD3 on a small maze for a point: a test that fails when a sign is wrong.

`test_a_flipped_sign_is_noticed` (slow, run by hand) flips them one at a time and shows that it does. One is not among them,
that of the controller's next subgoal. Values hardly depend on the direction of a subgoal, so learning goes on without it; it is
checked by hand-worked numbers in `tests/agents/test_windows.py`.
"""

import jax
import numpy as np
import pytest

import hrac
from hrac.adjacency import network
from hrac.agents import manager, td3, windows
from hrac.folder import log
from hrac.folder.progress import Silent
from hrac.worlds.base import DivergedError

CORNER = """\
####
#A.#
##.#
####
"""
STEPS = 14_000
BOUNDS = {
    "eval/success": (0.95, 1.01),
    "eval/episode_length": (0.0, 15.0),  # of 60
    "eval/subgoal_miss": (0.0, 1.6),
    "eval/subgoal_judged_adjacent": (0.9, 1.01),
    "train/intrinsic_reward": (-1.5, 0.0),
    "controller/critic_loss": (0.0, 2.5),
    "manager/critic_loss": (0.0, 5.0),
    "manager/corrected": (0.3, 0.9),
    "adjacency/loss": (0.0, 0.05),
}
"""Where the means over the last evaluations must lie."""

SETTINGS = {
    "env__layout": CORNER,
    "env__time_limit": 60,
    "manager__hidden": (64,),
    "manager__actor_learning_rate": 1e-3,
    "manager__buffer_windows": 5_000,
    "manager__start_fraction": 0.02,
    "controller__hidden": (64,),
    "controller__learning_rate": 1e-3,
    "controller__buffer_steps": 20_000,
    "adjacency__hidden": (32, 32),
    "adjacency__pretrain_env_steps": 2_000,
    "adjacency__pretrain_epochs": 20,
    "adjacency__update_every_env_steps": 4_000,
    "adjacency__update_epochs": 10,
    "training__envs_per_run": 4,
    "training__eval_every_env_steps": 2_000,
    "training__eval_episodes": 40,
}


def _train(folder) -> dict[str, float]:
    """Train, and give back the means over the last evaluations and both seeds."""
    hrac.train("point-maze", steps=STEPS, seeds=2, out=folder, display=Silent(), **SETTINGS)
    rows = [row for row in log.read(folder) if row.step > STEPS - 4_000]
    return {name: float(np.mean([row.value for row in rows if row.name == name])) for name in BOUNDS}


def _broken(numbers: dict[str, float]) -> list[str]:
    """Which of the bounds do not hold."""
    return [f"{name} = {numbers[name]:.3f}" for name, (low, high) in BOUNDS.items() if not low < numbers[name] < high]


def test_the_small_point_maze_is_solved(tmp_path):
    assert _broken(_train(tmp_path / "run")) == []


def _flipped_actor_loss(controller: bool, value: bool):
    """The actor loss with the sign of one term of one level flipped; only the manager's has a penalty."""

    def flip(original):
        def loss(actor, critic, batch, actions, penalty, settings, *rest):
            total, metrics = original(actor, critic, batch, actions, penalty, settings, *rest)
            if (penalty is None) is not controller:
                return total, metrics
            too_far = settings.penalty_weight * metrics.get("penalty", 0.0)
            return (2 * too_far - total if value else total - 2 * too_far), metrics

        return loss

    return flip


def _flipped_critic_loss(original):
    def loss(*arguments):
        total, metrics = original(*arguments)
        return -total, metrics

    return loss


def _worst_candidate(original):
    def correct(draws, controller, batch, setup):
        """As if the candidate that explains least were chosen: actions are compared with their opposites."""
        return original(draws, controller, batch._replace(action=-batch.action), setup)

    return correct


FLIPS = {
    "contrastive": (network, "contrastive_loss", lambda original: lambda *arguments: -original(*arguments)),
    "critics": (td3, "critic_loss", _flipped_critic_loss),
    "controller's value": (td3, "actor_loss", _flipped_actor_loss(controller=True, value=True)),
    "manager's value": (td3, "actor_loss", _flipped_actor_loss(controller=False, value=True)),
    "manager's adjacency": (td3, "actor_loss", _flipped_actor_loss(controller=False, value=False)),
    "intrinsic reward": (windows, "intrinsic_rewards", lambda original: lambda *arguments: -original(*arguments)),
    "correction": (manager, "correct", _worst_candidate),
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
