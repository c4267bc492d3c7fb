"""The state of a run on the device, and the program that stores a round and learns from it, mapped over runs."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Key, PRNGKeyArray

from hrac.adjacency import network
from hrac.agents import agent as agents
from hrac.agents.a2c import ControllerStep
from hrac.agents.agent import AgentState
from hrac.agents.decide import Setup
from hrac.agents.td3 import Transition
from hrac.agents.windows import (
    Trajectory,
    controller_steps,
    controller_transitions,
    intrinsic_rewards,
    manager_window,
    with_subgoals,
    with_targets,
)
from hrac.compiled import jit_learner
from hrac.envs.base import KnownDistances
from hrac.runs import over_runs
from hrac.settings import A2C, TD3
from hrac.training import replay
from hrac.training.replay import Replay
from hrac.worlds.base import Collected
from hrac.worlds.numbers import Mean, mean_where, subgoal_numbers

Tree = TypeVar("Tree")


class RunState(NamedTuple):
    """The part of a run that is on the device."""

    agent: AgentState
    replay: Replay


def init(key: PRNGKeyArray, setup: Setup) -> RunState:
    """A new run."""
    return RunState(agents.init(key, setup), replay.create(setup))


def learn(key: PRNGKeyArray, run: RunState, setup: Setup) -> tuple[AgentState, dict[str, Array]]:
    """A round's updates of both levels, after the round is stored."""
    cfg, copies, round_steps = setup.cfg, setup.cfg.training.envs_per_run, setup.cfg.training.round_env_steps
    key_steps, key_windows, key_learn = jax.random.split(key, 3)
    steps: ControllerStep | Transition
    if isinstance(cfg.controller, TD3):
        steps = controller_transitions(_drawn_steps(key_steps, run.replay, setup), setup.space, cfg)
    else:
        trajectory = replay.recent(run.replay, cfg.k + round_steps // copies, copies)
        steps = flat(jax.vmap(lambda t: controller_steps(t, setup.space, cfg), 1, 0)(trajectory))
    windows = None
    if setup.has_manager:
        windows = manager_window(*_drawn_windows(key_windows, run.replay, setup), cfg)
    return agents.learn(key_learn, run.agent, steps, windows, setup)


def _drawn_steps(key: PRNGKeyArray, stored: Replay, setup: Setup) -> Trajectory:
    """A round's minibatches of stored steps (updates, batch, ...), a share of them with subgoals in hindsight."""
    cfg, low = setup.cfg, setup.cfg.controller
    assert isinstance(low, TD3)
    key, *more = jax.random.split(key, 3) if low.hindsight > 0 else (key,)
    place = replay.sample_places(key, stored, (round(cfg.controller_updates), low.batch_size), low.buffer_steps)
    steps = replay.steps_at(stored, place)
    if not more:
        return steps
    key_later, key_share = more
    reached = stored.steps.next_obs[replay.later(key_later, stored, place, cfg.k, cfg.training.envs_per_run)]
    replaced = jax.random.uniform(key_share, place.shape) < low.hindsight
    return with_subgoals(steps, setup.space.phi(reached), replaced, setup.space)


def _drawn_windows(key: PRNGKeyArray, stored: Replay, setup: Setup) -> tuple[Trajectory, Bool[Array, "updates batch k"]]:
    """A round's minibatches of windows (updates, batch, k, ...), a share of them with targets of the task in hindsight."""
    cfg, copies = setup.cfg, setup.cfg.training.envs_per_run
    shape = (cfg.manager_updates, cfg.manager.batch_size)
    key, *more = (key,) if setup.outcome is None else jax.random.split(key, 3)
    place, inside = replay.sample_windows(key, stored, shape, cfg.k, copies)
    steps = replay.steps_at(stored, place)
    if setup.outcome is None:
        return steps, inside
    key_later, key_share = more
    reached = setup.space.phi(stored.steps.next_obs[replay.to_the_end(key_later, stored, place[..., 0], copies)])
    replaced = jax.random.uniform(key_share, shape) < cfg.manager.hindsight
    return with_targets(steps, inside, reached, replaced, setup.space, setup.outcome)


def flat(tree: Tree) -> Tree:
    """Join the two leading axes."""
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), tree)


