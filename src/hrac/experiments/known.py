"""Environments of other packages whose tasks have settings here: `hrac train gym:Reacher-v5`.

Each row is what `hrac.own_task` is told about one. Goal environments need none, except where other settings learn better.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def fingertip(observation: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where the end of Reacher's arm is: its distance from the target, which comes last, plus the target."""
    return observation[8:10] + observation[4:6]


def at_target(observation: NDArray[np.float64], info: dict[str, Any]) -> bool:
    """Whether the end of Reacher's arm is within 2 cm of the target (ours: the environment knows no success)."""
    return bool(np.linalg.norm(observation[8:10]) < 0.02)


def lake_cell(state: int) -> tuple[int, int]:
    """Row and column of FrozenLake's 4 x 4 map."""
    return divmod(int(state), 4)


def across_lake(state: int, info: dict[str, Any]) -> bool:
    """Whether the last cell of FrozenLake is reached."""
    return int(state) == 15


ABSOLUTE = {"manager.subgoals": "absolute", "manager.subgoal_range": None, "manager.correction_candidates": 0}
"""Subgoals are points of goal space, not displacements."""

FETCH_REACH = {
    "goal_low": (1.15, 0.55, 0.35),
    "goal_high": (1.55, 0.95, 0.75),
    "cell": (0.04, 0.04, 0.04),
    "settings": ABSOLUTE
    | {"k": 5, "manager.noise_sigma": 3.0, "manager.discount": 0.9, "training.eval_every_env_steps": 5_000},
}
"""Targets are within 15 cm of the first place of the gripper."""

LONG_WAYS = {
    "k": 25,
    "manager.correction_candidates": 0,
    "manager.hindsight": 0.8,
    "manager.updates_per_window": 10,
    "manager.critic_layer_norm": True,
    "manager.discount": 0.9,
    "manager.reward_scale": 0.1,
    "manager.bootstrap_at_time_limit": True,
    "training.total_env_steps": 300_000,
}
"""For mazes with detours, where few episodes must teach the manager much. A point with inertia hardly moves in 10 steps from
rest. The off-policy correction would take most of the time of so many updates."""

KNOWN: dict[str, dict[str, Any]] = {
    "PointMaze_Medium-v3": {
        "summary": "a point in a maze of 26 free blocks, random starts and goals, sparse reward; for hrac-plus with eta 2",
        "cell": (0.25, 0.25),
        "settings": LONG_WAYS,
    },
    "FetchReach-v4": {"summary": "a robot's arm that moves its gripper to a point, sparse reward"} | FETCH_REACH,
    "FetchReachDense-v4": {"summary": "the same, and the reward is minus the distance"} | FETCH_REACH,
    "Reacher-v5": {
        "summary": "a planar arm that reaches for a target; goal space is the place of its end; for hrac-plus with eta 2",
        "goal": fingertip,
        "goal_low": (-0.22, -0.22),
        "goal_high": (0.22, 0.22),
        "cell": (0.02, 0.02),
        "target": (4, 5),
        "manager_only": (8, 9),
        "success": at_target,
        "settings": ABSOLUTE
        | {"k": 5, "manager.noise_sigma": 3.0, "manager.discount": 0.9, "manager.reward_scale": 10.0}
        | {"training.total_env_steps": 120_000},
    },
    "FrozenLake-v1": {
        "summary": "a lake of 4 x 4 cells with holes, discrete actions; slippery unless is_slippery is false",
        "goal": lake_cell,
        "goal_low": (0.0, 0.0),
        "goal_high": (3.0, 3.0),
        "cell": (1.0, 1.0),
        "success": across_lake,
        "settings": {
            "k": 4,
            "manager.noise_sigma": 2.0,
            "manager.discount": 0.9,
            "adjacency.pretrain_env_steps": 2_000,
            "adjacency.update_every_env_steps": 5_000,
            "training.total_env_steps": 100_000,
        },
    },
}
"""By Gymnasium's id."""
