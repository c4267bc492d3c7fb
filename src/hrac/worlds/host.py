"""A world whose environment runs on the host: copies step together on threads, and both levels act in NumPy.

For a few dozen copies, copying to the device and back at every step would take longer than these small networks.
"""

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeVar

import jax
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from hrac.agents.decide import Actors, Noise, Setup, SubgoalState, carry_on, decide
from hrac.agents.windows import Trajectory
from hrac.config import Config
from hrac.envs.base import BatchEnvironment, HostTask, SimulationError, known_distances
from hrac.envs.copies import EnvironmentFailedError
from hrac.runs import Parts, join
from hrac.settings import TD3
from hrac.spaces import Box
from hrac.worlds.base import Collected, DivergedError, Episode, Visited, visited
from hrac.worlds.group import Draws, Group, Numbers, now, observed
from hrac.worlds.numbers import summarise
from hrac.worlds.streams import Stream

Function = TypeVar("Function", bound=Callable[..., Any])
_BLAS = ThreadpoolController()


def single_threaded_blas(function: Function) -> Function:
    """Decorates functions that step copies and act in turn: their matrix products use one thread.

    NumPy's library would use several threads even for small products. These then wait for the next product in a busy loop, on
    the cores that step the copies. The limit holds for the whole process while the function runs, so such functions must be
    called by one thread at a time.
    """
    return _BLAS.wrap(limits=1, user_api="blas")(function)


def copy_seeds(seeds: tuple[int, ...], copies: int, *stream: int) -> NDArray[np.int64]:
    """A seed for each copy of each run (runs * copies,), from the run's seed and a random stream."""
    return np.array(
        [
            np.random.SeedSequence([seed, *stream, copy]).generate_state(1, np.uint64)[0] >> np.uint64(1)
            for seed in seeds
            for copy in range(copies)
        ]
    ).astype(np.int64)


class HostWorld:
    """Copies of an environment on the host, in groups. Arrays here are (runs, copies, ...).

    Where stepping leaves Python to other threads, as the physics of ants does, each half of the runs is a group: one is stepped
    while actors decide for the other. What happens in a run does not depend on its group.
    """

    def __init__(self, task: HostTask, setup: Setup, config: Config, parts: Parts) -> None:
        self.task, self.setup, self.config, self._parts = task, setup, config, parts
        self.ends_on_success = task.ends_on_success
        self.known = known_distances(task)
        self._evaluation = task.evaluation()
        self.runs, self.copies = len(config.seeds), config.training.envs_per_run
        self.groups = self._make_groups(config.training.env_threads)
        self._threads = ThreadPoolExecutor(len(self.groups)) if len(self.groups) > 1 else None
        self.exact = all(getattr(group.env, "exact", True) for group in self.groups)
        self._begin(restarts=0)

    def _make_groups(self, threads: int | None) -> list[Group]:
        """All runs in one group, or in two that share the threads; without a limit each has one per core."""
        count = 2 if getattr(self.task, "releases_gil", False) and min(self.runs, threads or 2) > 1 else 1
        groups = []
        for number in range(count):  # the first has one more if they cannot be divided
            runs = slice(-(-number * self.runs // count), -(-(number + 1) * self.runs // count))
            mine = None if threads is None else -(-(threads - number) // count)
            env = self.task.batch((runs.stop - runs.start) * self.copies, mine)
            groups.append(Group(env, runs, self.copies, self.setup, self.ends_on_success))
        return groups

    def _begin(self, restarts: int) -> None:
        """Start new episodes in all copies, with other seeds after each restart."""
        self._restarts = restarts
        for group in self.groups:
            stream = (Stream.ACT_COPIES, *[restarts] * (restarts > 0))
            group.begin(copy_seeds(self.config.seeds[group.runs], self.copies, *stream))

    @single_threaded_blas
    def collect(self, actors: list[Actors], ready: NDArray[np.bool_], index: int) -> list[Collected]:
        """One round with exploration."""
        length, everyone = self.config.training.round_env_steps // self.copies, on_host(actors)
        self._require_finite(everyone)
        draws = self._draw_round(index, length)
        steps: list[list[tuple[Trajectory, Numbers]]] = [[] for _ in self.groups]
        rounds = [self._round(group, everyone, draws, ready, mine) for group, mine in zip(self.groups, steps, strict=True)]
        try:
            for _ in zip(*rounds, strict=True):  # the groups in turn: each ends its step and begins the next
                pass
        finally:
            wait([group.stepping for group in self.groups if group.stepping])  # if one failed, another may be in its step
        apart = [jax.tree.map(lambda *leaves: np.stack(leaves, axis=1), *mine) for mine in steps]
        trajectory, totals = join(apart)
        return self._parts.split(Collected(trajectory, totals, visited(trajectory, self.setup.space)))

    def _round(
        self, group: Group, actors: Actors, draws: Draws, ready: NDArray[np.bool_], steps: list[tuple[Trajectory, Numbers]]
    ) -> Iterator[None]:
        """The round of a group, from what all runs have."""
        actors = jax.tree.map(lambda leaf: leaf[group.runs], actors)
        start = now if self._threads is None else self._threads.submit
        with self._naming_the_seed(self.config.seeds[group.runs], self.copies):
            yield from group.round(actors, draws.of(group.runs), ready[group.runs], start, steps)

    @contextlib.contextmanager
    def _naming_the_seed(self, seeds: tuple[int, ...], copies: int) -> Iterator[None]:
        """If a simulation breaks down, the error names its seed; each of the seeds has this many copies."""
        try:
            yield
        except EnvironmentFailedError:
            self.exact = False  # a round was not finished: a checkpoint cannot continue it
            raise
        except SimulationError as error:
            seed = seeds[error.copies[0] // copies]
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

    def random_walk(self, env_steps: int, poll: Callable[[], None] = lambda: None) -> list[Visited]:
        """Uniformly random actions. Ends by the task are ignored, if the environment can go on then."""
        seeds, phi = self.config.seeds, self.setup.space.phi
        one = self.groups[0].env
        goes_on = getattr(one, "steps_past_end", True)
        walkers = -(-env_steps // one.time_limit) if goes_on else self.copies
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
        with self._naming_the_seed(self.config.seeds, episodes):
            return evaluate(self._evaluation, on_host(actors), seeds, self.setup, self.config.training.env_threads)

    def close(self) -> None:
        """The copies are not needed any more."""
        if self._threads is not None:
            self._threads.shutdown()
        for source in (*(group.env for group in self.groups), self.task):
            getattr(source, "close", lambda: None)()

    def snapshot(self) -> dict[str, NDArray[Any]]:
        """The complete state as named arrays, the same for any number of groups."""
        if not self.exact:
            return {"restarts": np.array(self._restarts)}
        return join([group.snapshot() for group in self.groups])

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Continue exactly from a snapshot, or begin new episodes if the environment could not save its state."""
        if "restarts" in arrays:
            return self._begin(int(arrays["restarts"]) + 1)
        for group in self.groups:
            group.restore(arrays if len(self.groups) == 1 else group.part_of(arrays))


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
