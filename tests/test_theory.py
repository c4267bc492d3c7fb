"""The theory of the paper, on MDPs worked out by hand and on hundreds of random ones."""

import itertools

import numpy as np
import pytest
import threadpoolctl
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from hrac import theory
from hrac.envs.grid import KeyChest, Maze
from hrac.errors import HracError
from hrac.theory import TabularMDP

many = settings(max_examples=300, deadline=None, derandomize=True, database=None)


def _successors(states, actions):
    return npst.arrays(np.int64, (states, actions), elements=st.integers(0, states - 1), fill=st.nothing())


@st.composite
def deterministic_mdps(draw, max_states=8, max_actions=4):
    states, actions = draw(st.integers(2, max_states)), draw(st.integers(1, max_actions))
    successors = draw(_successors(states, actions))
    if draw(st.booleans()):  # a ring through all states in some order; without it few draws with few actions are connected
        order = np.array(draw(st.permutations(range(states))))
        successors[order, draw(st.integers(0, actions - 1))] = np.roll(order, -1)
    mdp = TabularMDP.from_successors(successors)
    assume(mdp.strongly_connected)
    return mdp


@st.composite
def stochastic_mdps(draw, max_states=6, max_actions=3):
    """An action has one of two next states."""
    mdp = draw(deterministic_mdps(max_states, max_actions))
    states, actions, _ = mdp.transitions.shape
    chance = draw(st.sampled_from([0.01, 0.25, 0.5, 0.75]))
    slipped = np.eye(states)[draw(_successors(states, actions))]
    mixed = TabularMDP((1 - chance) * mdp.transitions + chance * slipped)
    assume(not mixed.deterministic)
    return mixed


any_mdps = st.one_of(deterministic_mdps(), stochastic_mdps())


@st.composite
def with_policy(draw, mdps):
    """An MDP, and an optimal policy that breaks ties in an order of actions of its own in each state."""
    mdp = draw(mdps)
    states, actions, _ = mdp.transitions.shape
    preference = [draw(st.permutations(range(actions))) for _ in range(states)]
    return mdp, theory.optimal_policy(mdp, preference)


def _chance(mdp, seed, *shape):
    """Numbers that go with an MDP and need not be made simple."""
    return np.random.default_rng(seed).normal(size=(*mdp.transitions.shape[:2], *shape))


# Distances, by hand.

RING = TabularMDP.from_successors([[1], [2], [3], [0]])

ONE_WAY_DOOR = TabularMDP.from_successors([[1, 0], [2, 0], [3, 2], [0, 2]])
"""Rooms 0 - 1 | 2 - 3. Action 0 is right, 1 is left; 1 to 2 is a door that does not open from behind; 3 leads round to 0."""

CHAIN = TabularMDP([[[0.5, 0.5, 0]], [[0, 0.75, 0.25]], [[1, 0, 0]]])
"""One action: on with probability 1/2 from 0 and 1/4 from 1, else stay; back to 0 from 2."""

FORK = TabularMDP(
    [
        [[0, 0.5, 0.5, 0, 0, 0], [1, 0, 0, 0, 0, 0]],
        *[[np.eye(6)[after], np.eye(6)[after]] for after in (3, 4, 5, 5, 0)],
    ]
)
"""From 0, action 0 jumps to 1 or 2 and action 1 stays. Then 1 - 3 - 5 and 2 - 4 - 5, and back to 0, whatever is done."""

FORK_WITH_RETURN = TabularMDP(
    np.stack([FORK.transitions[:, 0], np.where((np.arange(6) < 3)[:, None], np.eye(6)[0], FORK.transitions[:, 1])], axis=1)
)
"""The same, but action 1 goes back from 1 and 2 to 0."""


def test_on_a_ring_distances_are_counted_one_way_round():
    np.testing.assert_array_equal(RING.distance, [[0, 1, 2, 3], [3, 0, 1, 2], [2, 3, 0, 1], [1, 2, 3, 0]])


def test_a_one_way_door_makes_distances_asymmetric():
    np.testing.assert_array_equal(ONE_WAY_DOOR.distance, [[0, 1, 2, 3], [1, 0, 1, 2], [2, 3, 0, 1], [1, 2, 1, 0]])
    assert (ONE_WAY_DOOR.distance[1, 2], ONE_WAY_DOOR.distance[2, 1]) == (1, 3)


