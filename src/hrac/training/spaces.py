"""The space of subgoals that an environment and a configuration make."""

from hrac.agents.subgoals import SubgoalSpace
from hrac.config import Config
from hrac.envs.base import BatchEnvironment, Environment


def subgoal_space(env: Environment | BatchEnvironment, config: Config) -> SubgoalSpace:
    """The space of subgoals of an environment under a configuration."""
    return SubgoalSpace(
        relative=config.manager.subgoals == "relative",
        low=env.position_low,
        high=env.position_high,
        displacement=config.controller.subgoals_shown_as == "displacement",
        reach=config.manager.subgoal_range,
        context=env.context_dim,
        sees_position=config.controller.sees_position,
        fallen=getattr(env, "fallen", None),
    )
