"""Section 3 of the HRAC paper on MDPs that are small enough for tables: distances, regions, and the two theorems.

Goals are states: phi is the identity, as the paper needs it to be invertible. A `policy` is a table (states, goals) of the
controller's actions. `docs/theory.md` walks through this file and says where the theorems need more than the paper writes.

>>> ring = TabularMDP.from_successors([[1], [2], [3], [0]])  # four states, one action: on to the next
>>> ring.distance.tolist()
[[0.0, 1.0, 2.0, 3.0], [3.0, 0.0, 1.0, 2.0], [2.0, 3.0, 0.0, 1.0], [1.0, 2.0, 3.0, 0.0]]
>>> surrogate_subgoal(ring, optimal_policy(ring), state=0, goal=3, k=2)
2
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hrac.envs.grid import GridWorld
from hrac.envs.layout import MOVES
from hrac.errors import HracError

Floats = NDArray[np.float64]
Masks = NDArray[np.bool_]
Indices = NDArray[np.int64]
Table = TypeVar("Table", Floats, Indices)

_TIE = 1e-9
"""Expected times that differ by less than this, relatively, are equal. Those of deterministic MDPs are exact."""


class TheoryError(HracError, ValueError):
    """A table that is no MDP, or a question that has no answer in it; the message says which."""


@dataclass(frozen=True, eq=False)
class TabularMDP:
    """States and actions are numbers. Rewards are left out, as distances do not depend on them."""

    transitions: Floats
    """P(s'|s, a), as a read-only array (states, actions, states)."""

    def __post_init__(self) -> None:
        table = np.array(self.transitions, dtype=np.float64)
        if table.ndim != 3 or 0 in table.shape or table.shape[0] != table.shape[2]:
            raise TheoryError(f"transitions must be (states, actions, states), got {table.shape}")
        if not (np.isfinite(table).all() and (table >= 0).all()):
            raise TheoryError("transitions must be probabilities, got numbers that are negative or not finite")
        total = table.sum(axis=2)
        if not np.allclose(total, 1.0, rtol=0, atol=1e-9):
            state, action = np.argwhere(~np.isclose(total, 1.0, rtol=0, atol=1e-9))[0]
            raise TheoryError(f"probabilities of state {state}, action {action} add up to {total[state, action]}, not to 1")
        object.__setattr__(self, "transitions", _frozen(table))

    @classmethod
    def from_successors(cls, successors: ArrayLike) -> "TabularMDP":
        """The deterministic MDP with these next states (states, actions)."""
        table = np.asarray(successors)
        if table.ndim != 2 or table.dtype.kind not in "iu" or not ((table >= 0) & (table < len(table))).all():
            raise TheoryError(f"successors must be (states, actions) with states from 0 to {len(table) - 1}")
        return cls(np.eye(len(table))[table])

    @classmethod
    def from_grid_world(cls, world: GridWorld) -> "TabularMDP":
        """The moves of a grid world, with its random actions. States are its free cells, in reading order."""
        walls, cells = world.layout.walls, world.cells
        number = np.cumsum(~walls).reshape(walls.shape) - 1
        wanted = cells[:, None] + MOVES
        there = np.where(world.layout.moves[tuple(cells.T)][..., None], wanted, cells[:, None])
        moves = np.eye(len(cells))[number[tuple(there.T)].T]
        chance = world.random_action_prob
        return cls((1 - chance) * moves + chance * moves.mean(axis=1, keepdims=True))

    @property
    def num_states(self) -> int:
        """How many states there are, and goals."""
        return self.transitions.shape[0]

    @cached_property
    def deterministic(self) -> bool:
        """Whether every action has one next state."""
        return bool(np.isin(self.transitions, (0.0, 1.0)).all())

    @cached_property
    def successors(self) -> Indices:
        """The next states (states, actions); raises `TheoryError` if they are left to chance."""
        if not self.deterministic:
            raise TheoryError("this needs a deterministic MDP: every action must have one next state")
        return _frozen(self.transitions.argmax(axis=2))

    @cached_property
    def strongly_connected(self) -> bool:
        """Whether there is a way from every state to every other."""
        reached = (self.transitions > 0).any(axis=1) | np.eye(self.num_states, dtype=bool)
        for _ in range(self.num_states.bit_length()):  # each time, ways may be twice as long
            reached = reached @ reached
        return bool(reached.all())

    @cached_property
    def distance(self) -> Floats:
        """`shortest_transition_distance`, worked out once."""
        return _frozen(shortest_transition_distance(self))


def shortest_transition_distance(mdp: TabularMDP) -> Floats:
    """Definition 1: d_st(s, g) = min over policies of E[first hit time of g from s], for all pairs (states, goals).

    Infinite where no policy is sure to reach g.
    """
    if mdp.deterministic:
        return _fewest_steps(mdp.successors)
    return np.stack([_least_expected_steps(mdp.transitions, goal) for goal in range(mdp.num_states)], axis=1)


def _fewest_steps(successors: Indices) -> Floats:
    """d(s, g) = 0 if s = g, else 1 + min_a d(s', g): exact after as many sweeps as the longest way has steps."""
    distance = np.where(np.eye(len(successors), dtype=bool), 0.0, np.inf)
    while True:
        shorter = np.minimum(distance, 1 + distance[successors].min(axis=1))
        if (shorter == distance).all():
            return distance
        distance = shorter


def _least_expected_steps(transitions: Floats, goal: int) -> Floats:
    """To one goal (states), by policy iteration. As every step costs 1, no better policy can fail to reach the goal."""
    sure, action = _sure_way(transitions, goal)
    distance = np.where(sure, 0.0, np.inf)
    on_the_way = np.flatnonzero(sure & (np.arange(len(sure)) != goal))
    while True:
        moves = transitions[on_the_way, action[on_the_way]][:, on_the_way]
        distance[on_the_way] = np.linalg.solve(np.eye(len(moves)) - moves, np.ones(len(moves)))
        expected = 1 + _expected(transitions[on_the_way], distance)
        better = expected.min(axis=1) < distance[on_the_way] * (1 - _TIE)
        if not better.any():
            return distance
        action[on_the_way[better]] = expected[better].argmin(axis=1)


def _sure_way(transitions: Floats, goal: int) -> tuple[Masks, Indices]:
    """The states from which a policy reaches the goal with probability 1, and the actions (states) of such a policy."""
    sure = np.ones(len(transitions), dtype=bool)
    while True:
        stays = transitions @ ~sure == 0
        reached, action = np.arange(len(sure)) == goal, np.zeros(len(sure), dtype=np.int64)
        while True:
            nearer = stays & (transitions @ reached > 0)
            new = nearer.any(axis=1) & ~reached
            if not new.any():
                break
            action[new], reached = nearer[new].argmax(axis=1), reached | new
        if (reached == sure).all():
            return sure, action
        sure = reached


def _expected(transitions: Floats, distance: Floats) -> Floats:
    """sum_s' P(s'|s, a) d(s', ...), where a distance may be infinite: what is impossible does not count."""
    finite = np.isfinite(distance)
    lost = transitions @ ~finite > 0
    return np.where(lost, np.inf, transitions @ np.where(finite, distance, 0.0))


def optimal_actions(mdp: TabularMDP) -> Masks:
    """The argmin of Equation 3 (states, actions, goals): which actions bring the goal nearest. Often there are several."""
    after = _expected(mdp.transitions, mdp.distance)
    nearest = after.min(axis=1, keepdims=True)
    return after <= nearest * (1 + _TIE)


def optimal_policy(mdp: TabularMDP, preference: ArrayLike | None = None) -> Indices:
    """pi*(s, g) of Equation 3 (states, goals): of the optimal actions, the one that is preferred in its state.

    `preference` (states, actions) is lowest for the action to prefer; by default that is the first. Because it does not
    depend on the goal, Theorem 1 holds. With ties broken differently for different goals it need not.
    """
    optimal = optimal_actions(mdp)
    rank = np.arange(optimal.shape[1])[None] if preference is None else np.asarray(preference)
    if rank.shape not in ((1, optimal.shape[1]), optimal.shape[:2]):
        raise TheoryError(f"preference must be (states, actions) = {optimal.shape[:2]}, got {rank.shape}")
    return np.where(optimal, rank[..., None], np.inf).argmin(axis=1)


def adjacent_regions(mdp: TabularMDP, k: float) -> Masks:
    """Definition 2 for all states: whether g is in G_A(s, k), that is d_st(s, g) <= k (states, goals)."""
    return mdp.distance <= k


def trajectory(mdp: TabularMDP, policy: Indices, state: int, goal: int, steps: int) -> Indices:
    """The states (steps + 1) that a controller goes through for one goal, in a deterministic MDP."""
    _check(mdp, state=state, goal=goal)
    states = [state]
    for _ in range(steps):
        states.append(mdp.successors[states[-1], policy[states[-1], goal]])
    return np.array(states, dtype=np.int64)


def surrogate_subgoal(mdp: TabularMDP, policy: Indices, state: int, goal: int, k: int) -> int:
    """Theorem 1: a subgoal in G_A(s, k) for which the controller does the same in the next k steps.

    It is where the controller is after k steps. A goal in the region already is its own surrogate. `policy` must be optimal,
    with ties broken as `optimal_policy` does.
    """
    end = trajectory(mdp, policy, state, goal, k)[-1]
    if np.isinf(mdp.distance[state, goal]):
        raise TheoryError(f"there is no way from state {state} to goal {goal}")
    return goal if mdp.distance[state, goal] <= k else int(end)


def acts_alike(mdp: TabularMDP, policy: Indices, state: int, goal: int, other: int, k: int) -> bool:
    """Whether pi(s_i, other) = pi(s_i, goal), i < k, in all states that `goal` may lead through: Theorem 1's second line."""
    _check(mdp, state=state, goal=goal, other=other)
    here = np.arange(mdp.num_states) == state
    for _ in range(k):
        if (policy[here, goal] != policy[here, other]).any():
            return False
        here = (mdp.transitions[here, policy[here, goal]] > 0).any(axis=0)
    return True


def subgoal_values(
    mdp: TabularMDP,
    policy: Indices,
    rewards: ArrayLike,
    *,
    k: int,
    horizon: int,
    discount: float,
    allowed: ArrayLike | None = None,
) -> Floats:
    """Q*(s, g) of the manager with t subgoals behind it, t = 0 ... horizon - 1: (horizon, states, goals).

    Q*(s, g) = E[r + discount * max_g' Q*(s', g')], where r is the sum of `rewards` (states, actions) over k steps of the
    controller (Equation 1) and s' is where they end. After the first subgoal, the manager chooses among those `allowed`
    (states, goals); by default all are.
    """
    states, gain = np.arange(mdp.num_states), np.asarray(rewards, dtype=np.float64)
    if gain.shape != mdp.transitions.shape[:2]:
        raise TheoryError(f"rewards must be (states, actions) = {mdp.transitions.shape[:2]}, got {gain.shape}")
    choice = np.ones(2 * (mdp.num_states,), dtype=bool) if allowed is None else np.asarray(allowed, dtype=bool)
    moves, gains = mdp.transitions[states, policy.T], gain[states, policy.T, None]  # (goals, states, states or 1)
    value, values = np.zeros(mdp.num_states), []
    for _ in range(horizon):
        ahead = np.broadcast_to(discount * value[:, None], gains.shape)
        for _ in range(k):
            ahead = gains + moves @ ahead
        values.append(ahead[..., 0].T)
        value = np.where(choice, values[-1], -np.inf).max(axis=1)
    return np.stack(values[::-1])


class Plan(NamedTuple):
    """What a manager does in a deterministic MDP: rho and tau of Theorem 2."""

    subgoals: Indices
    """One every k steps (horizon)."""
    states: Indices
    """Where they are given, and the last (horizon + 1)."""


def optimal_plan(mdp: TabularMDP, policy: Indices, values: Floats, state: int, k: int) -> Plan:
    """The subgoals of an optimal manager, by its `subgoal_values`, and the states they lead through."""
    states, subgoals = [state], []
    for value in values:
        subgoals.append(int(value[states[-1]].argmax()))
        states.append(int(trajectory(mdp, policy, states[-1], subgoals[-1], k)[-1]))
    return Plan(np.array(subgoals), np.array(states))


def surrogate_plan(mdp: TabularMDP, policy: Indices, plan: Plan, k: int) -> Plan:
    """Theorem 2: the plan with each subgoal replaced by its surrogate, followed anew from the same first state."""
    states, subgoals = [int(plan.states[0])], []
    for subgoal in plan.subgoals:
        subgoals.append(surrogate_subgoal(mdp, policy, states[-1], int(subgoal), k))
        states.append(int(trajectory(mdp, policy, states[-1], subgoals[-1], k)[-1]))
    return Plan(np.array(subgoals), np.array(states))


def _check(mdp: TabularMDP, **numbers: int) -> None:
    for name, number in numbers.items():
        if not 0 <= number < mdp.num_states:
            raise TheoryError(f"{name} must be a state, from 0 to {mdp.num_states - 1}, got {number}")


def _frozen(array: Table) -> Table:
    array.flags.writeable = False
    return array