def acting_metrics(
    collected: Collected, agent: AgentState, setup: Setup, known: KnownDistances | None, ends_on_success: bool
) -> dict[str, Mean]:
    """Metrics of a run's behaviour in a round: see docs/metrics.md."""
    cfg = setup.cfg
    new = collected.trajectory
    done = new.terminated | new.truncated
    means = {
        "train/return": mean_where(done, collected.episode_return),
        "train/intrinsic_reward": mean_where(jnp.ones_like(done), intrinsic_rewards(new, setup.space, cfg)),
    }
    if ends_on_success:
        means["train/success"] = mean_where(done, new.terminated)
    if setup.space.fallen is not None:
        means["train/fallen"] = mean_where(jnp.ones_like(done), setup.space.fallen(new.next_obs))
    for mask, names in (
        (new.clock == 0, ("subgoal_judged_adjacent", "subgoal_within_k")),
        (new.last, ("subgoal_miss",)),
    ):
        # Measured for at most twice as many windows as a round usually has, not for every step, to save time.
        count = max(2 * cfg.training.round_env_steps // cfg.k, cfg.training.envs_per_run)
        (index,) = jnp.nonzero(mask.reshape(-1), size=count, fill_value=-1)
        chosen = jax.tree.map(lambda leaf, i=index: leaf[i], flat(new))
        numbers = subgoal_numbers(chosen.obs, chosen.subgoal, chosen.next_obs, agent.actors.embedding, setup, known)
        means |= {f"train/{name}": mean_where(index >= 0, numbers[name]) for name in names if name in numbers}
    return means


LearnedRuns = tuple[RunState, dict[str, Mean]]


# Compiled and mapped over runs. Static arguments are constants of the program.


@functools.partial(jax.jit, static_argnames="setup")
def init_runs(keys: Key[Array, " runs"], *, setup: Setup) -> RunState:
    """`init` for all runs."""
    return over_runs(lambda key: init(key, setup), keys)


def _learn_runs(
    keys: Key[Array, " runs"],
    runs: RunState,
    index: Array,
    ready: Bool[Array, " runs"],
    collected: Collected,
    *,
    learning: bool,
    setup: Setup,
    known: KnownDistances | None,
    ends_on_success: bool,
) -> LearnedRuns:
    """See `learn_runs`."""

    def one_run(key: PRNGKeyArray, run: RunState, ready: Array, collected: Collected) -> tuple[RunState, dict[str, Mean]]:
        metrics = acting_metrics(collected, run.agent, setup, known, ends_on_success)
        run = run._replace(replay=replay.extend(run.replay, collected.trajectory))
        if not learning:
            return run, metrics
        learned, numbers = learn(jax.random.fold_in(key, index), run, setup)
        # Runs that are mapped together may start to learn at different times.
        agent = jax.tree.map(lambda new, old: jnp.where(ready, new, old), learned, run.agent)
        weight = ready.astype(jnp.float32)
        return run._replace(agent=agent), metrics | {name: (weight * value, weight) for name, value in numbers.items()}

    return over_runs(one_run, keys, runs, ready, collected)


_STATIC: dict[str, Any] = {"static_argnames": ("learning", "setup", "known", "ends_on_success"), "donate_argnums": 1}
_BY_LEARNER: dict[type, Callable[..., LearnedRuns]] = {
    A2C: jax.jit(_learn_runs, **_STATIC),
    TD3: jit_learner(_learn_runs, **_STATIC),
}
"""On a CPU each of the two is fastest with another library for matrix products."""


def learn_runs(keys: Key[Array, " runs"], runs: RunState, *arguments: Any, setup: Setup, **named: Any) -> LearnedRuns:
    """Store a round; if `learning`, the runs that are ready make its updates.

    The arguments are the number of the round, which runs are ready, and what was collected; `runs` is used up.
    """
    return _BY_LEARNER[type(setup.cfg.controller)](keys, runs, *arguments, setup=setup, **named)


@functools.partial(jax.jit, static_argnames=("threshold",))
def accuracy_runs(agents: AgentState, cells: Array, truth: Array, *, threshold: float) -> Array:
    """Adjacency accuracy against the true relation, of all runs."""
    return over_runs(lambda agent: network.accuracy(agent.adjacency.embedding, cells, truth, threshold), agents)
