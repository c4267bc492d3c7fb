"""A world whose environment is written in JAX: rounds, random walks and evaluations are programs on the device.

Programs work for any leading axes: the copies of one run (copies, ...), or of several (runs, copies, ...).
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key, PRNGKeyArray
from numpy.typing import NDArray

from hrac.agents.decide import Actors, Noise, Setup, SubgoalState, carry_on, decide, draw_quiet, first_state, remember
from hrac.agents.windows import Trajectory
from hrac.config import Config
from hrac.envs.base import Environment, State, Step, known_distances
from hrac.folder import checkpoint
from hrac.runs import Parts, join, over_runs
from hrac.settings import TD3
from hrac.spaces import Actions, Box
from hrac.worlds.base import Collected, Episode, Visited, visited
from hrac.worlds.numbers import Mean, summarise
from hrac.worlds.streams import Stream, run_keys


class RolloutState(NamedTuple):
    """The state of the copies of all runs between two rounds (runs, copies, ...)."""

    env: State
    obs: Float[Array, "*n obs"]
    hierarchy: SubgoalState
    episode_return: Float[Array, "*n"]
    """Reward of the present episode so far."""


class DeviceWorld:
    """Copies of a JAX environment."""

    def __init__(self, env: Environment, setup: Setup, config: Config, parts: Parts) -> None:
        self.env, self.setup, self._parts = env, setup, parts
        self.ends_on_success = env.ends_on_success
        self.known = known_distances(env)
        self.exact = True
        self._seeds = config.seeds
        self._act_keys = parts.split(run_keys(config.seeds, Stream.ACT))
        self._states: list[RolloutState] = [
            _start(keys, env=env, setup=setup) for keys in parts.split(run_keys(config.seeds, Stream.ACT_COPIES))
        ]

    def collect(self, actors: list[Actors], ready: NDArray[np.bool_], index: int) -> list[Collected]:
        """One round with exploration."""
        everyone = zip(self._act_keys, actors, self._states, self._parts.split(ready), strict=True)
        results = [_collect(*each, jnp.asarray(index), env=self.env, setup=self.setup) for each in everyone]
        self._states = [state for state, _ in results]
        return [collected for _, collected in results]

    def random_walk(self, env_steps: int, poll: Callable[[], None] = lambda: None) -> list[Visited]:
        """Uniformly random actions in the environment's exploring form."""
        poll()
        episodes = -(-env_steps // self.env.time_limit)
        static = {"env": self.env.exploring(), "setup": self.setup, "episodes": episodes, "steps": -(-env_steps // episodes)}
        return [_random_walk(keys, **static) for keys in self._parts.split(run_keys(self._seeds, Stream.RANDOM_WALK))]

    def evaluate(self, actors: list[Actors], episodes: int, env_steps: int) -> dict[str, NDArray[Any]]:
        """Whole episodes without exploration."""
        keys = jax.vmap(jax.random.fold_in, (0, None))(run_keys(self._seeds, Stream.EVAL), jnp.asarray(env_steps))
        static = {"episodes": episodes, "env": self.env.evaluation(), "setup": self.setup}
        played = [evaluate(*each, **static) for each in zip(self._parts.split(keys), actors, strict=True)]
        return {name: np.asarray(jnp.stack(both), np.float64) for name, both in join(played).items()}

    def snapshot(self) -> dict[str, NDArray[Any]]:
        """The complete state as named arrays."""
        return checkpoint.flatten(join(self._states), "")

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Continue exactly from a snapshot; raises `CheckpointError`."""
        states = checkpoint.unflatten(arrays, join(self._states), "", Path("the checkpoint"))
        self._states = [jax.device_put(part) for part in self._parts.split(states)]


def _mapped(function: Callable[..., Any], axes: int) -> Callable[..., Any]:
    for _ in range(axes):
        function = jax.vmap(function)
    return function


def _without_single_run(tree: Any, runs: int) -> Any:
    """Remove the run axis if there is only one run: see `hrac.runs`."""
    return jax.tree.map(lambda leaf: leaf[0], tree) if runs == 1 else tree


@functools.partial(jax.jit, static_argnames=("env", "setup"))
def _start(keys: Key[Array, " runs"], *, env: Environment, setup: Setup) -> RolloutState:
    """Fresh episodes in all copies."""
    copies = setup.cfg.training.envs_per_run

    def one_run(key: PRNGKeyArray) -> RolloutState:
        state, obs = jax.vmap(env.reset)(jax.random.split(key, copies))
        return RolloutState(state, obs, first_state(obs, setup), jnp.zeros(copies))

    return over_runs(one_run, keys)


@functools.partial(jax.jit, static_argnames=("env", "setup"), donate_argnums=2)
def _collect(
    keys: Key[Array, " runs"],
    actors: Actors,
    state: RolloutState,
    ready: Bool[Array, " runs"],
    index: Array,
    *,
    env: Environment,
    setup: Setup,
) -> tuple[RolloutState, Collected]:
    """Let the two levels act and explore for one round."""
    cfg, runs = setup.cfg, len(keys)
    draws = over_runs(lambda key: draw_round(jax.random.fold_in(key, index), setup), keys)
    draws, actors, state, ready = _without_single_run((draws, actors, state, ready), runs)
    axes = 1 if runs == 1 else 2
    time_first = functools.partial(jax.tree.map, lambda leaf: jnp.moveaxis(leaf, axes - 1, 0))
    runs_first = functools.partial(jax.tree.map, lambda leaf: leaf[None] if runs == 1 else jnp.moveaxis(leaf, 0, 1))
    ready = jnp.broadcast_to(ready[..., None], state.obs.shape[:-1])

    def one_step(state: RolloutState, draws: Draws) -> tuple[RolloutState, tuple[Trajectory, Array]]:
        noise, action_noise, keys_env, keys_reset = draws
        clock = state.hierarchy.clock
        subgoal, action = decide(actors, state.hierarchy, state.obs, setup, action_noise, noise, ready)
        after = _mapped(env.step, axes)(keys_env, state.env, action)
        done = after.terminated | after.truncated
        last = done | (clock == cfg.k - 1)
        step = Trajectory(state.obs, subgoal, action, after.reward, after.obs, after.terminated, after.truncated, clock, last)
        hierarchy = carry_on(state.hierarchy._replace(subgoal=subgoal), state.obs, after.obs, last, setup.space)
        hierarchy = remember(hierarchy, state.obs, done, noise.hindsight, setup.space)
        hierarchy = draw_quiet(hierarchy, done, after.terminated & env.ends_on_success, ready, noise.quiet, setup)
        env_state, obs = _restart(keys_reset, done, after, env, axes)
        total = state.episode_return + after.reward
        return RolloutState(env_state, obs, hierarchy, jnp.where(done, 0.0, total)), (step, total)

    state, (new, totals) = jax.lax.scan(one_step, state, time_first(draws))
    steps, totals = runs_first((new, totals))
    state = jax.tree.map(lambda leaf: leaf[None], state) if runs == 1 else state
    return state, Collected(steps, totals, visited(steps, setup.space))


Draws = tuple[Noise, Float[Array, "*n outputs"], Key[Array, "*n"], Key[Array, "*n"]]
"""Random numbers: for subgoals, for actions, keys for steps, keys for resets."""

QUIET = 4
"""Folded into a key of which 0 to 3 are in use: `split` gives the same keys as these."""


def draw_round(key: PRNGKeyArray, setup: Setup) -> Draws:
    """One run's random numbers for a round (time, copies, ...).

    They are drawn together, because drawing them step by step would take as long as acting.
    """
    training, manager = setup.cfg.training, setup.cfg.manager
    goal, copies = setup.space.goal_dim, training.envs_per_run

    def propose(key: PRNGKeyArray) -> Noise:
        key_uniform, key_noise, key_lottery, *more = jax.random.split(key, 4 if setup.remembers else 3)
        noisy = jax.vmap(lambda k: jax.random.normal(k, (goal,)))(jax.random.split(key_noise, manager.candidates))
        return Noise(
            first_subgoal=jax.random.uniform(key_uniform, (goal,)),
            subgoals=jnp.array(manager.noise_sigma, jnp.float32) * noisy,
            lottery=jax.random.uniform(key_lottery, (manager.candidates,)),
            hindsight=jax.random.uniform(more[0], (2,)) if more else None,
            at_target=jax.random.uniform(jax.random.fold_in(key, 1), ()) if manager.target_chance > 0 else None,
            quiet=jax.random.uniform(jax.random.fold_in(key, QUIET), ()) if setup.has_quiet_episodes else None,
        )

    keys = jax.random.split(key, training.round_env_steps // copies)
    keys = jax.vmap(lambda k: jax.vmap(lambda use: jax.random.split(use, copies))(jax.random.split(k, 4)))(keys)
    act = functools.partial(_action_noise, setup=setup)
    return _mapped(propose, 2)(keys[:, 0]), _mapped(act, 2)(keys[:, 1]), keys[:, 2], keys[:, 3]


def _action_noise(key: PRNGKeyArray, setup: Setup) -> Float[Array, " outputs"]:
    """Gumbel noise, which turns the most likely choice into a draw from the softmax; or Gaussian noise on a vector."""
    shape = (setup.actions.outputs,)
    if isinstance(setup.cfg.controller, TD3):
        return setup.cfg.controller.noise_sigma * jax.random.normal(key, shape)
    return jax.random.gumbel(key, shape)


def _restart(keys: Key[Array, "*n"], done: Bool[Array, "*n"], after: Step, env: Environment, axes: int) -> tuple[State, Array]:
    """The same episode where it goes on, a new one where it ended."""
    fresh = _mapped(env.reset, axes)(keys)
    going_on = (after.state, after.obs)
    ended = lambda leaf: done.reshape(*done.shape, *[1] * (leaf.ndim - axes))  # noqa: E731
    return jax.tree.map(lambda new, old: jnp.where(ended(new), new, old), fresh, going_on)


@functools.partial(jax.jit, static_argnames=("episodes", "steps", "env", "setup"))
def _random_walk(keys: Key[Array, " runs"], *, episodes: int, steps: int, env: Environment, setup: Setup) -> Visited:
    """Episodes of uniformly random actions (runs, time, episodes, ...), whose ends are ignored."""

    def episode(key: PRNGKeyArray) -> Array:
        key_reset, key_steps = jax.random.split(key)
        state, obs = env.reset(key_reset)

        def one_step(state: State, key: PRNGKeyArray) -> tuple[State, Array]:
            key_action, key_env = jax.random.split(key)
            step = env.step(key_env, state, _random_action(key_action, setup.actions))
            return step.state, setup.space.phi(step.obs)

        _, positions = jax.lax.scan(one_step, state, jax.random.split(key_steps, steps))
        return jnp.concatenate([setup.space.phi(obs)[None], positions])

    walks = over_runs(lambda key: jax.vmap(episode, out_axes=1)(jax.random.split(key, episodes)), keys)
    done = jnp.zeros((len(keys), steps, episodes), bool).at[:, -1].set(True)
    return Visited(walks[:, :-1], walks[:, 1:], done)


def _random_action(key: PRNGKeyArray, actions: Actions) -> Array:
    if isinstance(actions, Box):
        low, high = map(jnp.asarray, actions.limits)
        return jax.random.uniform(key, low.shape, minval=low, maxval=high)
    return jax.random.randint(key, (), 0, actions.choices)


@functools.partial(jax.jit, static_argnames=("episodes", "env", "setup"))
def evaluate(keys: Key[Array, " runs"], actors: Actors, *, episodes: int, env: Environment, setup: Setup) -> dict[str, Mean]:
    """The metrics of episodes of all runs: totals and weights (runs, episodes)."""
    episode = _play(keys, actors, episodes, env, setup)
    embedding = _without_single_run(actors.embedding, len(keys))
    numbers = summarise(episode, embedding, setup, env)
    return jax.tree.map(lambda leaf: leaf[None], numbers) if len(keys) == 1 else numbers


@functools.partial(jax.jit, static_argnames=("episodes", "env", "setup"))
def play(keys: Key[Array, " runs"], actors: Actors, *, episodes: int, env: Environment, setup: Setup) -> Episode:
    """Whole episodes (runs, time, episodes, ...)."""
    episode = _play(keys, actors, episodes, env, setup)
    return jax.tree.map(lambda leaf: leaf[None], episode) if len(keys) == 1 else episode


def _play(keys: Key[Array, " runs"], actors: Actors, episodes: int, env: Environment, setup: Setup) -> Episode:
    """Episodes with the manager's subgoals without noise; discrete actions are drawn. A single run has no run axis."""
    k, runs = setup.cfg.k, len(keys)
    windows = -(-env.time_limit // k)
    axes = 1 if runs == 1 else 2

    def draw(key: PRNGKeyArray) -> tuple[Array, Array | None, Array]:
        key_reset, key_steps = jax.random.split(key)
        keys = jax.vmap(jax.random.split)(jax.random.split(key_steps, (windows, k)).reshape(-1))
        noise = None
        if not isinstance(setup.actions, Box):
            noise = jax.vmap(functools.partial(_action_noise, setup=setup))(keys[:, 0])
        return key_reset, noise, keys[:, 1]

    draws = over_runs(lambda key: jax.vmap(draw)(jax.random.split(key, episodes)), keys)
    (key_reset, noise, keys_env), actors = _without_single_run((draws, actors), runs)
    state, obs = _mapped(env.reset, axes)(key_reset)
    subgoal = jnp.zeros((*obs.shape[:-1], setup.space.goal_dim))

    def one_step(carry: tuple[State, Array, Array, Array], drawn: tuple[Array, Array | None, Array]) -> tuple[Any, Episode]:
        (state, obs, subgoal, alive), (time, noise, keys_env) = carry, drawn
        hierarchy = SubgoalState(subgoal, jnp.broadcast_to(time % k, alive.shape))
        subgoal, action = decide(actors, hierarchy, obs, setup, noise)
        after = _mapped(env.step, axes)(keys_env, state, action)
        record = Episode(obs, subgoal, action, after.reward, after.obs, after.terminated, alive)
        subgoal = setup.space.transition(subgoal, setup.space.phi(obs), setup.space.phi(after.obs))
        return (after.state, after.obs, subgoal, alive & ~(after.terminated | after.truncated)), record

    time_first = functools.partial(jax.tree.map, lambda leaf: jnp.moveaxis(leaf, axes, 0))
    draws = (jnp.arange(windows * k), time_first(noise), time_first(keys_env))
    _, episode = jax.lax.scan(one_step, (state, obs, subgoal, jnp.ones(obs.shape[:-1], bool)), draws)
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, axes - 1), episode)
