"""Whole updates of both levels against TD3 written out in NumPy, in double precision, with gradients and Adam by hand.

Chance is given: the reference takes the numbers that the keys stand for.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrac.agents import controller, correction, manager, td3
from hrac.agents.decide import Setup
from hrac.agents.subgoals import SubgoalSpace
from hrac.agents.td3 import Settings, Transition
from hrac.agents.windows import Window
from hrac.config import replace
from hrac.experiments import tasks
from hrac.nets import MLP
from hrac.spaces import Box

UPDATES, BATCH, K = 3, 32, 4


@pytest.fixture(params=["cpu", "gpu"])
def compiled(request, monkeypatch):
    """Compiles a function in the form that it has on such a device: on an accelerator critics are joined."""
    monkeypatch.setattr(jax, "default_backend", lambda: request.param)
    joinings, joined = [], td3.joined
    monkeypatch.setattr(td3, "joined", lambda state: joinings.append(state) or joined(state))
    yield lambda function: jax.jit(functools.partial(function), static_argnames="setup")  # traced anew for each device
    assert bool(joinings) is (request.param == "gpu")


# Networks: lists of arrays [w1, b1, w2, b2, ...].


def forward(net, x):
    """The output, and what each layer was given."""
    inputs = []
    for layer in range(0, len(net), 2):
        inputs.append(x)
        x = x @ net[layer] + net[layer + 1]
        if layer + 2 < len(net):
            x = np.maximum(x, 0.0)
    return x, inputs


def backward(net, inputs, slope):
    """Gradients of all arrays, and that of the input, from the slope along the output."""
    grads = [None] * len(net)
    for layer in reversed(range(0, len(net), 2)):
        x = inputs[layer // 2]
        grads[layer], grads[layer + 1] = x.T @ slope, slope.sum(axis=0)
        slope = slope @ net[layer].T
        if layer > 0:
            slope = slope * (x > 0.0)
    return grads, slope


class Adam:
    """Kingma and Ba's Algorithm 1, with an L2 penalty's gradient added to the gradient (PyTorch's `weight_decay`)."""

    def __init__(self, params, rate, decay=0.0):
        self.rate, self.decay, self.steps = rate, decay, 0
        self.first, self.second = ([np.zeros_like(p) for p in params] for _ in range(2))

    def step(self, params, grads):
        self.steps += 1
        for i, (param, grad) in enumerate(zip(params, grads, strict=True)):
            grad = grad + self.decay * param
            self.first[i] = 0.9 * self.first[i] + 0.1 * grad
            self.second[i] = 0.999 * self.second[i] + 0.001 * grad**2
            mean, square = self.first[i] / (1 - 0.9**self.steps), self.second[i] / (1 - 0.999**self.steps)
            param -= self.rate * mean / (np.sqrt(square) + 1e-8)


class Range:
    """Actions between two bounds; by tanh, or for absolute subgoals by the sigmoid."""

    def __init__(self, low, high, sigmoid=False):
        self.low, self.high, self.sigmoid = np.asarray(low), np.asarray(high), sigmoid

    def squash(self, z):
        """The action and its slope along z."""
        unit = 1 / (1 + np.exp(-z)) if self.sigmoid else (np.tanh(z) + 1) / 2
        slope = unit * (1 - unit) * (1 if self.sigmoid else 2)
        return self.low + unit * (self.high - self.low), slope * (self.high - self.low)


class Reference:
    """Actor, twin critics, slow copies and optimisers."""

    def __init__(self, state, settings, actions, penalty=None):
        self.settings, self.actions, self.penalty = settings, actions, penalty
        self.actor, self.slow_actor = _arrays(state.actor), _arrays(state.target_actor)
        self.critics, self.slow_critics = ([_arrays(c) for c in pair] for pair in (state.critics, state.target_critics))
        self.actor_adam = Adam(self.actor, settings.actor_learning_rate)
        self.critic_adams = [Adam(c, settings.critic_learning_rate, settings.critic_weight_decay) for c in self.critics]
        self.numbers = []

    def update(self, batch, normal, with_value=True):
        """One update: critics, actor, then all slow copies."""
        cfg, n = self.settings, len(batch.reward)
        numbers = {}

        z, _ = forward(self.slow_actor, batch.next_obs)
        noise = np.clip(cfg.target_noise_sigma * normal, -cfg.target_noise_clip, cfg.target_noise_clip)
        ahead = np.clip(self.actions.squash(z)[0] + noise, self.actions.low, self.actions.high)
        values = [forward(c, np.hstack([batch.next_obs, ahead]))[0][:, 0] for c in self.slow_critics]
        y = cfg.reward_scale * batch.reward + cfg.discount * np.where(batch.bootstrap, np.minimum(*values), 0.0)

        losses = []
        for critic, adam in zip(self.critics, self.critic_adams, strict=True):
            q, inputs = forward(critic, np.hstack([batch.obs, batch.action]))
            error = q[:, 0] - y
            if cfg.huber:
                losses.append(np.where(np.abs(error) <= 1, error**2 / 2, np.abs(error) - 0.5).mean())
                slope = np.clip(error, -1, 1)
            else:
                losses.append((error**2).mean())
                slope = 2 * error
            numbers.setdefault("value", q.mean())
            adam.step(critic, backward(critic, inputs, slope[:, None] / n)[0])
        numbers["critic_loss"] = sum(losses)

        z, inputs = forward(self.actor, batch.obs)
        action, squashed = self.actions.squash(z)
        slope = np.zeros_like(action)
        if with_value:
            _, seen = forward(self.critics[0], np.hstack([batch.obs, action]))
            _, by_input = backward(self.critics[0], seen, np.full((n, 1), -1.0 / n))
            slope += by_input[:, batch.obs.shape[1] :]
        if self.penalty is not None:
            far, by_action = self.penalty(batch.obs, action)
            numbers["too_far"] = far.mean()
            slope += cfg.penalty_weight * by_action / n
        slope = slope * squashed + cfg.output_penalty * 2 * z / z.size
        self.actor_adam.step(self.actor, backward(self.actor, inputs, slope)[0])

        for slow, fast in ((self.slow_actor, self.actor), *zip(self.slow_critics, self.critics, strict=True)):
            for old, new in zip(slow, fast, strict=True):
                old[...] = (1 - cfg.soft_update_rate) * old + cfg.soft_update_rate * new
        self.numbers.append(numbers)

    def mean(self, name):
        return np.mean([numbers[name] for numbers in self.numbers])


def too_far(embedding, hinge, relative):
    """Eq. 13 and its slope along the subgoal, for goal space of two coordinates."""

    def penalty(obs, subgoal):
        position = obs[:, :2]
        here, _ = forward(embedding, position)
        there, inputs = forward(embedding, position + subgoal if relative else subgoal)
        apart = np.linalg.norm(there - here, axis=1)
        beyond = apart > hinge
        assert beyond.any()
        assert not beyond.all()
        _, slope = backward(embedding, inputs, beyond[:, None] * (there - here) / apart[:, None])
        return np.maximum(apart - hinge, 0.0), slope

    return penalty


def _arrays(net):
    return [np.array(a, np.float64) for pair in zip(net.weights, net.biases, strict=True) for a in pair]


def _double(tree):
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64 if leaf.dtype == jnp.float32 else leaf.dtype), tree)


