"""A world whose environment runs on the host: copies step together on threads, and both levels act in NumPy.

For a few dozen copies, copying to the device and back at every step would take longer than these small networks.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from hrac.agents.decide import Actors, Noise, Setup, SubgoalState, carry_on, decide, draw_quiet, first_state, remember
from hrac.agents.windows import Trajectory
from hrac.config import Config
from hrac.envs.base import BatchEnvironment, HostTask, SimulationError, known_distances
from hrac.envs.copies import EnvironmentFailedError
from hrac.runs import Parts, join
from hrac.settings import TD3
from hrac.spaces import Box
from hrac.worlds.base import Collected, DivergedError, Episode, Visited, visited
from hrac.worlds.numbers import summarise
from hrac.worlds.streams import Stream

Numbers = NDArray[np.float32]
Function = TypeVar("Function", bound=Callable[..., Any])
_BLAS = ThreadpoolController()


def single_threaded_blas(function: Function) -> Function:
    """Decorates functions that step copies and act in turn: their matrix products use one thread.

    NumPy's library would use several threads even for small products. These then wait for the next product in a busy loop, on
    the cores that step the copies. The limit holds for the whole process while the function runs, so such functions must be
    called by one thread at a time.
    """
    return _BLAS.wrap(limits=1, user_api="blas")(function)


def observed(env: BatchEnvironment, obs: NDArray[np.float64], ids: NDArray[np.int64] | slice = slice(None)) -> Numbers:
    """Observations of some copies, followed by the context, which only the manager sees."""
    return np.concatenate([obs, env.context[ids]], axis=1).astype(np.float32)


def copy_seeds(seeds: tuple[int, ...], copies: int, *stream: int) -> NDArray[np.int64]:
    """A seed for each copy of each run (runs * copies,), from the run's seed and a random stream."""
    return np.array(
        [
            np.random.SeedSequence([seed, *stream, copy]).generate_state(1, np.uint64)[0] >> np.uint64(1)
            for seed in seeds
            for copy in range(copies)
        ]
    ).astype(np.int64)


class Draws(NamedTuple):
    """The random numbers of a round, for each step (time, runs, copies, ...)."""

    noise: Noise
    action: Numbers

    def at(self, time: int) -> tuple[Numbers, Noise]:
        """Those of one step."""
        return self.action[time], jax.tree.map(lambda part: part[time], self.noise)


