"""The world of a task: its environment runs on the device or on the host."""

import dataclasses
import types
from collections.abc import Callable
from typing import Any, NamedTuple

from hrac.agents.decide import Setup
from hrac.agents.subgoals import SubgoalSpace
from hrac.config import Config
from hrac.envs.base import BatchEnvironment, Environment, HostTask
from hrac.runs import Parts
from hrac.settings import TD3
from hrac.spaces import Actions, AnyArray, Box
from hrac.worlds.base import World
from hrac.worlds.device import DeviceWorld
from hrac.worlds.host import HostWorld, closing


def make_world(task: Environment | HostTask, setup: Setup, config: Config, parts: Parts) -> World:
    """Copies of a task's environment for every run."""
    if isinstance(task, HostTask):
        return HostWorld(task, setup, config, parts)
    return DeviceWorld(task, setup, config, parts)


class Interface(NamedTuple):
    """What an agent has to know of its environment: enough to act in it."""

    actions: Actions
    obs_dim: int
    """Numbers in an observation, including the context."""
    context_dim: int
    position_low: tuple[float, ...]
    position_high: tuple[float, ...]


def _interface(env: Environment | BatchEnvironment, obs_dim: int) -> Interface:
    return Interface(env.actions, obs_dim, env.context_dim, env.position_low, env.position_high)


def make_setup(task: Environment | HostTask, config: Config) -> Setup:
    """What does not change during a training of a task with a configuration."""
    if isinstance(task, HostTask):
        with closing(task.batch(1, 1)) as copy:
            return _complete(copy, copy.obs_dim + copy.context_dim, config)
    return _complete(task, task.obs_dim, config)


def _complete(env: Environment | BatchEnvironment, obs_dim: int, config: Config) -> Setup:
    """With what only a training uses: compiled programs of agents without hindsight do not depend on the outcome."""
    setup = setup_for(_interface(env, obs_dim), config, getattr(env, "fallen", None))
    if config.manager.hindsight == 0 or not setup.has_manager:
        return setup
    outcome = getattr(env, "outcome", None)
    if isinstance(outcome, types.MethodType):
        outcome = _Method(outcome.__self__, outcome.__func__)
    return setup._replace(outcome=outcome)


@dataclasses.dataclass(frozen=True)
class _Method:
    """A method of an object. Unlike Python's, those of equal objects are equal, so that they share compiled programs."""

    owner: Any
    function: Callable[..., Any]

    def __call__(self, *arguments: Any) -> Any:
        return self.function(self.owner, *arguments)


def fallen_of(task: Environment | HostTask) -> Callable[[AnyArray], AnyArray] | None:
    """The function that tells who has fallen, if the task has one."""
    if isinstance(task, HostTask):
        with closing(task.batch(1, 1)) as copy:
            return getattr(copy, "fallen", None)
    return getattr(task, "fallen", None)


def setup_for(interface: Interface, config: Config, fallen: Callable[[AnyArray], AnyArray] | None = None) -> Setup:
    """The setup of an agent that knows this of its environment."""
    space = SubgoalSpace(
        relative=config.manager.subgoals in ("relative", "task"),
        low=interface.position_low,
        high=interface.position_high,
        shown_relative=config.controller.subgoals_shown_as == "displacement",
        reach=config.manager.subgoal_range,
        context=interface.context_dim,
        sees_position=config.controller.sees_position,
        sees_context=config.controller.sees_context,
        fallen=fallen,
    )
    actions = interface.actions
    if isinstance(actions, Box) and isinstance(config.controller, TD3):
        actions = actions._replace(share=config.controller.action_share)
    return Setup(space, actions, interface.obs_dim, config)