def test_expected_first_hit_times_of_a_chain():
    # 1 / (1/2) = 2 steps from 0 to 1, 1 / (1/4) = 4 from 1 to 2, one from 2 to 0, and their sums.
    np.testing.assert_allclose(CHAIN.distance, [[0, 2, 6], [5, 0, 4], [1, 3, 0]], rtol=1e-12)


def test_expected_first_hit_times_of_a_fork():
    # To 1: x = 1 + (3 + x) / 2, as half of the jumps come round by 2, 4, 5 and 0. So x = 5.
    np.testing.assert_allclose(FORK.distance[0], [0, 5, 5, 6, 6, 3], rtol=1e-12)


def test_a_slow_sure_way_is_chosen_by_its_expected_time():
    # Action 0 succeeds with probability p and else stays: 1 / p steps. Action 1 takes a way round of 3 steps.
    for p, steps in ((0.5, 2.0), (0.2, 3.0)):
        jump = [0, 0, 1 - p, 0, p]
        mdp = TabularMDP([np.eye(5)[[1, 1]], np.eye(5)[[4, 4]], [jump, np.eye(5)[0]], np.eye(5)[[2, 2]], np.eye(5)[[3, 3]]])
        assert mdp.distance[2, 4] == pytest.approx(steps)
        assert theory.optimal_policy(mdp)[2, 4] == (0 if p == 0.5 else 1)


def test_what_is_not_reached_for_sure_is_infinitely_far():
    # From 0, action 0 leads to 1 or to the trap 2. Action 1 stays.
    mdp = TabularMDP([[[0, 0.5, 0.5], [1, 0, 0]], [[1, 0, 0]] * 2, [[0, 0, 1]] * 2])
    # The trap is sure to be met in the end: x = 1 + (1 + x) / 2, so x = 3.
    np.testing.assert_allclose(mdp.distance, [[0, np.inf, 3], [1, 0, 4], [np.inf, np.inf, 0]], rtol=1e-12)
    assert not mdp.strongly_connected
    # With a way of two steps from 0, by 3, it is better not to try, though half of the tries need one.
    mdp = TabularMDP([[[0, 0.5, 0.5, 0], [0, 0, 0, 1]], [[1, 0, 0, 0]] * 2, [[0, 0, 1, 0]] * 2, [[0, 1, 0, 0]] * 2])
    assert mdp.distance[0, 1] == 2
    assert theory.optimal_policy(mdp)[0, 1] == 1
    one_way = TabularMDP.from_successors([[1], [1]])
    np.testing.assert_array_equal(one_way.distance, [[0, 1], [np.inf, 0]])
    with pytest.raises(theory.TheoryError, match="no way from state 1 to goal 0"):
        theory.surrogate_subgoal(one_way, theory.optimal_policy(one_way), 1, 0, k=1)


# Distances, by property.


@many
@given(any_mdps)
def test_distances_are_a_quasi_metric(mdp):
    d = mdp.distance
    assert np.isfinite(d).all()
    assert (np.diag(d) == 0).all()
    assert (d[~np.eye(len(d), dtype=bool)] >= 1 - 1e-9).all()
    by_any_third_state = (d[:, :, None] + d[None]).min(axis=1)
    assert (d <= by_any_third_state * (1 + 1e-8)).all()


@many
@given(any_mdps)
def test_distances_solve_the_bellman_equation(mdp):
    d = mdp.distance
    best = 1 + (mdp.transitions @ d).min(axis=1)
    np.fill_diagonal(best, 0)
    np.testing.assert_allclose(d, best, rtol=1e-8)


@many
@given(deterministic_mdps())
def test_distances_of_deterministic_mdps_are_those_of_breadth_first_search(mdp):
    for start in range(mdp.num_states):
        level, seen, steps = {start}, {start: 0}, 0
        while level:
            steps += 1
            level = {int(after) for state in level for after in mdp.successors[state]} - set(seen)
            seen |= dict.fromkeys(level, steps)
        np.testing.assert_array_equal(mdp.distance[start], [seen[goal] for goal in range(mdp.num_states)])


@settings(many, max_examples=100)
@given(stochastic_mdps(max_states=4, max_actions=2))
def test_no_policy_hits_sooner_than_the_distance_and_one_hits_as_soon(mdp):
    states, actions, _ = mdp.transitions.shape
    best = np.full((states, states), np.inf)
    for policy in itertools.product(range(actions), repeat=states):
        moves = mdp.transitions[np.arange(states), policy]
        for goal in range(states):
            np.minimum.at(best[:, goal], np.arange(states), _hit_times(moves, goal))
    np.testing.assert_allclose(mdp.distance, best, rtol=1e-8)


