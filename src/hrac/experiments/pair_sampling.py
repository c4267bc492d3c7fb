"""The paper's comparison of adjacency learning with direct pair sampling: `hrac pairs`, described in docs/analyses.md.

A random agent walks in a grid world that a wall divides. Adjacency networks with the same first weights make the same number
of gradient steps on pairs from the same walks: pairs of the k-step adjacency table (the paper's method), and pairs drawn
straight from the trajectories (Savinov et al.). All are judged against the true k-step relation.
"""

import csv
import dataclasses
import functools
import io
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray
from numpy.typing import NDArray

from hrac.adjacency import learn, network
from hrac.adjacency.sources import Source, make_source
from hrac.config import ConfigError
from hrac.envs.grid import GridState, GridWorld, Outcome
from hrac.experiments.statistics import score
from hrac.experiments.tables import Table
from hrac.runs import Parts, over_runs
from hrac.settings import AdjacencyConfig
from hrac.spaces import AnyArray
from hrac.worlds.streams import Stream, run_keys

LAYOUT = """\
#################
#.......#.......#
#.....1.#.2.....#
#.......#.......#
#.......#.......#
#.......#.......#
#.......#.......#
#.......#.......#
#.......#.......#
#.......#.......#
#...............#
#A..............#
#################
"""
"""The paper's figure shows a room, a wall in it and a start A, but no sizes. Here s1 and s2 are 4 cells and 20 steps apart."""

K = 10
STEPS = 20_000
"""Environment steps of the random agent (paper)."""
EPISODE_STEPS = 200
"""Steps of an episode (ours; as in Maze)."""
GRADIENT_STEPS = 10_000
"""Of each network. The 50 epochs of Table 3 would be 9,568 in this map."""
MOST_STEPS = 10_000_000
"""Of any kind: more would not fit into memory, or take days."""
SEEDS = 10

SourceName = Literal["table", "trajectories", "oracle"]
BOTH: tuple[SourceName, ...] = ("table", "trajectories")

Masks = NDArray[np.bool_]
Floats = NDArray[np.floating]


class DividedRoom(GridWorld):
    """A grid world without a task. Episodes start at A; 1 and 2 are the states whose neighbourhoods are drawn."""

    letters = "A12"
    obs_dim = 2

    def __init__(self, layout: str = LAYOUT, *, time_limit: int = EPISODE_STEPS) -> None:
        super().__init__(layout, random_start=False, time_limit=time_limit, random_action_prob=0.0, ends_on_success=False)

    def _outcome(self, before: GridState, moved: Bool[AnyArray, ""], position: Int[AnyArray, "2"]) -> Outcome:
        nothing = before.has_key
        return Outcome(nothing.astype(np.float32), nothing, nothing)

    def _observe(self, state: GridState) -> Float[AnyArray, "2"]:
        return state.position.astype(np.float32)


class Walk(NamedTuple):
    """The positions of a random agent, in time order, each with the number of its episode."""

    positions: NDArray[np.float32]
    """(n, 2)"""
    episodes: NDArray[np.int64]
    """(n)"""


class Score(NamedTuple):
    """How well one network knows the k-step relation. Shares are of unordered pairs of different cells of the whole map."""

    seed: int
    source: str
    explored: int
    """Cells that the agent visited."""
    gradient_steps: int
    accuracy: float
    """Share of the pairs that are judged rightly."""
    misjudged_accuracy: float
    """The same over the pairs that Euclidean distance gets wrong (`misjudged`)."""
    false_positives: float
    """Share of the pairs beyond k steps that are judged adjacent."""
    false_negatives: float
    """Share of the pairs within k steps that are judged not adjacent."""
    best_accuracy: float
    """The accuracy if the threshold is not the configured one but the best for this network."""
    best_misjudged_accuracy: float
    """With that threshold, over the pairs that Euclidean distance gets wrong."""


