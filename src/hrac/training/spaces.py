"""The space of subgoals that an environment and a configuration make."""

from hrac.agents.subgoals import SubgoalSpace
from hrac.config import Config
from hrac.envs.base import BatchEnvironment, Environment


def subgoal_space(env: Environment, config: Config) -> SubgoalSpace:
    """The space of subgoals of an environment under a configuration."""
    relative = config.manager.subgoals == "relative"
    shown = config.controller.subgoals_shown_as == "displacement"
    return SubgoalSpace(relative, env.position_low, env.position_high, shown, reach=config.manager.subgoal_range)


def host_subgoal_space(env: BatchEnvironment, config: Config) -> SubgoalSpace:
    """The space of subgoals of an environment on the host under a configuration."""
    return SubgoalSpace(
        relative=config.manager.subgoals == "relative",
        low=env.position_low,
        high=env.position_high,
        reach=config.manager.subgoal_range,
        context=env.context_dim,
        sees_position=config.controller.sees_position,
    )
