import jax
import jax.numpy as jnp
import numpy as np

from hrac.agents import a2c
from hrac.agents.a2c import ControllerStep
from hrac.nets import MLP
from hrac.settings import A2C

CFG = A2C(hidden=(32,), learning_rate=3e-3)
INIT = jax.jit(a2c.init, static_argnums=(1, 2, 3))
LOSS = jax.jit(a2c.loss, static_argnums=2)
RETURNS = jax.jit(a2c.returns_to_window_end, static_argnums=(2, 3))


def test_returns_stop_at_the_windows_end():
    rewards = jnp.array([0.0, 1.0, 0.0, 2.0, 0.0, 4.0])
    last = jnp.array([False, False, True, False, True, False])
    # 0 + .5 (1 + .5 * 0) | 1 + .5 * 0 | 0 || 2 + .5 * 0 | 0 || 4, cut off
    expected = [0.5, 1.0, 0.0, 2.0, 0.0, 4.0]
    np.testing.assert_allclose(RETURNS(rewards, last, 0.5, 3), expected)


def test_returns_equal_the_recursion():
    rng = np.random.default_rng(0)
    k, steps, discount = 5, 60, 0.9
    clock, last, rewards = 0, np.zeros(steps, bool), rng.random(steps).astype(np.float32)
    for t in range(steps):
        last[t] = clock == k - 1 or rng.random() < 0.1
        clock = 0 if last[t] else clock + 1
    last[-1] = True
    expected = np.zeros(steps)
    for t in reversed(range(steps)):
        expected[t] = rewards[t] + (0.0 if last[t] else discount * expected[t + 1])
    ours = RETURNS(jnp.asarray(rewards), jnp.asarray(last), discount, k)
    np.testing.assert_allclose(ours, expected, rtol=1e-5)


def _constant(values):
    """A network that ignores its input (of 3) and gives these values."""
    return MLP((jnp.zeros((3, len(values))),), (jnp.asarray(values, jnp.float32),))


def test_loss_by_hand():
    # pi = (1/4, 3/4), V = 0.5. Step 1: a = 1, R = 1, A = .5. Step 2: a = 0, R = 0, A = -.5. Step 3 does not count.
    networks = (_constant([0.0, np.log(3.0)]), _constant([0.5]))
    steps = ControllerStep(
        seen=jnp.zeros((3, 3)),
        action=jnp.array([1, 0, 0]),
        ret=jnp.array([1.0, 0.0, 100.0]),
        valid=jnp.array([True, True, False]),
    )
    policy = (-0.5 * np.log(0.75) + 0.5 * np.log(0.25)) / 2
    value, entropy = 0.25, -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    loss, metrics = LOSS(networks, steps, A2C(entropy_weight=0.01))
    np.testing.assert_allclose(loss, policy + value - 0.01 * entropy, rtol=1e-5)
    np.testing.assert_allclose(metrics["controller/entropy"], entropy, rtol=1e-5)


def test_the_value_is_not_trained_through_the_policy_term():
    networks = (_constant([0.0, 1.0]), _constant([0.5]))
    steps = ControllerStep(jnp.zeros((1, 3)), jnp.array([0]), jnp.array([1.0]), jnp.array([True]))
    gradient = jax.grad(lambda n: LOSS(n, steps, CFG)[0])(networks)
    np.testing.assert_allclose(gradient[1].biases[0], [-2 * 0.5])  # d (R - V)^2 / dV alone


def test_no_valid_step_means_no_gradient():
    state = INIT(jax.random.key(0), 3, 2, CFG)
    steps = ControllerStep(jnp.ones((4, 3)), jnp.zeros(4, jnp.int32), jnp.ones(4), jnp.zeros(4, bool))
    after, _ = jax.jit(a2c.update, static_argnums=2)(state, steps, CFG)
    for old, new in zip(
        jax.tree.leaves((state.actor, state.critic)), jax.tree.leaves((after.actor, after.critic)), strict=True
    ):
        np.testing.assert_array_equal(old, new)


def test_probe_the_right_action_depends_on_the_subgoal():
    """One step, two actions; action 1 pays 1 if the subgoal is positive, action 0 otherwise: pi and V are known."""

    def batch(key, actor):
        key_goal, key_act = jax.random.split(key)
        subgoal = jnp.where(jax.random.bernoulli(key_goal, 0.5, (64, 1)), 1.0, -1.0)
        seen = jnp.concatenate([jnp.zeros((64, 2)), subgoal], axis=1)
        action = jax.random.categorical(key_act, actor(seen))
        reward = (action == (subgoal[:, 0] > 0).astype(action.dtype)).astype(jnp.float32)
        return ControllerStep(seen, action.astype(jnp.int32), reward, jnp.ones(64, bool))

    @jax.jit
    def train(state, key):
        return jax.lax.scan(lambda s, k: (a2c.update(s, batch(k, s.actor), CFG)[0], None), state, jax.random.split(key, 600))[0]

    state = train(INIT(jax.random.key(0), 3, 2, CFG), jax.random.key(1))
    for goal, best in ((1.0, 1), (-1.0, 0)):
        seen = jnp.array([0.0, 0.0, goal])
        probability = jax.nn.softmax(state.actor(seen))[best]
        assert probability > 0.9
        np.testing.assert_allclose(state.critic(seen)[0], probability, atol=0.1)