def _assert_same_networks(state, reference, start):
    """All parameters, within a hundredth of one step; and they have moved by more than that."""
    pairs = [
        (state.actor, reference.actor, start.actor),
        (state.target_actor, reference.slow_actor, start.target_actor),
        *zip(state.critics, reference.critics, start.critics, strict=True),
        *zip(state.target_critics, reference.slow_critics, start.target_critics, strict=True),
    ]
    for ours, theirs, before in pairs:
        moved = max(np.abs(a - b).max() for a, b in zip(_arrays(ours), _arrays(before), strict=True))
        assert moved > 5e-4
        for a, b in zip(_arrays(ours), theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=0.01 * moved)


def _state(seed, obs_dim, action_dim, settings):
    """Untrained networks, with slow copies of their own so that they cannot be mistaken for the fast ones."""
    init = jax.jit(td3.init, static_argnums=(1, 2, 3))
    state, other = (init(key, obs_dim, action_dim, settings) for key in jax.random.split(jax.random.key(seed)))
    loud = lambda tree: jax.tree.map(lambda leaf: 3.0 * leaf, tree)  # noqa: E731
    return state._replace(
        actor=loud(state.actor),
        critics=loud(state.critics),
        target_actor=loud(other.actor),
        target_critics=loud(other.critics),
    )


