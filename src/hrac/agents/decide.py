"""The inner loop of Algorithm 1: the manager proposes a subgoal, the controller acts for it. For NumPy and JAX alike.

    clock 0:  the manager proposes a subgoal       propose
    else:     h updates the subgoal                carry_on
    then:     the controller acts for it           actions.choose

Training, evaluation, policies and pictures all go through `decide`. Randomness is an input, so the same noise gives the same
decisions everywhere. Shapes are trailing axes, after (runs, copies), (copies) or nothing.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from hrac.adjacency import network
from hrac.adjacency.network import Embedding
from hrac.adjacency.ways import Grid
from hrac.agents.subgoals import SubgoalSpace
from hrac.config import Config
from hrac.envs.base import Outcome
from hrac.nets import MLP
from hrac.settings import A2C
from hrac.spaces import Actions, AnyArray, Box


class Setup(NamedTuple):
    """What does not change during a training: constants of all compiled programs."""

    space: SubgoalSpace
    actions: Actions
    obs_dim: int
    """Numbers in an observation, including those that only the manager sees."""
    cfg: Config
    outcome: Outcome | None = None
    """What other targets of the task would have paid; None where nobody asks: without `manager.hindsight`."""

    @property
    def grid(self) -> Grid | None:
        """The cells that ways lead over; None without `manager.way_pull`."""
        if self.cfg.manager.way_pull == 0:
            return None
        return Grid.over(self.space.low, self.space.high, self.cfg.adjacency.cell_size)

    @property
    def has_manager(self) -> bool:
        """Whether subgoals are learned."""
        return self.cfg.manager.learns

    @property
    def remembers(self) -> bool:
        """Whether points visited in an episode may become subgoals."""
        return isinstance(self.cfg.controller, A2C) and self.cfg.controller.hindsight > 0

    @property
    def has_quiet_episodes(self) -> bool:
        """Whether some episodes of training are played without exploration noise."""
        return self.cfg.training.quiet_share > 0


class Actors(NamedTuple):
    """The networks that are needed to act."""

    manager: MLP | None
    """None where there is no manager."""
    controller: MLP
    embedding: Embedding | None
    """The adjacency network; None where adjacency is not learned."""


class SubgoalState(NamedTuple):
    """What the hierarchy keeps between two steps of an episode."""

    subgoal: Float[AnyArray, "*n goal"]
    clock: Int[AnyArray, "*n"]
    """Steps since the last proposal; at 0 a new subgoal is due."""
    visited: Float[AnyArray, "*n goal"] | None = None
    """A random point among those visited in the episode so far, each with the same chance. None: nothing is remembered."""
    visits: Int[AnyArray, "*n"] | None = None
    """How many points that is; at 0 the episode has just begun."""
    quiet: Bool[AnyArray, "*n"] | None = None
    """Whether the episode is played without exploration noise. None: none is."""


class Noise(NamedTuple):
    """The random numbers that a subgoal is explored with."""

    first_subgoal: Float[AnyArray, "*n goal"]
    """Between 0 and 1: determines the subgoal before the manager has started to learn."""
    subgoals: Float[AnyArray, "*n candidates goal"]
    """Added to the manager's subgoal to make candidates."""
    lottery: Float[AnyArray, "*n candidates"]
    """Decides which of the candidates that are judged adjacent is chosen."""
    hindsight: Float[AnyArray, "*n 2"] | None = None
    """Between 0 and 1: whether a visited point replaces the subgoal, and whether the present point is kept. None: never."""
    at_target: Float[AnyArray, "*n"] | None = None
    """Between 0 and 1: whether the target of the task replaces the subgoal. None: never."""
    quiet: Float[AnyArray, "*n"] | None = None
    """Between 0 and 1: whether an episode that follows a success at this step is played without noise. None: none is."""