def _hit_times(moves, goal):
    """Expected first hit times (states) of a Markov chain, infinite where the goal may be missed for ever."""
    others = np.arange(len(moves)) != goal
    stop = moves.copy()
    stop[goal] = np.eye(len(moves))[goal]
    hit = np.linalg.matrix_power(stop, 4096)[:, goal] > 1 - 1e-6  # the smallest probabilities here are 0.01
    inner = others & hit
    times = np.where(hit, 0.0, np.inf)
    times[inner] = np.linalg.solve(np.eye(inner.sum()) - moves[np.ix_(inner, inner)], np.ones(inner.sum()))
    return times


@settings(many, max_examples=100)
@given(with_policy(stochastic_mdps()))
def test_the_optimal_policy_takes_the_shortest_time(mdp_and_policy):
    mdp, policy = mdp_and_policy
    for goal in range(mdp.num_states):
        moves = mdp.transitions[np.arange(mdp.num_states), policy[:, goal]]
        np.testing.assert_allclose(_hit_times(moves, goal), mdp.distance[:, goal], rtol=1e-6)


def test_the_distance_is_what_a_simulation_takes_on_average():
    rng, policy = np.random.default_rng(0), theory.optimal_policy(FORK)
    state, time = np.zeros(20_000, dtype=np.int64), np.zeros(20_000)
    while (going := state != 3).any():
        cumulative = FORK.transitions[state, policy[state, 3]].cumsum(axis=1)
        state = np.where(going, (rng.random((len(state), 1)) > cumulative).sum(axis=1), state)
        time += going
    assert time.mean() == pytest.approx(FORK.distance[0, 3], abs=0.12)  # three standard errors


def test_most_random_mdps_are_asymmetric_and_grids_are_not():
    seen = {}

    @many
    @given(deterministic_mdps())
    def look(mdp):
        seen[mdp.transitions.tobytes()] = (mdp.distance != mdp.distance.T).any()

    look()
    assert len(seen) > 150  # different ones; each of these tests draws its own
    assert np.mean(list(seen.values())) > 0.5
    grid = TabularMDP.from_grid_world(Maze(random_action_prob=0.0)).distance
    np.testing.assert_array_equal(grid, grid.T)


# Regions.


def test_regions_are_what_can_be_reached_in_k_steps():
    np.testing.assert_array_equal(theory.adjacent_regions(RING, 1), [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 1]])
    np.testing.assert_array_equal(theory.adjacent_regions(CHAIN, 4), [[1, 1, 0], [0, 1, 1], [1, 1, 1]])


@pytest.mark.parametrize("world", [Maze(random_action_prob=0.0), KeyChest(random_action_prob=0.0)])
def test_distances_of_grid_worlds_are_those_of_the_package(world):
    mdp = TabularMDP.from_grid_world(world)
    assert mdp.deterministic
    assert mdp.strongly_connected
    np.testing.assert_array_equal(mdp.distance, world.cell_distances)


def test_a_grid_world_moves_as_its_mdp_says():
    world = Maze("#####\n#A.##\n#..G#\n#####", random_action_prob=0.25)
    mdp, cells = TabularMDP.from_grid_world(world), [tuple(cell) for cell in world.cells]
    chances = (np.arange(400) + 0.5) / 400
    for number, cell in enumerate(cells):
        state, _ = world.start(np.array(cell, dtype=np.int32))
        for action in range(4):
            after = [cells.index(tuple(world.move(state, np.array(action), np.float32(c)).state.position)) for c in chances]
            np.testing.assert_allclose(mdp.transitions[number, action], np.bincount(after, minlength=len(cells)) / 400)


# Theorem 1.


@many
@given(with_policy(deterministic_mdps()), st.integers(1, 6))
def test_theorem_1(mdp_and_policy, k):
    mdp, policy = mdp_and_policy
    adjacent = theory.adjacent_regions(mdp, k)
    for state, goal in itertools.product(range(mdp.num_states), repeat=2):
        surrogate = theory.surrogate_subgoal(mdp, policy, state, goal, k)
        assert adjacent[state, surrogate]
        assert theory.acts_alike(mdp, policy, state, goal, surrogate, k)
        if k <= mdp.distance[state, goal]:  # a shortest way has shortest parts
            assert mdp.distance[state, surrogate] == k
            assert mdp.distance[surrogate, goal] == mdp.distance[state, goal] - k
        else:
            assert surrogate == goal


