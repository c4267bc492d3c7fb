import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrac.agents import td3
from hrac.agents.subgoals import SubgoalSpace
from hrac.agents.td3 import Settings, Transition
from hrac.nets import MLP

LINE = SubgoalSpace(False, (0.0,), (10.0,))
CFG = Settings(hidden=(32,), actor_learning_rate=1e-2, critic_learning_rate=1e-2, soft_update_rate=0.05, discount=0.99)
MEAN, SLOPE = CFG._replace(value_scale="mean"), CFG._replace(value_scale="slope")
KEY = jax.random.key(7)
INIT = jax.jit(td3.init, static_argnums=(1, 2, 3))
UPDATE_ACTOR = jax.jit(td3.update_actor, static_argnums=(2, 3, 4, 5))


def _beyond(hinge):
    """How far a subgoal lies beyond the hinge from the position."""
    return lambda obs, subgoal: jnp.abs(obs - subgoal)[0] - hinge


def _constant(inputs, value):
    return MLP((jnp.zeros((inputs, 1)),), (jnp.array([value], jnp.float32),))


def _windows(n, obs, subgoal, reward, bootstrap):
    full = lambda value: jnp.full((n, 1), value, jnp.float32)  # noqa: E731
    return Transition(full(obs), full(subgoal), jnp.full(n, reward, jnp.float32), full(obs), jnp.full(n, bootstrap))


def _state(q1, q2, target_q1, target_q2):
    state = INIT(jax.random.key(0), 1, 1, CFG)
    return state._replace(
        critics=(_constant(2, q1), _constant(2, q2)), target_critics=(_constant(2, target_q1), _constant(2, target_q2))
    )


@pytest.mark.parametrize(("bootstrap", "expected"), [(True, 2.0 * 1.5 + 0.9 * 3.0), (False, 2.0 * 1.5)])
def test_target_takes_the_smaller_slow_critic_and_none_at_the_end(bootstrap, expected):
    cfg = CFG._replace(discount=0.9, reward_scale=2.0)
    window = jax.tree.map(lambda leaf: leaf[0], _windows(1, 0.0, 0.0, 1.5, bootstrap))
    np.testing.assert_allclose(
        td3.critic_target(jnp.zeros(1), _state(0.0, 0.0, 3.0, 4.0), window, LINE, cfg), expected, rtol=1e-6
    )


def test_critic_loss_sums_both_squared_errors():
    state = _state(1.0, 4.0, 0.0, 0.0)
    loss, _ = td3.critic_loss(state.critics, jnp.array([2.0, 2.0]), _windows(2, 0.0, 0.0, 0.0, True))
    np.testing.assert_allclose(loss, (1.0 - 2.0) ** 2 + (4.0 - 2.0) ** 2)


def test_joined_critics_are_one_network_and_come_apart_as_they_were():
    state = INIT(jax.random.key(3), 2, 1, CFG._replace(layer_norm=True, critic_weight_decay=0.1))
    joined = td3.joined(state)
    assert joined.critics.weights[0].shape == (2, 3, 32)
    assert {leaf.shape[0] for leaf in jax.tree.leaves((joined.critics, joined.target_critics))} == {2}
    jax.tree.map(np.testing.assert_array_equal, joined.actor, state.actor)
    obs, action = jnp.array([0.3, -0.2]), jnp.array([0.5])
    np.testing.assert_allclose(td3.values(joined.critics, obs, action), td3.values(state.critics, obs, action), rtol=1e-5)
    jax.tree.map(np.testing.assert_array_equal, td3.first_of(joined.critics), state.critics[0])
    back = td3.apart(joined)
    assert jax.tree.structure(back) == jax.tree.structure(state)
    jax.tree.map(np.testing.assert_array_equal, back, state)