def decide(
    actors: Actors,
    state: SubgoalState,
    obs: Float[AnyArray, "*n obs"],
    setup: Setup,
    action_noise: Float[AnyArray, "*n outputs"] | None = None,
    noise: Noise | None = None,
    ready: Bool[AnyArray, "*n"] | None = None,
) -> tuple[Float[AnyArray, "*n goal"], Shaped[AnyArray, "..."]]:
    """g_t from the manager where a new one is due, else the present one; a_t from the controller for it.

    `action_noise` is added to the action, or to its logits. `noise` explores subgoals, and `ready` says where the manager has
    started to learn. Without these two, subgoals are the manager's, without noise. So they are in quiet episodes, where also
    vectors have no noise; discrete actions are drawn from the policy there too, as they are in evaluation.
    """
    xp, quiet = obs.__array_namespace__(), state.quiet

    def proposed() -> AnyArray:
        subgoal = propose(actors, obs, setup, noise, ready)
        if noise is not None and noise.hindsight is not None:
            subgoal = in_hindsight(subgoal, state, obs, noise.hindsight, setup)
        return subgoal if quiet is None else xp.where(quiet[..., None], propose(actors, obs, setup), subgoal)

    subgoal = _where_due(state, proposed)
    raw = actors.controller(setup.space.controller_input(obs, subgoal))
    if quiet is not None and isinstance(setup.actions, Box):
        action_noise = xp.where(quiet[..., None], 0.0, action_noise)
    return subgoal, setup.actions.choose(raw, action_noise)


def propose(
    actors: Actors,
    obs: Float[AnyArray, "*n obs"],
    setup: Setup,
    noise: Noise | None = None,
    ready: Bool[AnyArray, "*n"] | None = None,
) -> Float[AnyArray, "*n goal"]:
    """The manager's subgoals. To explore: one of several noisy candidates, or a uniform one until the manager is ready.

    Without a manager: the target of the task, or zeros if there are no subgoals.
    """
    space, position = setup.space, setup.space.phi(obs)
    if actors.manager is None:
        return space.task(obs) if setup.cfg.manager.subgoals == "task" else obs.__array_namespace__().zeros_like(position)
    plain = space.squash(actors.manager(obs))
    if noise is None or ready is None:
        return plain
    candidates = space.explore(plain[..., None, :], noise.subgoals)
    chosen = candidates[..., 0, :]
    if candidates.shape[-2] > 1:
        chosen = _adjacent_candidate(actors, candidates, plain, position, noise.lottery, setup)
    xp = obs.__array_namespace__()
    subgoal = xp.where(ready[..., None], chosen, space.uniform(noise.first_subgoal, position))
    if noise.at_target is None:
        return subgoal
    aimed = (noise.at_target < setup.cfg.manager.target_chance)[..., None]
    return xp.where(aimed, space.explore(space.task(obs), xp.zeros_like(position)), subgoal)


def _adjacent_candidate(
    actors: Actors,
    candidates: Float[AnyArray, "*n candidates goal"],
    plain: Float[AnyArray, "*n goal"],
    position: Float[AnyArray, "*n goal"],
    lottery: Float[AnyArray, "*n candidates"],
    setup: Setup,
) -> Float[AnyArray, "*n goal"]:
    """A random one of the candidates that are judged adjacent; if there is none, the subgoal without noise."""
    xp = plain.__array_namespace__()
    adjacent = judged_adjacent(actors.embedding, candidates, position[..., None, :], setup)
    drawn = xp.argmax(xp.where(adjacent, lottery, -1.0), axis=-1)
    chosen = xp.take_along_axis(candidates, drawn[..., None, None], axis=-2)[..., 0, :]
    return xp.where(xp.any(adjacent, axis=-1)[..., None], chosen, plain)


def judged_adjacent(
    embedding: Embedding | None, subgoal: Float[AnyArray, "*n goal"], position: Float[AnyArray, "*m goal"], setup: Setup
) -> Bool[AnyArray, "*n"]:
    """Whether the adjacency network judges subgoals to be within k steps. Without a network all are."""
    if embedding is None:
        return subgoal.__array_namespace__().ones(subgoal.shape[:-1], dtype=bool)
    distance = network.distance(embedding, position, setup.space.target(subgoal, position))
    return distance < setup.cfg.adjacency.threshold


