"""The controller, on the intrinsic reward: A2C for discrete actions, TD3 for continuous ones.

A2C   1 update per round, over the windows that ended in it      a2c.update
TD3   n updates per round, on minibatches of stored steps        td3.update
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from hrac.agents import a2c, td3
from hrac.agents.a2c import A2CState, ControllerStep
from hrac.agents.decide import Setup
from hrac.agents.td3 import Metrics, Settings, TD3State, Transition
from hrac.settings import A2C, TD3
from hrac.spaces import Box

ControllerState = A2CState | TD3State


def init(key: PRNGKeyArray, setup: Setup) -> ControllerState:
    """An untrained controller."""
    space, cfg = setup.space, setup.cfg
    inputs = space.seen_dim(setup.obs_dim) + space.goal_dim
    if isinstance(cfg.controller, TD3):
        return td3.init(key, inputs, setup.actions.outputs, settings(cfg.controller))
    return a2c.init(key, inputs, setup.actions.outputs, cfg.controller)


def settings(level: TD3) -> Settings:
    """The numbers of the controller's TD3."""
    return Settings(
        hidden=level.hidden,
        actor_learning_rate=level.learning_rate,
        critic_learning_rate=level.critic_learning_rate,
        soft_update_rate=level.soft_update_rate,
        discount=level.discount,
        reward_scale=level.reward_scale,
        huber=True,
        critic_weight_decay=level.critic_weight_decay,
        target_noise_sigma=level.target_noise_sigma,
        target_noise_clip=level.target_noise_clip,
    )


def learn(
    key: PRNGKeyArray, controller: ControllerState, experience: ControllerStep | Transition, setup: Setup
) -> tuple[ControllerState, Metrics]:
    """A round's updates: one over its steps (A2C), or one per minibatch of stored steps (TD3: updates, batch)."""
    cfg, actions = setup.cfg.controller, setup.actions
    if isinstance(experience, ControllerStep):
        assert isinstance(controller, A2CState)
        assert isinstance(cfg, A2C)
        return a2c.update(controller, experience, cfg)
    assert isinstance(controller, TD3State)
    assert isinstance(cfg, TD3)
    assert isinstance(actions, Box), "TD3 is for continuous actions"

    def one_update(controller: TD3State, drawn: tuple[Array, Transition]) -> tuple[TD3State, Metrics]:
        key, batch = drawn
        return td3.update(key, controller, batch, actions, None, settings(cfg))

    keys = jax.random.split(key, len(experience.reward))
    learned, metrics = td3.with_fast_critics(lambda state: jax.lax.scan(one_update, state, (keys, experience)), controller)
    return learned, {f"controller/{name}": jnp.mean(numbers) for name, numbers in metrics.items()}
