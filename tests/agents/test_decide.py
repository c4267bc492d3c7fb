"""What is proposed, with networks whose answers are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrac import config as configs
from hrac.agents.decide import Actors, Noise, Setup, SubgoalState, carry_on, decide, propose
from hrac.agents.subgoals import SubgoalSpace
from hrac.config import Config
from hrac.nets import MLP
from hrac.spaces import Box, Discrete

MAP = SubgoalSpace(False, (0.0, 0.0), (2.0, 6.0))
PROPOSE = jax.jit(propose, static_argnames="setup")


def _setup(**changes):
    return Setup(MAP, Discrete(4), 2, configs.replace(Config(), changes))


def _actors(embedding=None):
    manager, controller = (MLP.init(jax.random.key(seed), sizes) for seed, sizes in enumerate([(2, 8, 2), (4, 8, 4)]))
    return Actors(manager, controller, embedding)


def _identity():
    """An embedding that is the position itself, so that adjacent means nearer than 1.1."""
    return MLP((jnp.eye(2),), (jnp.zeros(2),))


def _noise(count, setup, sigma):
    first, second, third = jax.random.split(jax.random.key(0), 3)
    candidates = setup.cfg.manager.candidates
    return Noise(
        first_subgoal=jax.random.uniform(first, (count, 2)),
        subgoals=sigma * jax.random.normal(second, (count, candidates, 2)),
        lottery=jax.random.uniform(third, (count, candidates)),
    )


def _proposed(actors, obs, count, sigma, ready=True):
    setup = _setup()
    seen = jnp.broadcast_to(jnp.asarray(obs), (count, 2))
    return np.asarray(PROPOSE(actors, seen, setup, _noise(count, setup, sigma), jnp.full(count, ready)))


def _plain(actors, obs):
    return np.asarray(MAP.squash(actors.manager(jnp.asarray(obs))))


def test_before_learning_starts_subgoals_are_uniform_and_afterwards_the_managers():
    actors = _actors(_identity())
    early, late = (_proposed(actors, [1.0, 3.0], 400, 0.0, ready) for ready in (False, True))
    np.testing.assert_allclose(early.mean(axis=0), [1.0, 3.0], atol=0.2)
    assert early.std(axis=0).min() > 0.5
    np.testing.assert_allclose(late, np.broadcast_to(_plain(actors, [1.0, 3.0]), late.shape), rtol=1e-5)


def test_candidates_are_adjacent_where_any_is_and_plain_where_none_is():
    actors = _actors(_identity())
    near = _proposed(actors, [1.0, 3.0], 300, 2.0)
    adjacent = np.linalg.norm(near - [1.0, 3.0], axis=1) < 1.1
    assert adjacent.mean() > 0.95
    assert (np.abs(near[~adjacent] - _plain(actors, [1.0, 3.0])) < 1e-5).all()
    far = _proposed(actors, [1.0, 100.0], 300, 2.0)  # no candidate can be adjacent to a place off the map
    np.testing.assert_allclose(far, np.broadcast_to(_plain(actors, [1.0, 100.0]), far.shape), rtol=1e-5)


# By hand, for NumPy and JAX alike.


def _linear(xp, *rows, shift=None):
    """A network of one layer: its weights (inputs, outputs), and what it adds."""
    shift = [0.0] * len(rows[0]) if shift is None else shift
    return MLP((xp.asarray(rows, dtype=xp.float32),), (xp.asarray(shift, dtype=xp.float32),))


def _candidates(xp, lottery, embedding=True):
    """The manager asks for (1, 3), the middle of the map. The agent is at (1, 1); what is nearer than 1.1 is adjacent.

    Candidates are (1, 0), (1, 3), (1, 2), (0.5, 0.5) and, clipped to the map, (2, 6).
    """
    setup = _setup(**{"manager.candidates": 5})
    actors = Actors(
        _linear(xp, [0.0, 0.0], [0.0, 0.0]),
        _linear(xp, *[[0.0] * 4] * 4),
        _linear(xp, [1.0, 0.0], [0.0, 1.0]) if embedding else None,
    )
    moves = [[0.0, -3.0], [0.0, 0.0], [0.0, -1.0], [-0.5, -2.5], [9.0, 9.0]]
    array = lambda values: xp.asarray(values, dtype=xp.float32)  # noqa: E731
    noise = Noise(array([[0.5, 0.5]]), array([moves]), array([lottery]))
    return np.asarray(propose(actors, array([[1.0, 1.0]]), setup, noise, xp.asarray([True]))[0])


@pytest.mark.parametrize("xp", [np, jnp])
@pytest.mark.parametrize(
    ("lottery", "expected"),
    [
        ([0.9, 0.1, 0.2, 0.3, 0.8], [1.0, 0.0]),
        ([0.3, 0.9, 0.4, 0.1, 0.8], [1.0, 2.0]),  # (1, 3) and (2, 6) have drawn more, but are too far
        ([0.1, 0.9, 0.1, 0.2, 0.8], [0.5, 0.5]),
    ],
)
def test_the_adjacent_candidate_that_drew_most_is_taken(xp, lottery, expected):
    np.testing.assert_allclose(_candidates(xp, lottery), expected, atol=1e-6)


@pytest.mark.parametrize("xp", [np, jnp])
def test_without_an_adjacency_network_every_candidate_counts(xp):
    np.testing.assert_allclose(_candidates(xp, [0.1, 0.2, 0.3, 0.4, 0.9], embedding=False), [2.0, 6.0])


@pytest.mark.parametrize("xp", [np, jnp])
def test_a_single_candidate_is_taken_even_if_it_is_too_far(xp):
    """From (1, 1): (1, 3) and the noise make (2, 5)."""
    array = lambda values: xp.asarray(values, dtype=xp.float32)  # noqa: E731
    actors = Actors(_linear(xp, [0.0, 0.0], [0.0, 0.0]), _linear(xp, *[[0.0] * 4] * 4), _linear(xp, [1.0, 0.0], [0.0, 1.0]))
    noise = Noise(array([[0.5, 0.5]]), array([[[1.0, 2.0]]]), array([[0.5]]))
    chosen = propose(actors, array([[1.0, 1.0]]), _setup(**{"manager.candidates": 1}), noise, xp.asarray([True]))
    np.testing.assert_allclose(chosen, [[2.0, 5.0]])


@pytest.mark.parametrize("xp", [np, jnp])
def test_proposals_for_runs_and_copies_are_those_for_each_alone(xp):
    """The manager asks for (1, 3) everywhere. In some places a candidate is adjacent, in others none is."""
    rng, setup = np.random.default_rng(2), _setup(**{"manager.candidates": 3})
    array = lambda values: xp.asarray(values, dtype=xp.float32)  # noqa: E731
    actors = Actors(_linear(xp, [0.0, 0.0], [0.0, 0.0]), _linear(xp, *[[0.0] * 4] * 4), _linear(xp, [1.0, 0.0], [0.0, 1.0]))
    obs, unit = array(rng.uniform([0.0, 0.0], [2.0, 6.0], (2, 4, 2))), array(rng.random((2, 4, 2)))
    noise = Noise(unit, array(rng.normal(size=(2, 4, 3, 2))), array(rng.random((2, 4, 3))))
    together = np.asarray(propose(actors, obs, setup, noise, xp.ones((2, 4), dtype=bool)))
    plain = np.isclose(together, [1.0, 3.0]).all(axis=-1)
    assert plain.any(axis=1).all()
    assert not plain.all(axis=1).any()
    for run in range(2):
        for copy in range(4):
            own = jax.tree.map(lambda part, at=(run, copy): part[at], noise)
            alone = propose(actors, obs[run, copy], setup, own, xp.asarray(True))
            np.testing.assert_allclose(together[run, copy], alone, rtol=1e-6)


def test_every_adjacent_candidate_is_as_likely_as_another():
    """From (1, 1), of candidates at distances 1, 2, 1, 0.7 and 5: the first, the third and the fourth."""
    drawn = np.random.default_rng(0).random((600, 5))
    chosen = np.stack([_candidates(np, lottery) for lottery in drawn])
    counts = [np.isclose(chosen, option).all(axis=1).sum() for option in ([1, 0], [1, 2], [0.5, 0.5])]
    assert sum(counts) == 600
    np.testing.assert_allclose(np.array(counts) / 600, 1 / 3, atol=0.08)


def _steered(xp, actions):
    """Relative subgoals of +-4; the manager's is tanh(x) * 4 in both coordinates, the controller gives back its subgoal."""
    setup = Setup(SubgoalSpace(True, (0.0, 0.0), (9.0, 9.0), reach=4.0), actions, 2, Config())
    return setup, Actors(_linear(xp, [1.0, 1.0], [0.0, 0.0]), _linear(xp, [0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 1.0]), None)