def in_hindsight(
    subgoal: Float[AnyArray, "*n goal"],
    state: SubgoalState,
    obs: Float[AnyArray, "*n obs"],
    chance: Float[AnyArray, "*n 2"],
    setup: Setup,
) -> Float[AnyArray, "*n goal"]:
    """The subgoal, or with probability `controller.hindsight` a point that was visited earlier in the episode."""
    assert state.visits is not None
    xp = obs.__array_namespace__()
    replaced = (chance[..., 0] < setup.cfg.controller.hindsight) & (state.visits > 0)
    return xp.where(replaced[..., None], setup.space.towards(state.visited, setup.space.phi(obs)), subgoal)


def carry_on(
    state: SubgoalState,
    obs: Float[AnyArray, "*n obs"],
    next_obs: Float[AnyArray, "*n obs"],
    last: Bool[AnyArray, "*n"],
    space: SubgoalSpace,
) -> SubgoalState:
    """The state for the next step: the subgoal as seen from there, and a clock of 0 if the window is over."""
    xp = obs.__array_namespace__()
    subgoal = space.transition(state.subgoal, space.phi(obs), space.phi(next_obs))
    return state._replace(subgoal=subgoal, clock=xp.where(last, 0, state.clock + 1).astype(state.clock.dtype))


def remember(
    state: SubgoalState,
    obs: Float[AnyArray, "*n obs"],
    done: Bool[AnyArray, "*n"],
    chance: Float[AnyArray, "*n 2"] | None,
    space: SubgoalSpace,
) -> SubgoalState:
    """The state with the point of a step among those visited, or with none if the episode is over.

    The n-th point of an episode replaces the one that is kept with probability 1/n. So each has the same chance to be kept.
    """
    if chance is None:
        return state
    assert state.visits is not None
    xp, visits = obs.__array_namespace__(), state.visits + 1
    kept = (chance[..., 1] * visits.astype(chance.dtype) < 1.0)[..., None]
    return state._replace(
        visited=xp.where(kept, space.phi(obs), state.visited),
        visits=xp.where(done, 0, visits).astype(state.visits.dtype),
    )


def draw_quiet(
    state: SubgoalState,
    done: Bool[AnyArray, "*n"],
    success: Bool[AnyArray, "*n"],
    ready: Bool[AnyArray, "*n"],
    chance: Float[AnyArray, "*n"] | None,
    setup: Setup,
) -> SubgoalState:
    """The state in which it is drawn anew, where an episode is over, whether the next one is quiet.

    None is before learning, and none after an episode whose last step was no success or does not tell: where the agent has not
    found the way yet, it explores.
    """
    if chance is None:
        return state
    drawn = success & ready & (chance < setup.cfg.training.quiet_share)
    return state._replace(quiet=chance.__array_namespace__().where(done, drawn, state.quiet))


def first_state(like: Float[AnyArray, "*n obs"], setup: Setup) -> SubgoalState:
    """The state before the first step, for observations `like`."""
    xp, shape, dtype = like.__array_namespace__(), like.shape[:-1], np.int32
    points = xp.zeros((*shape, setup.space.goal_dim), dtype=np.float32)
    state = SubgoalState(points, xp.zeros(shape, dtype=dtype))
    if setup.remembers:
        state = state._replace(visited=points, visits=xp.zeros(shape, dtype=dtype))
    return state._replace(quiet=xp.zeros(shape, dtype=bool)) if setup.has_quiet_episodes else state


def _where_due(state: SubgoalState, proposed: Callable[[], AnyArray]) -> AnyArray:
    """New subgoals where they are due. Proposing is expensive, so it is skipped in steps in which none is due."""
    due = state.clock == 0
    if isinstance(due, np.ndarray | np.generic):
        due = np.asarray(due)
        return np.where(due[..., None], proposed(), state.subgoal) if due.any() else state.subgoal
    xp = due.__array_namespace__()
    fresh = lambda: xp.where(due[..., None], proposed(), state.subgoal)  # noqa: E731
    return jax.lax.cond(xp.any(due), fresh, lambda: state.subgoal)