@many
@given(deterministic_mdps(), st.integers(1, 6), st.integers(0, 2**32))
def test_theorem_1_however_ties_are_broken_an_action_to_the_goal_is_optimal_to_the_surrogate(mdp, k, seed):
    optimal = theory.optimal_actions(mdp)
    policy = np.where(optimal, _chance(mdp, seed, mdp.num_states), np.inf).argmin(axis=1)
    for state, goal in itertools.product(range(mdp.num_states), repeat=2):
        if k <= mdp.distance[state, goal]:
            way = theory.trajectory(mdp, policy, state, goal, k)
            for here in way[:-1]:
                assert optimal[here, policy[here, goal], way[-1]]
                assert (optimal[here, :, way[-1]] <= optimal[here, :, goal]).all()


DIAMOND = TabularMDP.from_successors([[1, 2], [3, 1], [3, 2], [4, 3], [0, 4]])
"""Two ways from 0, by 1 or by 2, to 3; then 4, and back to 0. Elsewhere action 0 is on and action 1 stays."""


def _fickle():
    """An optimal policy of the diamond that goes by 1 to get to 4, but by 2 to get to 3, or round to 0."""
    policy = theory.optimal_policy(DIAMOND)
    policy[0, [0, 3]] = 1
    assert np.take_along_axis(theory.optimal_actions(DIAMOND), policy[:, None], axis=1).all()
    return policy


def test_theorem_1_fails_if_ties_are_broken_differently_for_different_goals():
    surrogates = np.flatnonzero(theory.adjacent_regions(DIAMOND, 2)[0])
    assert surrogates.tolist() == [0, 1, 2, 3]
    assert not any(theory.acts_alike(DIAMOND, _fickle(), 0, 4, other, k=2) for other in surrogates)
    assert theory.acts_alike(DIAMOND, theory.optimal_policy(DIAMOND), 0, 4, 3, k=2)


def test_theorem_1_fails_in_a_stochastic_mdp():
    # Only 0 is within two expected steps of 0, and to be at 0 it is best to stay.
    policy = theory.optimal_policy(FORK)
    assert FORK.strongly_connected
    assert theory.adjacent_regions(FORK, 2)[0].tolist() == [True, False, False, False, False, False]
    assert (policy[0, 0], policy[0, 5]) == (1, 0)
    assert not theory.acts_alike(FORK, policy, 0, 5, 0, k=2)


def test_the_preferred_action_breaks_a_tie_and_no_more():
    second = theory.optimal_policy(DIAMOND, np.tile([1, 0], (5, 1)))
    assert theory.optimal_policy(DIAMOND)[0].tolist() == [0, 0, 1, 0, 0]
    assert second[0].tolist() == [1, 0, 1, 1, 1]


# Theorem 2.


@many
@given(with_policy(deterministic_mdps()), st.integers(1, 4), st.integers(1, 4), st.integers(0, 2**32))
def test_theorem_2(mdp_and_policy, k, horizon, seed):
    mdp, policy = mdp_and_policy
    rewards, adjacent = _chance(mdp, seed), theory.adjacent_regions(mdp, k)
    values = theory.subgoal_values(mdp, policy, rewards, k=k, horizon=horizon, discount=0.9)
    for state in range(mdp.num_states):
        plan = theory.optimal_plan(mdp, policy, values, state, k)
        surrogate = theory.surrogate_plan(mdp, policy, plan, k)
        np.testing.assert_array_equal(surrogate.states, plan.states)
        here = plan.states[:-1]
        assert adjacent[here, surrogate.subgoals].all()
        times = np.arange(horizon)
        np.testing.assert_array_equal(values[times, here, plan.subgoals], values[times, here].max(axis=1))
        np.testing.assert_array_equal(values[times, here, surrogate.subgoals], values[times, here, plan.subgoals])
    # So a manager who may only choose adjacent subgoals is as good in every state.
    among = theory.subgoal_values(mdp, policy, rewards, k=k, horizon=horizon, discount=0.9, allowed=adjacent)
    np.testing.assert_array_equal(np.where(adjacent, among[0], -np.inf).max(axis=1), values[0].max(axis=1))