@pytest.mark.parametrize(
    ("with_value", "eta", "expected"),
    # The actor asks for 5 (sigmoid(0) of 0..10) from position 1, so it is 4 away: 3 beyond the hinge. Value 7 by critic 1.
    [(True, 20.0, -7.0 + 20.0 * 3.0), (False, 20.0, 20.0 * 3.0), (True, 0.0, -7.0), (False, 0.0, 0.0)],
)
def test_actor_loss_by_hand(with_value, eta, expected):
    actor, batch = _constant(1, 0.0), _windows(3, 1.0, 0.0, 0.0, True)
    cfg = CFG._replace(penalty_weight=eta)
    loss, metrics = td3.actor_loss(actor, _constant(2, 7.0), batch, LINE, _beyond(1.0), cfg, with_value)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    np.testing.assert_allclose(metrics["penalty"], 3.0, rtol=1e-5)


def _two_outputs(obs_to_first, second):
    """An actor whose outputs are its observation times a number, and a constant."""
    return MLP((jnp.array([[obs_to_first, 0.0]]),), (jnp.array([0.0, second]),))


def test_the_value_term_on_one_scale_by_hand():
    """Values 3, 1 and -2 have a mean of 2/3 and a mean absolute value of 2: the term is 1/3. The constraint stays."""
    critic = MLP((jnp.array([[1.0], [0.0]]),), (jnp.zeros(1),))  # the value is the observation
    batch = _windows(3, 0.0, 0.0, 0.0, True)._replace(obs=jnp.array([[3.0], [1.0], [-2.0]]))
    far = lambda obs, subgoal: jnp.asarray(0.5)  # noqa: E731
    loss, _ = td3.actor_loss(_constant(1, 0.0), critic, batch, LINE, far, MEAN._replace(penalty_weight=20.0))
    np.testing.assert_allclose(loss, -1 / 3 + 20.0 * 0.5, rtol=1e-6)
    loss, _ = td3.actor_loss(_constant(1, 0.0), critic, batch, LINE, far, CFG._replace(penalty_weight=20.0))
    np.testing.assert_allclose(loss, -2 / 3 + 20.0 * 0.5, rtol=1e-6)
    without, _ = td3.actor_loss(_constant(1, 0.0), critic, batch, LINE, far, MEAN._replace(penalty_weight=20.0), False)
    np.testing.assert_allclose(without, 20.0 * 0.5, rtol=1e-6)


def test_the_gradient_of_the_value_term_does_not_grow_with_the_rewards():
    batch, actor = _windows(4, 1.0, 0.0, 0.0, True), MLP((jnp.array([[0.3]]),), (jnp.zeros(1),))
    steep = MLP((jnp.array([[0.0], [1.0]]),), (jnp.zeros(1),))  # the value is the subgoal
    steeper = jax.tree.map(lambda leaf: 100.0 * leaf, steep)
    grads = [
        jax.grad(lambda a, c=critic, s=cfg: td3.actor_loss(a, c, batch, LINE, None, s)[0])(actor).weights[0]
        for critic, cfg in ((steep, MEAN), (steeper, MEAN), (steep, CFG), (steeper, CFG))
    ]
    np.testing.assert_allclose(grads[0], grads[1], rtol=1e-5)
    np.testing.assert_allclose(100.0 * grads[2], grads[3], rtol=1e-5)


def test_values_that_rise_as_steeply_as_the_excess_by_hand():
    """Values rise by 3 and the excess by 0.5 per unit of the subgoal: values are multiplied by 0.5 / 3."""
    critic = MLP((jnp.array([[1.0], [3.0]]),), (jnp.array([100.0]),))  # 100 + the observation + 3 times the subgoal
    half = lambda obs, subgoal: 0.5 * jnp.abs(obs - subgoal)[0] - 1.0  # noqa: E731
    obs = jnp.array([[1.0], [2.0]])
    np.testing.assert_allclose(td3.slopes(_constant(1, 0.0), critic, obs, LINE, half), (3.0, 0.5), rtol=1e-5)
    batch = _windows(2, 0.0, 0.0, 0.0, True)._replace(obs=obs)
    # The actor asks for 5: values 116 and 117, the excess is 0.5 * 4 - 1 = 1 and 0.5 * 3 - 1 = 0.5.
    loss, _ = td3.actor_loss(_constant(1, 0.0), critic, batch, LINE, half, SLOPE._replace(penalty_weight=4.0))
    np.testing.assert_allclose(loss, -116.5 / 6.0 + 4.0 * 0.75, rtol=1e-5)


