"""The methods: one row per method, with its differences from HRAC."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from hrac.config import ConfigError


class AtMost(NamedTuple):
    """A setting that is lowered to this. A task whose own value is lower keeps it."""

    bound: float

    def of(self, own: float) -> float:
        """The value on a task with this one of its own."""
        return min(self.bound, own)


class AtLeast(NamedTuple):
    """A setting that is raised to this. A task whose own value is higher keeps it."""

    bound: float

    def of(self, own: float) -> float:
        """The value on a task with this one of its own."""
        return max(self.bound, own)


class Method(NamedTuple):
    """The meaning of a name after `--method`."""

    summary: str
    settings: Mapping[str, Any] = {}
    """Settings in which the method differs from HRAC on every task."""
    by_learner: Mapping[str, Mapping[str, Any]] = {}
    """Further ones, by the controller's learner: discrete actions have "a2c", continuous ones "td3"."""
    where_it_can_fall: Mapping[str, Any] = {}
    """Further ones, on tasks whose agent can fall on its back: ants."""
    where_it_sees_a_target: Mapping[str, Any] = {}
    """Further ones, on tasks that say that their agent sees its target: mazes of the package."""

    def settings_for(self, learner: str, can_fall: bool = False, sees_target: bool = False) -> dict[str, Any]:
        """All settings in which the method differs, on tasks whose controller has this learner and whose agent can fall, or
        sees a target."""
        return {
            **self.settings,
            **self.by_learner.get(learner, {}),
            **(self.where_it_can_fall if can_fall else {}),
            **(self.where_it_sees_a_target if sees_target else {}),
        }


HIRO = {
    "adjacency.source": "none",
    "manager.subgoals": "relative",
    "manager.candidates": 1,
    "manager.correction_candidates": 10,
    "manager.way_pull": 0.0,
}
"""No adjacency, directional subgoals, plain exploration noise, off-policy correction."""

FLAT = {
    "adjacency.source": "none",
    "manager.subgoal_range": None,
    "manager.candidates": 1,
    "manager.correction_candidates": 0,
    "manager.hindsight": 0.0,
    "manager.way_pull": 0.0,
}
"""No manager, so nothing of it."""

METHODS = {
    "hrac": Method("k-step adjacency constraint on the manager's subgoals (the paper's method)"),
    "hrac-plus": Method(
        "HRAC with value and adjacency on one scale; with discrete actions a search for better subgoals, a shorter horizon, an "
        "earlier start, faster slow copies, subgoals shown as displacements, and quiet episodes after a success; with "
        "continuous ones less weight decay and three updates of the manager per window; hindsight for the manager in mazes "
        "that show their target; ants with less torque (ours)",
        {"manager.value_scale": "slope", "manager.eta": 1.0},
        {
            "a2c": {
                "manager.eta": 8.0,
                "manager.discount": AtMost(0.95),
                "manager.start_fraction": AtMost(0.1),
                "manager.search_candidates": AtLeast(20),
                "manager.soft_update_rate": AtLeast(0.02),
                "controller.subgoals_shown_as": "displacement",
                "training.quiet_share": 0.5,
            },
            "td3": {"manager.critic_weight_decay": AtMost(1e-5), "manager.updates_per_window": AtLeast(3)},
        },
        where_it_can_fall={"controller.action_share": AtMost(7 / 12)},
        where_it_sees_a_target={"manager.hindsight": AtLeast(0.5)},
    ),
    "hiro": Method("directional subgoals with off-policy correction, without adjacency", HIRO),
    "hiro-b": Method(
        "HIRO with a binary intrinsic reward (on the grid worlds HIRO has it anyway)",
        HIRO | {"controller.intrinsic_reward": "reached"},
    ),
    "hrl-her": Method(
        "HIRO with hindsight for the controller: points that were reached become subgoals",
        HIRO,
        {"a2c": {"controller.hindsight": 0.2}, "td3": {"controller.hindsight": 0.8}},
    ),
    "vanilla": Method(
        "absolute subgoals and a binary intrinsic reward, without adjacency and correction",
        {
            "adjacency.source": "none",
            "manager.way_pull": 0.0,
            "manager.subgoals": "absolute",
            "manager.subgoal_range": None,
            "manager.candidates": 1,
            "manager.correction_candidates": 0,
            "controller.intrinsic_reward": "reached",
            "controller.sees_position": True,
        },
    ),
    "hrac-o": Method("HRAC with an oracle: the true adjacency, from the environment", {"adjacency.source": "oracle"}),
    "no-adj": Method(
        "HRAC without the adjacency matrix: pairs are drawn from stored trajectories",
        {"adjacency.source": "trajectories", "manager.way_pull": 0.0},
    ),
    "neg-reward": Method(
        "HRAC without the adjacency loss: a subgoal that is judged not adjacent costs the manager a reward of 1",
        {"manager.eta": 0.0, "manager.non_adjacent_penalty": 1.0},
    ),
    "flat": Method(
        "no hierarchy: the controller's learner on the reward of the environment",
        FLAT
        | {
            "manager.subgoals": "none",
            "controller.intrinsic_reward": "environment",
            "controller.sees_position": True,
            "controller.sees_context": True,
        },
        {"a2c": {"controller.bootstraps": True}, "td3": {"controller.discount": 0.99, "controller.ends_with_window": False}},
    ),
    "flat-her": Method(
        "no hierarchy: the task's target as the only goal, and points that were reached as goals in hindsight",
        FLAT
        | {
            "k": 50,
            "manager.subgoals": "task",
            "controller.intrinsic_reward": "distance",
            "controller.sees_position": True,
            "controller.hindsight": 0.8,
        },
        {"td3": {"controller.discount": 0.99, "controller.reward_scale": 0.1}},
    ),
}


def find(name: str) -> Method:
    """The method of a name; raises `ConfigError`."""
    if name not in METHODS:
        raise ConfigError(f"method: there is no {name!r}. Methods are: {', '.join(METHODS)}")
    return METHODS[name]
