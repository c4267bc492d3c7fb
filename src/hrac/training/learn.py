"""What a run holds on the device, and the program that stores a round and learns from it, mapped over runs."""

import functools
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Key, PRNGKeyArray

from hrac.adjacency import network
from hrac.agents import agent as agents
from hrac.agents.agent import AgentState
from hrac.agents.controller import is_td3
from hrac.agents.decide import Setup
from hrac.agents.td3 import Transition
from hrac.agents.windows import (
    Trajectory,
    Window,
    controller_steps,
    controller_transitions,
    empty_action,
    intrinsic_rewards,
    manager_windows,
)
from hrac.compiled import jit_learner
from hrac.envs.base import KnownDistances
from hrac.runs import over_runs
from hrac.training import replay
from hrac.training.replay import Buffer
from hrac.worlds.base import Collected
from hrac.worlds.numbers import Mean, mean_where, subgoal_numbers

Tree = TypeVar("Tree")


class RunState(NamedTuple):
    """Everything of a run that lives on the device."""

    agent: AgentState
    steps: Buffer | None
    """What TD3's controller learns from."""
    windows: Buffer


def init(key: PRNGKeyArray, setup: Setup) -> RunState:
    """A new run."""
    space, k, cfg = setup.space, setup.cfg.k, setup.cfg
    zeros, number, action = jnp.zeros, jnp.zeros(()), empty_action(setup.actions)
    whole = Transition(zeros(setup.obs_dim), zeros(space.goal_dim), number, zeros(setup.obs_dim), jnp.asarray(False))
    window = Window(whole, zeros((k, setup.obs_dim)), jnp.repeat(action[None], k, axis=0), zeros(k, bool))
    steps = None
    if is_td3(cfg):
        seen = zeros(setup.obs_dim - space.context + space.goal_dim)
        steps = replay.create(Transition(seen, action, number, seen, jnp.asarray(False)), cfg.controller.buffer_steps)
    return RunState(agents.init(key, setup), steps, replay.create(window, cfg.manager.buffer_windows))


def store(run: RunState, trajectory: Trajectory, setup: Setup) -> RunState:
    """Put a round's steps, and the windows that ended in it, into the replay buffers."""
    per_copy = functools.partial(jax.vmap, in_axes=1, out_axes=0)
    windows, ended = per_copy(lambda t: manager_windows(t, setup.cfg))(trajectory)
    run = run._replace(windows=replay.extend(run.windows, flat(windows), flat(ended)))
    if run.steps is None:
        return run
    new = jax.tree.map(lambda leaf: leaf[setup.cfg.k :], trajectory)
    steps = flat(per_copy(lambda t: controller_transitions(t, setup.space, setup.cfg))(new))
    return run._replace(steps=replay.extend(run.steps, steps, jnp.ones(len(steps.reward), bool)))


def learn(key: PRNGKeyArray, run: RunState, trajectory: Trajectory, setup: Setup) -> tuple[AgentState, dict[str, Array]]:
    """A round's updates of both levels."""
    cfg, rounds = setup.cfg, setup.cfg.training.round_env_steps
    key_steps, key_windows, key_learn = jax.random.split(key, 3)
    updates = float(rounds)
    if run.steps is None:
        steps = flat(jax.vmap(lambda t: controller_steps(t, setup.space, cfg), 1, 0)(trajectory))
    else:
        updates = rounds * cfg.controller.updates_per_env_step
        steps = replay.sample(key_steps, run.steps, (round(updates), cfg.controller.batch_size))
    windows = replay.sample(key_windows, run.windows, (round(updates / cfg.k), cfg.manager.batch_size))
    return agents.learn(key_learn, run.agent, steps, windows, setup)


def flat(tree: Tree) -> Tree:
    """Join the two leading axes."""
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), tree)


def acting_metrics(
    collected: Collected, agent: AgentState, setup: Setup, known: KnownDistances | None, ends_on_success: bool
) -> dict[str, Mean]:
    """What a run's behaviour was like in a round: see docs/metrics.md."""
    cfg = setup.cfg
    new: Trajectory = jax.tree.map(lambda leaf: leaf[cfg.k :], collected.trajectory)
    done = new.terminated | new.truncated
    means = {
        "train/return": mean_where(done, collected.episode_return),
        "train/intrinsic_reward": mean_where(jnp.ones_like(done), intrinsic_rewards(new, setup.space, cfg)),
    }
    if ends_on_success:
        means["train/success"] = mean_where(done, new.terminated)
    for mask, names in (
        (new.clock == 0, ("subgoal_judged_adjacent", "subgoal_within_k")),
        (new.last, ("subgoal_miss",)),
    ):
        # Measured for as many windows as a round usually has twice over, not for every step: it is not free.
        count = 2 * cfg.training.round_env_steps // cfg.k
        (index,) = jnp.nonzero(mask.reshape(-1), size=count, fill_value=-1)
        some = jax.tree.map(lambda leaf, i=index: leaf[i], flat(new))
        numbers = subgoal_numbers(some.obs, some.subgoal, some.next_obs, agent.actors.embedding, setup, known)
        means |= {f"train/{name}": mean_where(index >= 0, numbers[name]) for name in names if name in numbers}
    return means


# Compiled and mapped over runs. What does not change is a constant of the program.


@functools.partial(jax.jit, static_argnames="setup")
def init_runs(keys: Key[Array, " runs"], *, setup: Setup) -> RunState:
    """`init` for all runs."""
    return over_runs(lambda key: init(key, setup), keys)


@functools.partial(jit_learner, static_argnames=("learning", "setup", "known", "ends_on_success"), donate_argnums=1)
def learn_runs(
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
) -> tuple[RunState, dict[str, Mean]]:
    """Store a round; if `learning`, the runs that are ready learn what belongs to it. `index` is the round's number."""

    def one(key: PRNGKeyArray, run: RunState, ready: Array, collected: Collected) -> tuple[RunState, dict[str, Mean]]:
        metrics = acting_metrics(collected, run.agent, setup, known, ends_on_success)
        run = store(run, collected.trajectory, setup)
        if not learning:
            return run, metrics
        learned, numbers = learn(jax.random.fold_in(key, index), run, collected.trajectory, setup)
        # Runs that are mapped together may begin to learn at different times.
        agent = jax.tree.map(lambda new, old: jnp.where(ready, new, old), learned, run.agent)
        weight = ready.astype(jnp.float32)
        return run._replace(agent=agent), metrics | {name: (weight * value, weight) for name, value in numbers.items()}

    return over_runs(one, keys, runs, ready, collected)


@functools.partial(jax.jit, static_argnames=("threshold",))
def accuracy_runs(agents: AgentState, cells: Array, truth: Array, *, threshold: float) -> Array:
    """Adjacency accuracy against the true relation, of all runs."""
    return over_runs(lambda agent: network.accuracy(agent.adjacency.embedding, cells, truth, threshold), agents)