def _transitions(seed, obs_dim, action_dim, scale):
    """Minibatches (updates, batch) of random transitions."""
    rng = np.random.default_rng(seed)
    normal = lambda *shape: rng.normal(size=(UPDATES, BATCH, *shape)).astype(np.float32)  # noqa: E731
    action = np.clip(scale * normal(action_dim), -1.5 * scale, 1.5 * scale)
    return Transition(normal(obs_dim), action, 3 * normal(), normal(obs_dim), rng.random((UPDATES, BATCH)) < 0.8)


def test_a_rounds_updates_of_the_controller_are_the_references(compiled):
    cfg = replace(
        tasks.config_for("ant-maze"),
        {
            "controller.hidden": (16, 16),
            "controller.learning_rate": 2e-3,
            "controller.critic_learning_rate": 5e-3,
            "controller.soft_update_rate": 0.2,
            "controller.target_noise_sigma": 0.5,
            "controller.target_noise_clip": 0.6,
            "controller.critic_weight_decay": 0.05,
            "controller.reward_scale": 0.3,
        },
    )
    box = Box((-2.0, -1.0, 0.0), (2.0, 1.0, 1.5))
    setup = Setup(SubgoalSpace(True, (0.0, 0.0), (1.0, 1.0), reach=1.0), box, 4, cfg)
    settings = controller.settings(cfg.controller)
    assert settings == Settings((16, 16), 2e-3, 5e-3, 0.2, 0.95, 0.3, 0.0, True, 0.05, 0.5, 0.6)
    batches, start, key = _transitions(0, 6, 3, 1.0), _state(1, 6, 3, settings), jax.random.key(7)
    learned, metrics = compiled(controller.learn)(key, start, batches, setup=setup)

    reference = Reference(start, settings, Range(box.low, box.high))
    keys = jax.random.split(key, UPDATES)
    for update in range(UPDATES):
        normal = np.asarray(jax.random.normal(keys[update], (BATCH, 3)), np.float64)
        assert (np.abs(settings.target_noise_sigma * normal) > settings.target_noise_clip).any()  # some are clipped
        reference.update(jax.tree.map(lambda leaf, u=update: leaf[u], _double(batches)), normal)
    _assert_same_networks(learned, reference, start)
    np.testing.assert_allclose(metrics["controller/critic_loss"], reference.mean("critic_loss"), rtol=1e-4)
    np.testing.assert_allclose(metrics["controller/value"], reference.mean("value"), rtol=1e-4)
    assert metrics.keys() == {"controller/critic_loss", "controller/value", "controller/saturation"}


RELATIVE = {
    "manager.subgoals": "relative",
    "manager.subgoal_range": 2.0,
    "manager.hinge": 2.0,
    "manager.critic_loss": "huber",
    "manager.critic_weight_decay": 0.05,
    "manager.target_noise_sigma": 0.5,
    "manager.target_noise_clip": 0.6,
    "manager.output_penalty": 0.01,
    "manager.correction_candidates": 3,
    "manager.value_every_gradient_steps": 1,
}
ABSOLUTE = {"manager.hinge": 0.8, "manager.value_every_gradient_steps": 2, "training.round_env_steps": 80}
"""As on the grid worlds: squared errors, no noise, no decay, no correction, and a value term at every other update."""


