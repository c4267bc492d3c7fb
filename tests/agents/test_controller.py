import jax
import jax.numpy as jnp
import numpy as np

from hrac.agents import controller
from hrac.agents.a2c import A2CState
from hrac.agents.decide import Setup
from hrac.agents.subgoals import SubgoalSpace
from hrac.agents.td3 import Settings, TD3State
from hrac.config import replace
from hrac.experiments import tasks
from hrac.spaces import Box, Discrete

ANTS = tasks.config_for("ant-maze")


def test_the_controller_has_the_settings_of_the_configuration():
    cfg = replace(
        ANTS,
        {
            "controller.reward_scale": 0.2,
            "controller.critic_weight_decay": 3e-4,
            "controller.target_noise_sigma": 0.5,
            "controller.target_noise_clip": 0.7,
        },
    )
    assert controller.settings(cfg.controller) == Settings((300, 300), 1e-4, 1e-3, 0.005, 0.95, 0.2, 0.0, True, 3e-4, 0.5, 0.7)


def test_the_learner_of_the_configuration_is_what_is_made():
    """Inputs are the observation less the context, and the subgoal: 7 - 2 + 2."""
    space = SubgoalSpace(True, (0.0, 0.0), (1.0, 1.0), context=2)
    td3 = jax.eval_shape(lambda: controller.init(jax.random.key(0), Setup(space, Box((-1.0,) * 3, (1.0,) * 3), 7, ANTS)))
    assert isinstance(td3, TD3State)
    assert [weight.shape for weight in td3.actor.weights] == [(7, 300), (300, 300), (300, 3)]
    assert [weight.shape for weight in td3.critics[1].weights] == [(10, 300), (300, 300), (300, 1)]
    a2c = jax.eval_shape(lambda: controller.init(jax.random.key(0), Setup(space, Discrete(4), 7, tasks.config_for("maze"))))
    assert isinstance(a2c, A2CState)
    assert [weight.shape for weight in a2c.actor.weights] == [(7, 300), (300, 300), (300, 4)]


def test_the_controller_does_not_see_where_it_is_nor_the_target():
    space = SubgoalSpace(True, (-4.0, -4.0), (20.0, 20.0), reach=10.0, sees_position=False, context=2)
    obs = jnp.arange(1.0, 33.0)
    seen = space.controller_input(obs, jnp.array([7.0, 8.0]))
    np.testing.assert_allclose(seen, [0.0, 0.0, *np.arange(3.0, 31.0), 7.0, 8.0])