@pytest.mark.parametrize(("eta", "direction"), [(0.9, 1.0), (1.1, -1.0)])
@pytest.mark.parametrize("rewards", [0.001, 1000.0])
def test_with_slopes_eta_says_which_pull_wins(eta, direction, rewards):
    """Beyond the hinge the value pulls the subgoal up and the adjacency loss down; eta = 1 is the balance."""
    critic = MLP((jnp.array([[0.0], [rewards]]),), (jnp.array([-7.0 * rewards]),))
    batch, actor = _windows(4, 1.0, 0.0, 0.0, True), _constant(1, 0.0)
    cfg = SLOPE._replace(penalty_weight=eta)
    slope = jax.grad(lambda a: td3.actor_loss(a, critic, batch, LINE, _beyond(1.0), cfg)[0])(actor)
    assert np.sign(-slope.biases[0][0]) == direction


def test_flat_values_are_not_divided_by_zero():
    batch = _windows(4, 1.0, 0.0, 0.0, True)
    cfg = SLOPE._replace(penalty_weight=2.0)
    loss, _ = td3.actor_loss(_constant(1, 0.0), _constant(2, 0.0), batch, LINE, _beyond(1.0), cfg)
    np.testing.assert_allclose(loss, 2.0 * 3.0, rtol=1e-5)


def _worth_by_hand(action):
    """Two hills on the line from 0 to 10: a low one at 8 and a high one at 2, with a valley at 5."""
    return jnp.interp(action[0], jnp.array([0.0, 2.0, 5.0, 8.0, 10.0]), jnp.array([0.0, 2.0, 0.0, 1.0, 0.0]))


@pytest.mark.parametrize(
    ("noise", "expected"),
    [
        ([1.0, -1.0, -5.0], 3.0),  # 9 is worth 0.5, 7 is worth 2/3, 3 is worth 4/3
        ([1.0, -1.0, -3.0], 8.0),  # none is worth more than 1
        ([-20.0, -6.5, 20.0], 1.5),  # clipped to 0 and 10, which are worth nothing
    ],
)
def test_a_better_action_by_hand(noise, expected):
    found = td3.better_action(jnp.array([8.0]), jnp.array(noise)[:, None], _worth_by_hand, LINE)
    np.testing.assert_allclose(found, [expected])


