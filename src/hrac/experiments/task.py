"""What a task is, and tables of settings that tasks start from."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from hrac.envs.base import Environment, HostTask


@dataclasses.dataclass(frozen=True)
class Task:
    """What an agent is trained on: a function that makes its environment, and the settings for it."""

    name: str
    summary: str
    make: Callable[[dict[str, Any]], Environment | HostTask]
    """Makes the environment from the fields of `EnvConfig` that are set."""
    fields: tuple[str, ...]
    """The fields of `EnvConfig` that it accepts."""
    settings: dict[str, Any]
    """Settings in which the task differs from the defaults of `Config`."""
    resolve: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    """Completes the fields of `EnvConfig` that are set by values that are measured. None: nothing is measured."""
    can_fall: bool = False
    """Whether the agent can fall on its back: ants."""
    sees_target: bool = False
    """Whether the agent sees the target of an episode, and what other targets would pay is known: mazes of the package that
    show it. Goal environments set `manager.hindsight` themselves."""

    def __repr__(self) -> str:
        return f"Task({self.name}: {self.summary})"


TWO_TD3 = {
    "manager.subgoals": "relative",
    "manager.subgoal_range": 10.0,
    "manager.candidates": 1,
    "manager.noise_sigma": 1.0,
    "manager.buffer_windows": 200_000,
    "manager.start_fraction": 0.001,
    "manager.batch_size": 128,
    "manager.soft_update_rate": 0.005,
    "manager.value_every_gradient_steps": 1,
    "manager.critic_loss": "huber",
    "manager.critic_weight_decay": 1e-4,
    "manager.target_noise_sigma": 0.2,
    "manager.correction_candidates": 10,
    "controller.learner": "td3",
    "controller.sees_position": False,
    "controller.discount": 0.95,
    "controller.intrinsic_reward": "distance",
    "controller.reach_radius": math.sqrt(2.0),
    "controller.reach_measure": "euclidean",
    "training.total_env_steps": 5_000_000,
    "training.round_env_steps": 400,
    "training.eval_every_env_steps": 100_000,
    "training.checkpoint_every_env_steps": 250_000,
    "training.eval_episodes": 50,
}
"""Tables 2 and 3 and the published code, for the ants."""

POINT_MAZE = TWO_TD3 | {
    "manager.subgoal_range": 4.0,
    "manager.reward_scale": 0.1,
    "manager.buffer_windows": 20_000,
    "manager.start_fraction": 0.01,
    "manager.batch_size": 64,
    "manager.hidden": (64, 64),
    "controller.hidden": (64, 64),
    "controller.batch_size": 64,
    "controller.noise_sigma": 0.2,
    "controller.reach_radius": 0.5,
    "controller.target_noise_sigma": 0.1,
    "controller.target_noise_clip": 0.2,
    "adjacency.pretrain_env_steps": 20_000,
    "adjacency.update_every_env_steps": 20_000,
    "training.total_env_steps": 150_000,
    "training.eval_every_env_steps": 10_000,
    "training.checkpoint_every_env_steps": 50_000,
}
"""Small networks and short runs: ours, not the paper's."""