@settings(many, max_examples=100)
@given(with_policy(deterministic_mdps(max_states=5)), st.integers(1, 3), st.integers(0, 2**32))
def test_values_are_the_best_discounted_rewards_of_all_sequences_of_subgoals(mdp_and_policy, k, seed):
    mdp, policy = mdp_and_policy
    rewards = _chance(mdp, seed)
    values = theory.subgoal_values(mdp, policy, rewards, k=k, horizon=2, discount=0.5)
    assert values.shape == (2, mdp.num_states, mdp.num_states)
    for start, first in itertools.product(range(mdp.num_states), repeat=2):
        totals = []
        for second in range(mdp.num_states):
            state, total = start, 0.0
            for goal, weight in ((first, 1.0), (second, 0.5)):
                for _ in range(k):
                    total += weight * rewards[state, policy[state, goal]]
                    state = mdp.successors[state, policy[state, goal]]
            totals.append(total)
        assert values[0, start, first] == pytest.approx(max(totals), abs=1e-9)


def _best(mdp, policy, rewards, k, horizon, allowed=None):
    values = theory.subgoal_values(mdp, policy, rewards, k=k, horizon=horizon, discount=1.0, allowed=allowed)
    return values[0].max(axis=1) if allowed is None else np.where(allowed, values[0], -np.inf).max(axis=1)


def test_theorem_2_fails_if_ties_are_broken_differently_for_different_goals():
    rewards = np.zeros((5, 2))
    rewards[1, 0] = 1.0  # for going on from 1
    adjacent = theory.adjacent_regions(DIAMOND, 2)
    assert _best(DIAMOND, _fickle(), rewards, 2, 1)[0] == 1
    assert _best(DIAMOND, _fickle(), rewards, 2, 1, adjacent)[0] == 0
    assert _best(DIAMOND, theory.optimal_policy(DIAMOND), rewards, 2, 1, adjacent)[0] == 1


def test_theorem_2_fails_in_a_stochastic_mdp():
    rewards = np.zeros((6, 2))
    rewards[5] = 1.0
    policy = theory.optimal_policy(FORK)
    assert _best(FORK, policy, rewards, 2, 2)[0] == 1
    assert _best(FORK, policy, rewards, 2, 2, theory.adjacent_regions(FORK, 2))[0] == 0


def test_in_a_stochastic_mdp_regions_of_what_is_possible_in_k_steps_may_fail_too():
    # Whoever wants to be at 3, beyond 1, turns back at 2. Only who wants to be at 5 goes on from both.
    rewards = np.zeros((6, 2))
    rewards[5] = 1.0
    policy = theory.optimal_policy(FORK_WITH_RETURN)
    step = (FORK_WITH_RETURN.transitions > 0).any(axis=1) | np.eye(6, dtype=bool)
    possible = step @ step
    assert possible[0].tolist() == [True, True, True, True, True, False]
    assert _best(FORK_WITH_RETURN, policy, rewards, 2, 2)[0] == 1
    assert _best(FORK_WITH_RETURN, policy, rewards, 2, 2, possible)[0] == 0.5


@pytest.mark.parametrize("slip", [0.1, 1e-3, 1e-6])
def test_any_slip_costs_a_finite_part_of_the_value_and_a_wider_region_brings_it_back(slip):
    # A line of 5 states. A step on or back fails with probability `slip`; the third action stays. Being at the end pays.
    line = np.arange(5)
    on, back = np.minimum(line + 1, 4), np.maximum(line - 1, 0)
    sure = np.eye(5)[np.stack([on, back, line], axis=1)]
    rewards = np.repeat([[0.0], [0.0], [0.0], [0.0], [1.0]], 3, axis=1)
    mdp = TabularMDP((1 - slip) * sure + slip * np.eye(5)[:, None])
    np.testing.assert_allclose(mdp.distance, np.abs(line[:, None] - line) / (1 - slip), rtol=1e-9)
    policy = theory.optimal_policy(mdp)
    full = _best(mdp, policy, rewards, 2, 3)[0]
    # At the end after four steps, two more pay; after five, of which any but the last failed, one.
    assert full == pytest.approx((2 + 4 * slip) * (1 - slip) ** 4)
    # Two steps are 2 / (1 - slip) > 2 on average, so the region ends after one, where the controller then waits.
    assert theory.adjacent_regions(mdp, 2)[0].tolist() == [True, True, False, False, False]
    assert _best(mdp, policy, rewards, 2, 3, theory.adjacent_regions(mdp, 2))[0] == 0
    assert _best(mdp, policy, rewards, 2, 3, theory.adjacent_regions(mdp, 2 / (1 - slip) + 1e-9))[0] > 0.9 * full
    exact = TabularMDP(sure)
    assert _best(exact, theory.optimal_policy(exact), rewards, 2, 3, theory.adjacent_regions(exact, 2))[0] == 2