@pytest.mark.parametrize("weights", [(0.0, "plain"), (0.5, "plain"), (8.0, "slope")])
@pytest.mark.parametrize(
    ("hinge", "moves", "distance", "direction"),
    [
        (1.0, [4.0, -2.0], 0.0, 0.0),  # 9 and 3 are beyond the hinge, as 5 is
        (1.0, [4.0, -3.0, -3.5], 1.5, -1.0),  # of 2, at the hinge, and 1.5 the better is 2
        (5.0, [4.0, 1.0, -2.0], 0.5, 1.0),  # 9 is beyond it, 6 is at it and better than 5, 3 is worse
        (5.0, [4.0, -2.0], 0.0, 0.0),  # 5 is within it, so 3 is not better
        (None, [4.0, 1.0], 2.0, 1.0),  # without adjacency 9 is the best
    ],
)
def test_the_search_draws_the_actor_to_the_best_candidate_within_the_hinge_by_hand(hinge, moves, distance, direction, weights):
    """The value is the subgoal. From position 1 the actor asks for 5.

    The squared distance from the best candidate, in standard deviations of 2, is added to the loss, whatever eta is and however
    values are scaled.
    """
    critic, batch = MLP((jnp.array([[0.0], [1.0]]),), (jnp.zeros(1),)), _windows(2, 1.0, 0.0, 0.0, True)
    eta, scale = weights
    cfg = CFG._replace(penalty_weight=eta, value_scale=scale, search_candidates=len(moves), search_sigma=(2.0,))
    excess = None if hinge is None else _beyond(hinge)
    loss = lambda actor, noise: td3.actor_loss(actor, critic, batch, LINE, excess, cfg, noise=noise)  # noqa: E731
    noise = jnp.tile(jnp.array(moves)[:, None], (2, 1, 1))
    (searching, metrics), grads = jax.value_and_grad(loss, has_aux=True)(_constant(1, 0.0), noise)
    (plain, _), without = jax.value_and_grad(loss, has_aux=True)(_constant(1, 0.0), None)
    np.testing.assert_allclose(searching - plain, distance**2, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(metrics["search_distance"], distance, rtol=1e-5)
    assert np.sign(without.biases[0] - grads.biases[0]) == direction


def test_critics_may_have_layer_norms_and_actors_have_none():
    state = td3.init(KEY, 2, 1, CFG._replace(layer_norm=True))
    assert [len(critic.gains) for critic in (*state.critics, *state.target_critics)] == [1, 1, 1, 1]
    assert state.actor.gains == ()


def test_saturation_is_the_share_of_numbers_in_the_outer_twentieth():
    """From 0 to 10 that is below 0.25 and above 9.75."""
    assert td3.saturation(jnp.array([[0.2], [0.3], [5.0], [9.9]]), LINE) == 0.5


def test_the_output_penalty_by_hand():
    # Outputs before tanh: (3, 1) from the observation 1, (-6, 1) from -2. Squares 9, 1, 36, 1: their mean is 47 / 4.
    actor, obs = _two_outputs(3.0, 1.0), jnp.array([[1.0], [-2.0]])
    np.testing.assert_allclose(td3.squared_output(actor, obs), 11.75)
    batch = Transition(obs, jnp.zeros((2, 2)), jnp.zeros(2), obs, jnp.ones(2, bool))
    square = SubgoalSpace(True, (0.0, 0.0), (1.0, 1.0))
    loss, metrics = td3.actor_loss(actor, _constant(3, 7.0), batch, square, None, CFG._replace(output_penalty=0.1))
    np.testing.assert_allclose(loss, -7.0 + 0.1 * 11.75, rtol=1e-6)
    assert metrics == {"saturation": 0.5}  # tanh 3 and tanh -6 are beyond 0.95


def test_the_output_penalty_alone_draws_the_output_towards_zero():
    cfg = CFG._replace(output_penalty=1.0)
    batch, before = _windows(8, 1.0, 5.0, 1.0, True), INIT(jax.random.key(0), 1, 1, cfg)
    after, _ = UPDATE_ACTOR(before, batch, LINE, None, cfg, False)
    assert td3.squared_output(after.actor, batch.obs) < td3.squared_output(before.actor, batch.obs)


def _train(cfg, make_batch, updates=800, value_every=1, penalty=None, first=None):
    @jax.jit
    def run(state, keys):
        def some(state, keys):
            for index in range(value_every):
                state, _ = td3.update(keys[index], state, make_batch(keys[index]), LINE, penalty, cfg, index == 0)
            return state, None

        return jax.lax.scan(some, state, keys)[0]

    keys = jax.random.split(jax.random.key(1), (updates // value_every, value_every))
    return run(INIT(jax.random.key(0), 1, 1, cfg) if first is None else first, keys)


def _bandit(key):
    """One-window episodes at position 2; a subgoal g pays -(g - 7)^2 / 10: best subgoal 7, value 0."""
    subgoal = jax.random.uniform(key, (64, 1), maxval=10.0)
    obs = jnp.full((64, 1), 2.0)
    return Transition(obs, subgoal, -((subgoal[:, 0] - 7.0) ** 2) / 10.0, obs, jnp.zeros(64, bool))


def test_probe_the_best_subgoal_is_found_and_valued():
    state = _train(CFG, _bandit)
    obs = jnp.array([2.0])
    subgoal = td3.act(state.actor, obs, LINE)
    np.testing.assert_allclose(subgoal, [7.0], atol=0.5)
    for critic in state.critics:
        np.testing.assert_allclose(td3.value(critic, obs, subgoal), 0.0, atol=0.15)
        np.testing.assert_allclose(td3.value(critic, obs, jnp.array([2.0])), -2.5, atol=0.3)


def test_probe_the_adjacency_loss_keeps_the_best_adjacent_subgoal():
    """From 2, with a hinge of 3, the best subgoal within reach is 5."""
    cfg = CFG._replace(penalty_weight=20.0, actor_learning_rate=1e-3)
    state = _train(cfg, _bandit, updates=2000, value_every=2, penalty=_beyond(3.0))
    np.testing.assert_allclose(td3.act(state.actor, jnp.array([2.0]), LINE), [5.0], atol=0.4)


def _at_eight(actor):
    """The actor with weights of 0 in its last layer, and the output that stands for 8 of 0 to 10."""
    last, output = jnp.zeros_like(actor.weights[-1]), jnp.log(jnp.array([8.0 / 2.0]))
    return actor._replace(weights=(*actor.weights[:-1], last), biases=(*actor.biases[:-1], output))


@pytest.mark.parametrize(("candidates", "expected"), [(0, 8.0), (20, 2.0)])
def test_probe_the_search_leaves_a_low_hill_for_a_high_one(candidates, expected):
    """A subgoal of 8 pays 1 and one of 2 pays 2, with nothing between. The actor begins at the first."""

    def two_hills(key):
        windows = _bandit(key)
        high, low = (jnp.exp(-((windows.action[:, 0] - top) ** 2) / 2) for top in (2.0, 8.0))
        return windows._replace(reward=2 * high + low)

    valued = _train(CFG._replace(actor_learning_rate=1e-9), two_hills, updates=3000)
    cfg = CFG._replace(search_candidates=candidates, search_sigma=3.0)
    state = _train(cfg, two_hills, first=valued._replace(actor=_at_eight(valued.actor)))
    np.testing.assert_allclose(td3.act(state.actor, jnp.array([2.0]), LINE), [expected], atol=0.5)


def test_probe_two_states_the_value_is_carried_back_with_the_discount():
    """State 0 leads to state 1 without reward; state 1 ends with reward 1: V(1) = 1, V(0) = gamma."""

    def batch(key):
        subgoal = jax.random.uniform(key, (64, 1), maxval=10.0)
        first = (jnp.arange(64) % 2 == 0)[:, None]
        obs = jnp.where(first, 0.0, 1.0)
        return Transition(obs, subgoal, jnp.where(first[:, 0], 0.0, 1.0), jnp.ones((64, 1)), first[:, 0])

    cfg = CFG._replace(discount=0.8)
    state = _train(cfg, batch)
    value = functools.partial(td3.value, state.critics[0])
    np.testing.assert_allclose(value(jnp.array([1.0]), jnp.array([5.0])), 1.0, atol=0.05)
    np.testing.assert_allclose(value(jnp.array([0.0]), jnp.array([5.0])), 0.8, atol=0.05)


@pytest.mark.parametrize(("eta", "moves"), [(0.0, False), (20.0, True)])
def test_without_a_value_term_only_the_adjacency_loss_moves_the_actor(eta, moves):
    cfg = CFG._replace(penalty_weight=eta)
    state = INIT(jax.random.key(0), 1, 1, cfg)
    batch = _windows(8, 0.0, 5.0, 1.0, True)
    after, _ = UPDATE_ACTOR(state, batch, LINE, _beyond(1.0), cfg, False)
    changed = any(
        not np.array_equal(a, b) for a, b in zip(jax.tree.leaves(state.actor), jax.tree.leaves(after.actor), strict=True)
    )
    assert changed is moves


def test_without_a_term_the_actor_rests_even_if_its_optimiser_has_momentum():
    """A weight without anything to weigh is no term."""
    cfg = CFG._replace(penalty_weight=20.0)
    batch = _windows(8, 0.0, 5.0, 1.0, True)
    update = lambda state, with_value: UPDATE_ACTOR(state, batch, LINE, None, cfg, with_value)[0]  # noqa: E731
    moving = update(INIT(jax.random.key(0), 1, 1, cfg), True)
    resting = update(moving, False)
    jax.tree.map(np.testing.assert_array_equal, resting, moving)
    assert not np.array_equal(update(moving, True).actor.biases[0], moving.actor.biases[0])


def test_targets_follow_slowly():
    state = INIT(jax.random.key(0), 1, 1, CFG)
    update = jax.jit(td3.update, static_argnums=(3, 4, 5))
    after, _ = update(KEY, state, _windows(8, 0.0, 5.0, 1.0, True), LINE, None, CFG)
    old, new, slow = state.target_critics[0].biases[0], after.critics[0].biases[0], after.target_critics[0].biases[0]
    np.testing.assert_allclose(slow, 0.95 * old + 0.05 * new, rtol=1e-5)


def test_huber_error_is_half_the_square_near_and_linear_far():
    state = _state(1.5, 5.0, 0.0, 0.0)
    loss, _ = td3.critic_loss(state.critics, jnp.array([2.0]), _windows(1, 0.0, 0.0, 0.0, True), huber=True)
    np.testing.assert_allclose(loss, 0.5 * 0.5**2 + (3.0 - 0.5))  # errors 0.5 and 3


@pytest.mark.parametrize(("noise", "expected"), [(0.0, 5.0), (2.0, 7.0), (20.0, 10.0)])
def test_noise_on_the_slow_actor_is_clipped_to_the_range(noise, expected):
    """A critic that gives back the subgoal shows which one was valued: sigmoid(0) of 0..10 is 5."""
    reads = MLP((jnp.array([[0.0], [1.0]]),), (jnp.zeros(1),))
    state = _state(0.0, 0.0, 0.0, 0.0)._replace(target_actor=_constant(1, 0.0), target_critics=(reads, reads))
    step = jax.tree.map(lambda leaf: leaf[0], _windows(1, 0.0, 0.0, 0.0, True))
    cfg = CFG._replace(discount=1.0, target_noise_sigma=0.2, target_noise_clip=0.5)
    np.testing.assert_allclose(td3.critic_target(jnp.full(1, noise), state, step, LINE, cfg), expected, rtol=1e-6)


def test_weight_decay_is_added_to_the_gradient():
    """Adam's first step is lr * sign(gradient): without an error only the decay is left, and shrinks the weights."""
    cfg = CFG._replace(critic_weight_decay=1e-4, discount=0.0)
    state = INIT(jax.random.key(0), 1, 1, cfg)._replace(critics=(_constant(2, 1.0), _constant(2, 1.0)))
    state = state._replace(critic_opt=td3._critic_optimiser(cfg).init(state.critics))
    update = jax.jit(td3.update_critics, static_argnums=(3, 4))
    after, _ = update(KEY, state, _windows(4, 0.0, 0.0, 1.0, True), LINE, cfg)
    np.testing.assert_allclose(after.critics[0].biases[0], [1.0 - 1e-2], rtol=1e-4)


def test_what_is_not_asked_for_is_off():
    assert Settings((32,), 1e-2, 1e-2, 0.05, 0.99, 1.0, 0.0, False, 0.0, 0.0, 0.0, 0.0) == CFG


def test_the_value_term_is_there_unless_it_is_left_out():
    state, batch = INIT(jax.random.key(0), 1, 1, CFG), _windows(8, 0.0, 5.0, 1.0, True)
    update = jax.jit(td3.update, static_argnums=(3, 4, 5, 6))
    plain, whole = UPDATE_ACTOR(state, batch, LINE, None, CFG)[0], update(KEY, state, batch, LINE, None, CFG)[0]
    assert not np.array_equal(plain.actor.biases[-1], state.actor.biases[-1])
    jax.tree.map(np.testing.assert_array_equal, plain, UPDATE_ACTOR(state, batch, LINE, None, CFG, True)[0])
    jax.tree.map(np.testing.assert_array_equal, whole, update(KEY, state, batch, LINE, None, CFG, True)[0])