@pytest.mark.parametrize("xp", [np, jnp])
def test_a_subgoal_is_new_where_one_is_due_and_kept_elsewhere(xp):
    setup, actors = _steered(xp, Box((-9.0, -9.0), (9.0, 9.0)))
    array = lambda values: xp.asarray(values, dtype=xp.float32)  # noqa: E731
    obs, kept = array([[0.5, 7.0], [0.5, 7.0]]), array([[0.2, -0.1], [0.2, -0.1]])
    subgoal, action = decide(actors, SubgoalState(kept, xp.asarray([0, 2])), obs, setup)
    proposed = 4 * np.tanh(0.5)
    np.testing.assert_allclose(subgoal, [[proposed, proposed], [0.2, -0.1]], rtol=1e-5)
    np.testing.assert_allclose(action, 9 * np.tanh(np.asarray(subgoal)), rtol=1e-5)


@pytest.mark.parametrize("xp", [np, jnp])
def test_noise_on_the_action_is_added_to_the_vector_or_to_the_logits(xp):
    array = lambda values: xp.asarray(values, dtype=xp.float32)  # noqa: E731
    state = SubgoalState(array([[0.2, 0.1]]), xp.asarray([1]))
    obs, noise = array([[0.0, 0.0]]), array([[0.0, 0.5]])
    for space, expected in ((Box((-1.0, -1.0), (1.0, 1.0)), [[np.tanh(0.2), np.tanh(0.1) + 0.5]]), (Discrete(2), [1])):
        setup, actors = _steered(xp, space)
        np.testing.assert_allclose(decide(actors, state, obs, setup, noise)[1], expected, rtol=1e-5)
    setup, actors = _steered(xp, Discrete(2))
    np.testing.assert_array_equal(decide(actors, state, obs, setup)[1], [0])