@threadpoolctl.threadpool_limits.wrap(limits=1)  # faster on matrices as small as these
def test_on_noisy_maze_regions_by_expected_time_cost_return_and_regions_by_fewest_steps_do_not():
    world = Maze()
    mdp, k = TabularMDP.from_grid_world(world), 10
    start, end = (int(np.flatnonzero((world.cells == world.layout.marks[letter]).all(axis=1))[0]) for letter in "AG")
    policy = theory.optimal_policy(mdp)
    possible, expected = world.cell_distances <= k, theory.adjacent_regions(mdp, k)
    assert world.cell_distances[start, end] == 58
    assert mdp.distance[start, end] == pytest.approx(78.9, abs=0.05)
    assert (possible | expected).sum() == possible.sum()
    assert possible.sum(axis=1).mean() == pytest.approx(38.7, abs=0.05)
    assert expected.sum(axis=1).mean() == pytest.approx(27.3, abs=0.05)
    rewards = 0.1 * (world.cell_distances[:, end, None] - mdp.transitions @ world.cell_distances[:, end])
    among = [_best(mdp, policy, rewards, k, 8, allowed)[start] for allowed in (None, possible, expected)]
    np.testing.assert_allclose(among, [5.612, 5.612, 4.988], atol=5e-4)
    assert among[0] == pytest.approx(among[1], rel=1e-12)


def test_the_best_hierarchy_may_be_worse_than_the_best_flat_policy():
    # Both actions of each state lead to the other state, but the second one pays. No subgoal asks for it.
    mdp = TabularMDP.from_successors([[1, 1], [0, 0]])
    assert _best(mdp, theory.optimal_policy(mdp), [[0, 1], [0, 1]], 2, 3).tolist() == [0, 0]


# What is refused.


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TabularMDP(np.eye(2)), r"must be \(states, actions, states\), got \(2, 2\)"),
        (lambda: TabularMDP(np.ones((2, 1, 3)) / 3), r"got \(2, 1, 3\)"),
        (lambda: TabularMDP(np.ones((0, 0, 0))), r"got \(0, 0, 0\)"),
        (lambda: TabularMDP([[[0.5, 0.5]], [[1.5, -0.5]]]), "negative or not finite"),
        (lambda: TabularMDP([[[0.5, 0.5]], [[np.nan, 1.0]]]), "negative or not finite"),
        (lambda: TabularMDP([[[0.5, 0.5]], [[0.5, 0.25]]]), "state 1, action 0 add up to 0.75, not to 1"),
        (lambda: TabularMDP.from_successors([[1], [2]]), "states from 0 to 1"),
        (lambda: TabularMDP.from_successors([[0.0]]), "states from 0 to 0"),
        (lambda: CHAIN.successors, "needs a deterministic MDP"),
        (lambda: theory.optimal_policy(RING, [[0, 1]]), r"preference must be \(states, actions\) = \(4, 1\), got \(1, 2\)"),
        (lambda: theory.trajectory(RING, theory.optimal_policy(RING), -1, 0, 1), "state must be a state, from 0 to 3, got -1"),
        (lambda: theory.acts_alike(RING, theory.optimal_policy(RING), 0, 0, 4, 1), "other must be a state, from 0 to 3, got 4"),
        (
            lambda: theory.subgoal_values(RING, theory.optimal_policy(RING), np.ones(4), k=1, horizon=1, discount=1),
            r"rewards must be \(states, actions\) = \(4, 1\), got \(4,\)",
        ),
    ],
)
def test_what_has_no_meaning_is_refused_in_words(make, message):
    with pytest.raises(HracError, match=message):
        make()


def test_the_table_of_an_mdp_is_a_copy_and_cannot_be_changed():
    table = np.array([[[0.0, 1.0]], [[1.0, 0.0]]])
    mdp = TabularMDP(table)
    table[0] = 0.5
    assert mdp.transitions[0, 0].tolist() == [0, 1]
    for array in (mdp.transitions, mdp.distance, mdp.successors):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
