"""The world of a task: its environment runs on the device or on the host."""

from hrac.agents.decide import Setup
from hrac.agents.subgoals import SubgoalSpace
from hrac.config import Config
from hrac.envs.base import BatchEnvironment, Environment, HostTask
from hrac.runs import Parts
from hrac.worlds.base import World
from hrac.worlds.device import DeviceWorld
from hrac.worlds.host import HostWorld


def make_world(task: Environment | HostTask, setup: Setup, config: Config, parts: Parts) -> World:
    """Copies of a task's environment for every run."""
    if isinstance(task, HostTask):
        return HostWorld(task, setup, config, parts)
    return DeviceWorld(task, setup, config, parts)


def make_setup(task: Environment | HostTask, config: Config) -> Setup:
    """What does not change during a training of a task with a configuration."""
    if isinstance(task, HostTask):
        copy = task.batch(1, 1)
        return Setup(_subgoal_space(copy, config), copy.actions, copy.obs_dim + copy.context_dim, config)
    return Setup(_subgoal_space(task, config), task.actions, task.obs_dim, config)


def _subgoal_space(env: Environment | BatchEnvironment, config: Config) -> SubgoalSpace:
    return SubgoalSpace(
        relative=config.manager.subgoals in ("relative", "task"),
        low=env.position_low,
        high=env.position_high,
        shown_relative=config.controller.subgoals_shown_as == "displacement",
        reach=config.manager.subgoal_range,
        context=env.context_dim,
        sees_position=config.controller.sees_position,
        sees_context=config.controller.sees_context,
        fallen=getattr(env, "fallen", None),
    )