@pytest.mark.parametrize("xp", [np, jnp])
def test_a_subgoal_is_carried_on_and_its_clock_begins_anew_after_a_windows_last_step(xp):
    setup, _ = _steered(xp, Discrete(2))
    array = lambda values: xp.asarray(values, dtype=xp.float32)  # noqa: E731
    state = SubgoalState(array([[2.0, 1.0], [2.0, 1.0]]), xp.asarray([1, 2], dtype=xp.int32))
    obs, next_obs = array([[1.0, 1.0], [1.0, 1.0]]), array([[2.0, 1.0], [1.0, 3.0]])
    after = carry_on(state, obs, next_obs, xp.asarray([False, True]), setup.space)
    np.testing.assert_allclose(after.subgoal, [[1.0, 1.0], [2.0, -1.0]])
    np.testing.assert_array_equal(after.clock, [2, 0])
    assert after.clock.dtype == np.int32


def test_one_decision_is_made_alike_alone_and_among_others():
    """A policy acts for one copy without any leading axis."""
    setup, actors = _steered(np, Box((-9.0, -9.0), (9.0, 9.0)))
    rng = np.random.default_rng(0)
    obs, kept = rng.normal(size=(2, 5, 2)).astype(np.float32)
    clock = np.array([0, 1, 0, 2, 3])
    many = decide(actors, SubgoalState(kept, clock), obs, setup)
    for i in range(5):
        alone = decide(actors, SubgoalState(kept[i], np.asarray(clock[i])), obs[i], setup)
        for whole, one in zip(many, alone, strict=True):
            np.testing.assert_allclose(whole[i], one, rtol=1e-5)


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("ready", [False, True])
def test_to_explore_the_target_of_the_task_replaces_a_share_of_the_subgoals(relative, ready):
    """Of a target that is out of range, the nearest subgoal stands for it."""
    changes = {
        "manager.subgoals": "relative" if relative else "absolute",
        "manager.candidates": 1,
        "manager.target_chance": 0.25,
    }
    space = SubgoalSpace(relative, (0.0, 0.0), (2.0, 6.0), context=2, reach=(1.0, 2.0) if relative else None)
    setup = Setup(space, Discrete(4), 4, configs.replace(Config(), changes))
    actors = _actors()._replace(manager=MLP.init(jax.random.key(0), (4, 8, 2)))
    obs = np.tile(np.array([0.5, 1.0, 1.0, 5.0], np.float32), (8, 1))  # at (0.5, 1), target (1, 5)
    chance = np.arange(8, dtype=np.float32) / 8  # two of eight are below a quarter
    noise = Noise(np.full((8, 2), 0.5), np.zeros((8, 1, 2), np.float32), np.zeros((8, 1), np.float32), at_target=chance)
    numpy_actors = jax.tree.map(np.asarray, actors)
    proposed = propose(numpy_actors, obs, setup, noise, np.full(8, ready))
    without = propose(numpy_actors, obs, setup, noise._replace(at_target=None), np.full(8, ready))
    np.testing.assert_allclose(proposed[:2], np.tile([0.5, 2.0] if relative else [1.0, 5.0], (2, 1)))
    np.testing.assert_array_equal(proposed[2:], without[2:])
    np.testing.assert_allclose(
        propose(actors, jnp.asarray(obs), setup, jax.tree.map(jnp.asarray, noise), jnp.full(8, ready)), proposed, rtol=1e-5
    )