class HostWorld:
    """Copies of an environment on the host. Arrays here are (runs, copies, ...)."""

    def __init__(self, task: HostTask, setup: Setup, config: Config, parts: Parts) -> None:
        self.task, self.setup, self.config, self._parts = task, setup, config, parts
        self.ends_on_success = task.ends_on_success
        self.known = known_distances(task)
        self._evaluation = task.evaluation()
        self.runs, self.copies = len(config.seeds), config.training.envs_per_run
        self.env = task.batch(self.runs * self.copies, config.training.env_threads)
        self.exact = getattr(self.env, "exact", True)
        self._begin(restarts=0)

    def _begin(self, restarts: int) -> None:
        """Start new episodes in all copies, with other seeds after each restart."""
        seeds = copy_seeds(self.config.seeds, self.copies, Stream.ACT_COPIES, *[restarts] * (restarts > 0))
        shape, self._restarts = (self.runs, self.copies), restarts
        self.obs: Numbers = observed(self.env, self.env.reset(seeds=seeds)).reshape(*shape, -1)
        self.hierarchy = first_state(self.obs, self.setup)
        self.total = np.zeros(shape)
        """Reward of the present episodes so far."""

    @single_threaded_blas
    def collect(self, actors: list[Actors], ready: NDArray[np.bool_], index: int) -> list[Collected]:
        """One round with exploration."""
        length, everyone = self.config.training.round_env_steps // self.copies, on_host(actors)
        self._require_finite(everyone)
        draws = self._draw_round(index, length)
        ready = np.broadcast_to(ready[:, None], (self.runs, self.copies))
        steps, totals = [], np.zeros((self.runs, length, self.copies), np.float32)
        for time in range(length):
            action_noise, noise = draws.at(time)
            subgoal, action = decide(everyone, self.hierarchy, self.obs, self.setup, action_noise, noise, ready)
            with self._naming_the_seed(self.copies):
                step, totals[:, time] = self._step(subgoal, action, noise, ready)
            steps.append(step)
        trajectory = jax.tree.map(lambda *leaves: np.stack(leaves, axis=1), *steps)
        return self._parts.split(Collected(trajectory, totals, visited(trajectory, self.setup.space)))

    @contextlib.contextmanager
    def _naming_the_seed(self, copies: int) -> Iterator[None]:
        """If a simulation breaks down, the error names its seed; each seed has this many copies."""
        try:
            yield
        except EnvironmentFailedError:
            self.exact = False  # a round was not finished: a checkpoint cannot continue it
            raise
        except SimulationError as error:
            seed = self.config.seeds[error.copies[0] // copies]
            raise DivergedError(f"the physics of seed {seed} became unstable") from error

    def _require_finite(self, actors: Actors) -> None:
        """Raise if the weights of an actor are not finite."""
        for path, leaf in jax.tree_util.tree_leaves_with_path(actors):
            finite = np.isfinite(leaf.reshape(len(leaf), -1)).all(axis=1)
            if not finite.all():
                seed = self.config.seeds[np.flatnonzero(~finite)[0]]
                raise DivergedError(f"{jax.tree_util.keystr(path)} of seed {seed} is not finite")

    def _draw_round(self, index: int, length: int) -> Draws:
        goal, outputs, manager = self.setup.space.goal_dim, self.setup.actions.outputs, self.config.manager
        shape, count = (length, self.copies), manager.candidates
        drawn = []
        for seed in self.config.seeds:
            rng = np.random.default_rng([seed, Stream.ACT, index])
            first_subgoal = rng.random((*shape, goal))
            subgoals = (np.array(manager.noise_sigma) * rng.standard_normal((*shape, count, goal))).astype(np.float32)
            action = action_noise(rng, (*shape, outputs), self.setup)
            lottery = rng.random((*shape, count), np.float32)
            hindsight = rng.random((*shape, 2), np.float32) if self.setup.remembers else None
            at_target = rng.random(shape, np.float32) if manager.target_chance > 0 else None
            quiet = rng.random(shape, np.float32) if self.setup.has_quiet_episodes else None
            drawn.append(Draws(Noise(first_subgoal, subgoals, lottery, hindsight, at_target, quiet), action))
        return jax.tree.map(lambda *leaves: np.stack(leaves, axis=1), *drawn)

    def _step(
        self, subgoal: Numbers, action: NDArray[Any], noise: Noise, ready: NDArray[np.bool_]
    ) -> tuple[Trajectory, Numbers]:
        """One step of all copies. Where an episode ended, a new one begins."""
        shape, obs, clock = (self.runs, self.copies), self.obs, self.hierarchy.clock
        after = self.env.step(action.reshape(-1, *action.shape[2:]))
        next_obs = observed(self.env, after.obs)
        reward, terminated, truncated = (
            after.reward.reshape(shape),
            after.terminated.reshape(shape),
            after.truncated.reshape(shape),
        )
        done = terminated | truncated
        last = done | (clock == self.config.k - 1)
        self.obs = next_obs.reshape(*shape, -1)
        step = Trajectory(obs, subgoal, action, reward.astype(np.float32), self.obs, terminated, truncated, clock, last)
        hierarchy = carry_on(self.hierarchy._replace(subgoal=subgoal), obs, self.obs, last, self.setup.space)
        hierarchy = remember(hierarchy, obs, done, noise.hindsight, self.setup.space)
        success = getattr(self.env, "succeeded", after.terminated & self.ends_on_success).reshape(shape)
        self.hierarchy = draw_quiet(hierarchy, done, success, ready, noise.quiet, self.setup)
        total = self.total + reward
        self.total = np.where(done, 0.0, total)
        if done.any():
            ids = np.flatnonzero(done)
            fresh = next_obs.copy()
            fresh[ids] = observed(self.env, self.env.reset(ids), ids)
            self.obs = fresh.reshape(*shape, -1)
        return step, total.astype(np.float32)

    def random_walk(self, env_steps: int, poll: Callable[[], None] = lambda: None) -> list[Visited]:
        """Uniformly random actions. Ends by the task are ignored, if the environment can go on then."""
        seeds, phi = self.config.seeds, self.setup.space.phi
        goes_on = getattr(self.env, "steps_past_end", True)
        walkers = -(-env_steps // self.env.time_limit) if goes_on else self.copies
        with closing(self.task.batch(len(seeds) * walkers, self.config.training.env_threads)) as env:
            here = phi(env.reset(seeds=copy_seeds(seeds, walkers, Stream.RANDOM_WALK_COPIES)))
            rngs = [np.random.default_rng([seed, Stream.RANDOM_WALK]) for seed in seeds]
            walked = []
            for _ in range(-(-env_steps // walkers)):
                poll()
                after = env.step(np.concatenate([self._random_actions(rng, walkers) for rng in rngs]))
                there, over = phi(after.obs), (after.terminated | after.truncated) & (not goes_on)
                walked.append(Visited(here, there, over))
                here = there.copy()
                if over.any():
                    here[over] = phi(env.reset(np.flatnonzero(over)))
        position, reached, done = (np.stack(part) for part in zip(*walked, strict=True))
        done[-1] = True
        apart = lambda part: part.reshape(len(walked), len(seeds), walkers, *part.shape[2:]).swapaxes(0, 1)  # noqa: E731
        return self._parts.split(Visited(*map(apart, (position.astype(np.float32), reached.astype(np.float32), done))))

    def _random_actions(self, rng: np.random.Generator, count: int) -> NDArray[Any]:
        actions = self.setup.actions
        if isinstance(actions, Box):
            return rng.uniform(*actions.limits, (count, actions.outputs))
        return rng.integers(actions.choices, size=count)

    def evaluate(self, actors: list[Actors], episodes: int, env_steps: int) -> dict[str, NDArray[Any]]:
        """Whole episodes without exploration."""
        seeds = copy_seeds(self.config.seeds, episodes, Stream.EVAL, env_steps)
        with self._naming_the_seed(episodes):
            return evaluate(self._evaluation, on_host(actors), seeds, self.setup, self.config.training.env_threads)

    def close(self) -> None:
        """The copies are not needed any more."""
        for source in (self.env, self.task):
            getattr(source, "close", lambda: None)()

    def snapshot(self) -> dict[str, NDArray[Any]]:
        """The complete state as named arrays."""
        if not self.exact:
            return {"restarts": np.array(self._restarts)}
        arrays: dict[str, NDArray[Any]] = {"obs": self.obs, "total": self.total}
        arrays |= {name: array for name, array in self.hierarchy._asdict().items() if array is not None}
        return arrays | {f"env/{name}": array for name, array in self.env.snapshot().items()}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Continue exactly from a snapshot, or begin new episodes if the environment could not save its state."""
        if "restarts" in arrays:
            return self._begin(int(arrays["restarts"]) + 1)
        self.obs, self.total = arrays["obs"], arrays["total"]
        self.hierarchy = SubgoalState(**{name: arrays[name] for name in SubgoalState._fields if name in arrays})
        self.env.restore({name.removeprefix("env/"): array for name, array in arrays.items() if name.startswith("env/")})


@contextlib.contextmanager
def closing(env: BatchEnvironment) -> Iterator[BatchEnvironment]:
    """Close the copies at the end, if they can be closed."""
    try:
        yield env
    finally:
        getattr(env, "close", lambda: None)()


def on_host(actors: list[Actors]) -> Actors:
    """The networks of all runs as NumPy arrays (runs, ...). On a CPU they may share memory with the device's."""
    return join([jax.device_get(part) for part in actors])


def action_noise(rng: np.random.Generator, shape: tuple[int, ...], setup: Setup) -> Numbers:
    """Gumbel noise, which turns the most likely choice into a draw from the softmax; or Gaussian noise on a vector."""
    if isinstance(setup.cfg.controller, TD3):
        return (setup.cfg.controller.noise_sigma * rng.standard_normal(shape)).astype(np.float32)
    return rng.gumbel(size=shape).astype(np.float32)


def evaluate(
    task: HostTask, actors: Actors, seeds: NDArray[np.int64], setup: Setup, threads: int | None
) -> dict[str, NDArray[Any]]:
    """The metrics of one episode per seed: totals and weights (2, runs, episodes). A task may limit its copies at one time."""
    runs = len(actors.controller.biases[0])
    at_once = max(getattr(task, "most_copies", len(seeds)) // runs, 1)
    waves = []
    for first in range(0, len(seeds) // runs, at_once):
        chosen = seeds.reshape(runs, -1)[:, first : first + at_once].ravel()
        episode = play(task, actors, chosen, setup, threads)
        waves.append(summarise(episode, actors.embedding, setup, task))
    return {name: np.concatenate([np.stack(wave[name]) for wave in waves], axis=-1) for name in waves[0]}


@single_threaded_blas
def play(
    task: HostTask,
    actors: Actors,
    seeds: NDArray[np.int64],
    setup: Setup,
    threads: int | None,
    look: Callable[[BatchEnvironment], None] = lambda _: None,
) -> Episode:
    """One episode per seed, the same number for each run (runs, time, episodes, ...).

    `look` is called before each step and at the end.
    """
    with closing(task.batch(len(seeds), threads)) as env:
        return _play(env, actors, seeds, setup, look)


def _play(
    env: BatchEnvironment,
    actors: Actors,
    seeds: NDArray[np.int64],
    setup: Setup,
    look: Callable[[BatchEnvironment], None],
) -> Episode:
    runs = len(actors.controller.biases[0])
    shape = (runs, len(seeds) // runs)
    obs = observed(env, env.reset(seeds=seeds)).reshape(*shape, -1)
    rng = np.random.default_rng(seeds)  # draws discrete actions
    state = SubgoalState(np.zeros((*shape, setup.space.goal_dim), np.float32), np.zeros(shape, np.int32))
    alive, records = np.ones(shape, bool), []
    for _ in range(env.time_limit):
        if not alive.any():
            break
        look(env)
        noise = None if isinstance(setup.actions, Box) else action_noise(rng, (*shape, setup.actions.outputs), setup)
        subgoal, action = decide(actors, state, obs, setup, noise)
        ids = np.flatnonzero(alive)
        after = env.step(action.reshape(-1, *action.shape[2:])[ids], ids)
        flat = obs.reshape(len(seeds), -1).copy()
        flat[ids] = observed(env, after.obs, ids)
        next_obs, before = flat.reshape(*shape, -1), alive
        reward, terminated, alive = np.zeros(shape), np.zeros(shape, bool), np.zeros(shape, bool)
        reward.flat[ids], terminated.flat[ids] = after.reward, after.terminated
        alive.flat[ids] = ~(after.terminated | after.truncated)
        records.append(Episode(obs, subgoal, action, reward, next_obs, terminated, before))
        window_over = np.full(shape, (len(records) % setup.cfg.k) == 0)
        state = carry_on(SubgoalState(subgoal, state.clock), obs, next_obs, window_over, setup.space)
        obs = next_obs
    look(env)
    return jax.tree.map(lambda *leaves: np.stack(leaves, axis=1), *records)