class Result(NamedTuple):
    """The outcome of the comparison."""

    world: DividedRoom
    k: int
    threshold: float
    """A pair of embeddings nearer than this is judged adjacent."""
    euclidean: float
    """The accuracy of Euclidean distance with its best threshold."""
    misjudged: int
    """How many pairs it gets wrong."""
    scores: tuple[Score, ...]
    embeddings: dict[str, NDArray[np.float32]]
    """Of all cells, for the first seed, by source (cells, dimensions)."""

    def csv(self) -> str:
        """One line per network."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(Score._fields)
        writer.writerows([f"{value:.6f}" if isinstance(value, float) else value for value in line] for line in self.scores)
        return text.getvalue()

    def table(self) -> Table:
        """Interquartile means over seeds with their 95 % intervals."""
        columns = Score._fields[4:]
        rows = []
        for source in self.embeddings:
            lines = [line for line in self.scores if line.source == source]
            words = [_estimate(np.array([getattr(line, column) for line in lines])) for column in columns]
            rows.append([source, str(len(lines)), *words])
        pairs = len(self.world.cells) * (len(self.world.cells) - 1) // 2
        title = (
            f"{pairs:,} pairs of cells, k = {self.k}. Euclidean distance at its best threshold: accuracy {self.euclidean:.4f}, "
            f"{self.misjudged:,} pairs wrong."
        )
        return Table(title, ["pairs from", "seeds", *(column.replace("_", " ") for column in columns)], rows, 1)


def _estimate(values: NDArray[np.float64]) -> str:
    value, interval = score(values)
    return f"{value:.3f}" + ("" if interval is None else f" ({interval[0]:.3f} to {interval[1]:.3f})")


def run(
    seeds: Sequence[int] = tuple(range(SEEDS)),
    *,
    sources: Sequence[SourceName] = BOTH,
    steps: int = STEPS,
    episode_steps: int = EPISODE_STEPS,
    gradient_steps: int = GRADIENT_STEPS,
    k: int = K,
    layout: str = LAYOUT,
    cfg: AdjacencyConfig | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Result:
    """Walk once per seed, train a network per seed and source, and judge all of them. `say` gets a line per network."""
    for name, value in (("steps", steps), ("episode_steps", episode_steps), ("gradient_steps", gradient_steps), ("k", k)):
        if not 1 <= value <= MOST_STEPS:
            raise ConfigError(f"{name} must be from 1 to {MOST_STEPS:,}, got {value:,}")
    if not seeds or not sources:
        raise ConfigError("name at least one seed and one source of pairs")
    cfg = cfg or AdjacencyConfig()
    world = DividedRoom(layout, time_limit=min(episode_steps, steps))
    walks = {seed: random_walk(world, seed, steps) for seed in seeds}
    runs = [(seed, source) for seed in seeds for source in sources]
    truth = world.cell_distances <= k
    best, wrong = misjudged(world.cells, truth)
    scores: list[Score] = []
    embeddings: dict[str, NDArray[np.float32]] = {}
    for part in Parts(len(runs)).slices:
        states = train([(seed, source, walks[seed]) for seed, source in runs[part]], world, gradient_steps, k, cfg)
        for index, (seed, source) in enumerate(runs[part]):
            state = jax.tree.map(lambda leaf, i=index: np.asarray(leaf[i]), states)
            points = state.embedding(world.cells.astype(np.float32))
            embeddings.setdefault(source, points)
            explored = len(np.unique(walks[seed].positions, axis=0))
            made = int(state.opt_state[0].count)
            scores.append(Score(seed, source, explored, made, *judge(distances(points), truth, wrong, cfg.threshold)))
            say(f"seed {seed}, {source}: accuracy {scores[-1].accuracy:.4f}")
    return Result(world, k, cfg.threshold, best, int(wrong.sum()) // 2, tuple(scores), embeddings)


def random_walk(world: DividedRoom, seed: int, steps: int) -> Walk:
    """Exactly this many steps of uniformly random actions, in episodes from A to the time limit. The last may be shorter."""
    episodes = -(-steps // world.time_limit)
    key = run_keys([seed], Stream.RANDOM_WALK)[0]
    positions = np.asarray(_random_walk(key, world=world, episodes=episodes))
    numbers = np.repeat(np.arange(episodes), world.time_limit + 1)
    walked = steps + episodes  # each episode has one position more than steps
    return Walk(positions.reshape(-1, 2)[:walked], numbers[:walked])


@functools.partial(jax.jit, static_argnames=("world", "episodes"))
def _random_walk(key: PRNGKeyArray, *, world: DividedRoom, episodes: int) -> Float[Array, "episodes time 2"]:
    def episode(key: PRNGKeyArray) -> Array:
        key_reset, key_actions, key_steps = jax.random.split(key, 3)
        state, first = world.reset(key_reset)
        actions = jax.random.randint(key_actions, (world.time_limit,), 0, world.actions.choices)

        def one_step(state: GridState, drawn: tuple[PRNGKeyArray, Array]) -> tuple[GridState, Array]:
            step = world.step(drawn[0], state, drawn[1])
            return step.state, step.obs

        _, after = jax.lax.scan(one_step, state, (jax.random.split(key_steps, world.time_limit), actions))
        return jnp.concatenate([first[None], after])

    return jax.vmap(episode)(jax.random.split(key, episodes))


def train(
    runs: Sequence[tuple[int, SourceName, Walk]], world: DividedRoom, gradient_steps: int, k: int, cfg: AdjacencyConfig
) -> network.AdjacencyState:
    """The networks of several runs (seed, source, walk), each after exactly this many gradient steps.

    Runs of the same seed have the same first weights.
    """
    cfg = dataclasses.replace(cfg, max_gradient_steps=gradient_steps)
    truth, seeds = (world.cells, world.cell_distances), [seed for seed, _, _ in runs]
    sources: list[Source] = []
    for _, name, walk in runs:
        source = make_source(dataclasses.replace(cfg, source=name), k, 2, truth)
        assert source is not None
        source.extend(*walk)
        sources.append(source)
    states = over_runs(lambda key: network.init(key, 2, cfg), run_keys(seeds, Stream.INIT))
    rngs = [np.random.default_rng([seed, Stream.PAIRS]) for seed in seeds]
    epochs = gradient_steps * cfg.batch_size  # so many that the cap decides, even if one cell was explored
    return learn.train(states, sources, rngs, epochs, cfg)[0]


def distances(points: NDArray[np.number]) -> NDArray[np.float64]:
    """Straight lines between all points (n, n)."""
    wide = points.astype(np.float64)
    return np.sqrt(((wide[:, None] - wide[None]) ** 2).sum(axis=-1))


def misjudged(cells: NDArray[np.integer], truth: Masks) -> tuple[float, Masks]:
    """The accuracy of the best threshold on Euclidean distance, and the pairs (cells, cells) that it gets wrong.

    The best threshold has the highest accuracy over all pairs of different cells; of several, the lowest. The wrong pairs are
    of both kinds: those beyond k steps that it takes to be near, as across a wall, and those within k steps that it takes to be
    far, as straight ahead. So a network that calls everything far, or everything near, does not get all of them
    right.

    >>> cells = np.array([[0], [1], [2], [6]])  # a line, where 1 and 2 are kept apart by a thin wall
    >>> near = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], bool)
    >>> best, wrong = misjudged(cells, near)
    >>> round(best, 3), np.argwhere(np.triu(wrong)).tolist()
    (0.833, [[0, 1]])
    """
    straight = distances(cells)
    threshold, accuracy = best_threshold(straight, truth)
    different = ~np.eye(len(cells), dtype=bool)
    return accuracy, ((straight <= threshold) != truth) & different


def best_threshold(separations: Floats, truth: Masks) -> tuple[float, float]:
    """The distance up to which pairs are best judged adjacent, and the accuracy of that over pairs of different cells."""
    above = np.triu_indices(len(truth), 1)
    far, near = separations[above], truth[above]
    order = np.argsort(far, kind="stable")
    far, near = far[order], near[order]
    # With the first i pairs judged adjacent: how many of them are, and how many of the others are not.
    right = np.concatenate([[0], np.cumsum(near)]) + np.concatenate([np.cumsum(~near[::-1])[::-1], [0]])
    ends = np.flatnonzero(np.append(far[1:] > far[:-1], True)) + 1  # equal distances are judged alike
    at = np.concatenate([[0], ends])
    best = int(at[np.argmax(right[at])])
    return float(far[best - 1]) if best else -1.0, float(right[best] / len(far))


def judge(separations: Floats, truth: Masks, wrong: Masks, threshold: float) -> tuple[float, ...]:
    """The last six numbers of a `Score`, from learned distances (cells, cells); NaN if there is no pair of a kind."""
    above = np.triu_indices(len(truth), 1)
    far, near, hard = separations[above], truth[above], wrong[above]
    best, best_accuracy = best_threshold(separations, truth)
    judged = far < threshold
    return (
        _share(judged == near, np.ones_like(near)),
        _share(judged == near, hard),
        _share(judged, ~near),
        _share(~judged, near),
        best_accuracy,
        _share((far <= best) == near, hard),
    )


def _share(holds: Masks, among: Masks) -> float:
    return float(holds[among].mean()) if among.any() else float("nan")
