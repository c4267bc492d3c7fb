"""Training with an environment on the host: copies step on threads, both levels (TD3) act by NumPy, and learn on the device."""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key, PRNGKeyArray
from numpy.typing import NDArray

from hrac.agents import continuous
from hrac.agents.continuous import ActionBox, Stretch
from hrac.agents.hierarchy import AgentState
from hrac.agents.subgoals import SubgoalSpace
from hrac.agents.td3 import Transition
from hrac.agents.windows import Trajectory
from hrac.compiled import jit_learner
from hrac.config import Config
from hrac.envs.base import HostTask, SimulationError
from hrac.runs import over_runs
from hrac.training import collect, playing, replay
from hrac.training.acting import Actors, Hierarchy
from hrac.training.evaluate import Mean
from hrac.training.replay import Buffer
from hrac.training.rollout import Collected
from hrac.training.rounds import Visited, acting_metrics, flat, learn_if_ready
from hrac.training.spaces import subgoal_space
from hrac.training.state import DivergedError, Training, join, program
from hrac.training.streams import Stream


class HostRun(NamedTuple):
    """Everything of a run that lives on the device."""

    agent: AgentState
    steps: Buffer
    windows: Buffer


class HostTraining(Training):
    """R runs in an environment on the host."""

    def __init__(self, config: Config, task: HostTask) -> None:
        self.task, self._evaluation, one = task, task.evaluation(), task.batch(1, 1)
        super().__init__(config, subgoal_space(one, config))
        self.actions = ActionBox(*one.actions)
        self.obs_dim, self.time_limit = one.obs_dim + one.context_dim, one.time_limit
        self._static = {"space": self.space, "actions": self.actions, "cfg": program(config)}
        keys = self._keys(Stream.INIT)
        self.parts = [init_runs(keys[part], obs_dim=self.obs_dim, **self._static) for part in self._slices]
        self._learn_keys = self._keys(Stream.LEARN)
        self.hierarchy = Hierarchy(self.space, self.actions)
        self.collector = collect.Collector(task, self.hierarchy, config)
        self.windows_seen: NDArray[np.int64] = np.zeros(len(config.seeds), np.int64)
        """Windows that ended, by run."""
        self._older: Actors | None = None
        """The policies before the last round's learning, if acting may go on with those (`training.overlap`)."""

    def actors(self) -> Actors:
        """The present policies, on the host."""
        return join([Actors.of(part.agent) for part in self.parts])

    def _walks(self, env_steps: int) -> tuple[NDArray[np.floating], int]:
        episodes = -(-env_steps // self.time_limit)
        return collect.wander(self.task, self.config, episodes, self.space.dimensions), self.time_limit

    def round(self) -> None:
        """Collect a round, store it, and learn as much as belongs to it."""
        index = self.env_steps // self.config.training.round_env_steps
        enough = self.windows_seen >= self.config.manager.start_windows
        actors = self._older if self._older is not None else self.actors()
        self._require_finite_actors(actors)
        with self._naming_the_seed(self.config.training.envs_per_run):
            trajectory, totals = self.collector.round(actors, enough, index)
        if self.config.training.overlap:
            self._older = self.actors()  # the device has had the whole round's time for the learning this waits for
        results = [
            learn_runs(
                self._learn_keys[part],
                runs,
                jnp.asarray(index),
                *jax.device_put(jax.tree.map(lambda leaf, p=part: leaf[p], (enough, trajectory, totals))),
                learning=bool(enough[part].any()),
                **self._static,
            )
            for part, runs in zip(self._slices, self.parts, strict=True)
        ]
        self.parts = [runs for runs, _ in results]
        new = jax.tree.map(lambda leaf: leaf[:, self.config.k :], trajectory)
        self.windows_seen = self.windows_seen + new.last.sum(axis=(1, 2))
        goal = self.space.dimensions
        visited = Visited(new.obs[..., :goal], new.next_obs[..., :goal], new.terminated | new.truncated)
        unknown = () if self.task.ends_on_success else ("train/success",)
        self._finish_round([{name: part[name] for name in part if name not in unknown} for _, part in results], visited)

    @contextlib.contextmanager
    def _naming_the_seed(self, copies: int) -> Iterator[None]:
        """A simulation that breaks down says whose it was, and when; each seed has so many copies."""
        try:
            yield
        except SimulationError as error:
            seed = self.config.seeds[error.copies[0] // copies]
            raise DivergedError(f"the physics of seed {seed} became unstable after step {self.env_steps:,}") from error

    def _require_finite_actors(self, actors: Actors) -> None:
        """A policy that is not finite must not act."""
        for path, leaf in jax.tree_util.tree_leaves_with_path(actors):
            bad = ~np.isfinite(leaf.reshape(len(leaf), -1)).all(axis=1)
            self._require_finite({jax.tree_util.keystr(path): np.where(bad, np.nan, 0.0)}, self.env_steps)

    def _play(self, episodes: int) -> dict[str, NDArray[np.float64]]:
        seeds = collect.copy_seeds(self.config.seeds, episodes, Stream.EVAL, self.env_steps)
        with self._naming_the_seed(episodes):
            played = playing.play(self._evaluation, self.hierarchy, self.actors(), seeds, self.config)
        return {name: both.sum(axis=-1) for name, both in played.items()}

    def _own_arrays(self) -> dict[str, NDArray[Any]]:
        arrays = {f"collector/{name}": array for name, array in self.collector.snapshot().items()}
        arrays["windows_seen"] = self.windows_seen
        if self._older is not None:
            arrays |= {f"older/{index}": leaf for index, leaf in enumerate(jax.tree.leaves(self._older))}
        return arrays

    def _restore_own(self, arrays: dict[str, NDArray[Any]]) -> None:
        ours = {name.removeprefix("collector/"): array for name, array in arrays.items() if name.startswith("collector/")}
        self.collector.restore(ours)
        self.windows_seen = arrays["windows_seen"]
        if "older/0" in arrays:
            leaves, form = jax.tree.flatten(self.actors())
            self._older = jax.tree.unflatten(form, [arrays[f"older/{index}"] for index in range(len(leaves))])


STATIC = ("space", "actions", "cfg")


@functools.partial(jax.jit, static_argnames=("obs_dim", *STATIC))
def init_runs(keys: Key[Array, " runs"], *, obs_dim: int, space: SubgoalSpace, actions: ActionBox, cfg: Config) -> HostRun:
    """New runs."""

    def one(_: str | None, key: PRNGKeyArray) -> HostRun:
        agent = continuous.init(key, obs_dim, space, actions, cfg)
        zeros, number = jnp.zeros, jnp.zeros(())
        seen, goal, action = zeros(obs_dim - space.context + space.dimensions), zeros(space.dimensions), zeros(len(actions.low))
        step = Transition(seen, action, number, seen, jnp.asarray(False))
        window = Transition(zeros(obs_dim), goal, number, zeros(obs_dim), jnp.asarray(False))
        stretch = Stretch(window, zeros((cfg.k, obs_dim)), zeros((cfg.k, len(actions.low))), zeros(cfg.k, bool))
        steps = replay.create(step, cfg.controller.buffer_steps)
        return HostRun(agent, steps, replay.create(stretch, cfg.manager.buffer_windows))

    return over_runs(one, keys)


@functools.partial(jit_learner, static_argnames=("learning", *STATIC), donate_argnums=1)
def learn_runs(
    keys: Key[Array, " runs"],
    runs: HostRun,
    index: Array,
    ready: Bool[Array, " runs"],
    trajectory: Trajectory,
    totals: Float[Array, "runs time copies"],
    *,
    learning: bool,
    space: SubgoalSpace,
    actions: ActionBox,
    cfg: Config,
) -> tuple[HostRun, dict[str, Mean]]:
    """Store a round (runs, k + time, copies, ...); if `learning`, the runs that are ready learn what belongs to it.

    `index` is the round's number.
    """

    def one(
        axis: str | None, key: PRNGKeyArray, run: HostRun, ready: Array, trajectory: Trajectory, totals: Array
    ) -> tuple[HostRun, dict[str, Mean]]:
        run = store(run, trajectory, space, cfg)
        metrics = acting_metrics(Collected(trajectory, totals), run.agent, None, space, cfg)
        key = jax.random.fold_in(key, index)
        update = lambda agent: learn(key, run._replace(agent=agent), space, actions, cfg)  # noqa: E731
        agent, numbers = learn_if_ready(update, run.agent, ready, learning, axis)
        return run._replace(agent=agent), metrics | numbers

    return over_runs(one, keys, runs, ready, trajectory, totals)


def store(run: HostRun, trajectory: Trajectory, space: SubgoalSpace, cfg: Config) -> HostRun:
    """Put a round's steps, and the windows that ended in it, into the replay buffers."""
    per_copy = functools.partial(jax.vmap, in_axes=1, out_axes=0)
    steps = flat(per_copy(lambda t: continuous.controller_transitions(t, space, cfg))(trajectory))
    windows, ended = per_copy(lambda t: continuous.stretches(t, cfg))(trajectory)
    everything = jnp.ones(len(steps.reward), bool)
    return run._replace(
        steps=replay.extend(run.steps, steps, everything), windows=replay.extend(run.windows, flat(windows), flat(ended))
    )


def learn(
    key: PRNGKeyArray, run: HostRun, space: SubgoalSpace, actions: ActionBox, cfg: Config
) -> tuple[AgentState, dict[str, Array]]:
    """A round's updates of both levels, from the replay buffers."""
    key_steps, key_windows, key_learn = jax.random.split(key, 3)
    updates = round(cfg.training.round_env_steps * cfg.controller.updates_per_env_step)
    steps = replay.sample(key_steps, run.steps, (updates, cfg.controller.batch_size))
    managed = round(cfg.training.round_env_steps * cfg.controller.updates_per_env_step / cfg.k)
    windows = replay.sample(key_windows, run.windows, (managed, cfg.manager.batch_size))
    return continuous.learn(key_learn, run.agent, steps, windows, space, actions, cfg)