@pytest.mark.parametrize(
    ("task", "changes"),
    [("ant-maze", RELATIVE), ("ant-maze", RELATIVE | {"manager.correction_candidates": 1}), ("maze", ABSOLUTE)],
    ids=["relative subgoals", "one random candidate", "absolute subgoals"],
)
def test_a_rounds_updates_of_the_manager_are_the_references(task, changes, compiled):
    cfg = replace(
        tasks.config_for(task),
        changes
        | {
            "k": K,
            "manager.hidden": (16, 16),
            "manager.actor_learning_rate": 2e-3,
            "manager.critic_learning_rate": 5e-3,
            "manager.soft_update_rate": 0.2,
            "manager.reward_scale": 0.3,
            "manager.eta": 2.0,
        },
    )
    relative, every = cfg.manager.subgoals == "relative", cfg.manager.value_every_gradient_steps
    space = SubgoalSpace(relative, (-1.5, -2.0), (1.5, 2.0), reach=cfg.manager.subgoal_range, sees_position=False)
    pushes = Box((-1.0, -1.0), (1.0, 1.0))
    setup, settings = Setup(space, pushes, 5, cfg), manager.settings(cfg)
    embedding = jax.tree.map(lambda leaf: 2.0 * leaf, MLP.init(jax.random.key(5), (2, 16, 4)))
    low = MLP.init(jax.random.key(6), (7, 16, 2))
    windows, start, key = _windows(), _state(2, 5, 2, settings), jax.random.key(8)
    learned, metrics = compiled(manager.learn)(key, start, low, embedding, windows, setup=setup)

    bounds = ((-2.0, -2.0), (2.0, 2.0)) if relative else ((-1.5, -2.0), (1.5, 2.0))
    far = too_far(_arrays(embedding), cfg.manager.hinge, relative)
    reference, corrected = Reference(start, settings, Range(*bounds, sigmoid=not relative), far), []
    keys = jax.random.split(key, UPDATES)
    for update in range(UPDATES):
        key_draw, key_update = jax.random.split(keys[update])
        batch = jax.tree.map(lambda leaf, u=update: leaf[u], windows)
        whole = _double(batch.whole)
        if relative:
            drawn = np.asarray(correction.draw_candidates(key_draw, batch, setup), np.float64)
            chosen = _corrected(_double(batch), drawn, _arrays(low))
            corrected.append((chosen != whole.action).any(axis=1).mean())
            whole = whole._replace(action=chosen)
        normal = np.asarray(jax.random.normal(key_update, (BATCH, 2)), np.float64)
        reference.update(whole, normal, with_value=update % every == 0)
    _assert_same_networks(learned, reference, start)
    for name in ("critic_loss", "value", "too_far"):
        np.testing.assert_allclose(metrics[f"manager/{name}"], reference.mean(name), rtol=1e-4)
    if relative:
        assert 0.1 < np.mean(corrected) < 1.0
        np.testing.assert_allclose(metrics["manager/corrected"], np.mean(corrected), rtol=1e-6)


def _windows():
    """Minibatches of windows of K steps or fewer."""
    rng, whole = np.random.default_rng(3), _transitions(4, 5, 2, 1.0)
    obs = rng.normal(size=(UPDATES, BATCH, K, 5)).astype(np.float32)
    obs[:, :, 0] = whole.obs
    inside = np.arange(K) < rng.integers(1, K + 1, (UPDATES, BATCH, 1))
    action = rng.uniform(-1, 1, (UPDATES, BATCH, K, 2)).astype(np.float32)
    return jax.tree.map(jnp.asarray, Window(whole, obs, action, inside))


def _corrected(batch, drawn, low):
    """The candidate whose actions, along the window, are nearest to those taken, window by window and step by step.

    It sees no position (zeros instead) but the rest of the observation, and the subgoal carried on by h.
    """
    chosen = []
    for n in range(BATCH):
        achieved = batch.whole.next_obs[n, :2] - batch.whole.obs[n, :2]
        candidates = [batch.whole.action[n], achieved, *drawn[n]]
        errors = []
        for candidate in candidates:
            total = 0.0
            for t in np.flatnonzero(batch.inside[n]):
                subgoal = candidate + batch.whole.obs[n, :2] - batch.obs[n, t, :2]
                seen = np.concatenate([np.zeros(2), batch.obs[n, t, 2:], subgoal])
                total += ((np.tanh(forward(low, seen[None])[0][0]) - batch.action[n, t]) ** 2).sum()
            errors.append(total)
        chosen.append(candidates[int(np.argmin(errors))])
    return np.array(chosen)
